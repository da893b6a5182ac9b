// SPDX-License-Identifier: Apache-2.0
// Attention with online softmax: scores are made, exponentiated and used tile by tile and never stored whole. For CPUs,
// and for GPUs where no 16-bit units multiply the weights: as strict as the region is.
// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al., "FlashAttention"
// (2022).
#include <algorithm>

#include "strategy/attention.h"
#include "fuse/attention.h"
#include "strategy/attention_tile.h"

namespace graft::tile {
namespace {

class AttentionLowering : AttentionTile {
 public:
  using AttentionTile::AttentionTile;

  Program run() {
    make_grid();
    make_scratch();
    initialise();
    For loop = key_loop();
    add_scores(loop.body);
    add_softmax(loop.body);
    add_weighted(loop.body);
    builder_.add({std::move(loop)});
    for (const Compute* out : forms_.results) add_result(*out, out->value);
    return builder_.finish(region_.name);
  }

 private:
  void make_scratch() {
    const DType type = type_;
    const Size queries = schedule_.queries, keys = schedule_.keys;
    const Size& depth = forms_.scores->reduced[0].extent;
    if (copies_keys()) transposed_keys_ = builder_.add_scratch("keys", type, {depth, keys});
    // The vectors of a CPU multiply f32 only.
    const bool narrow_values = forms_.values->type != type;
    if (!on_gpu_ && forms_.queries->type != type) wide_queries_ = builder_.add_scratch("wide", type, {queries, depth});
    if (!on_gpu_ && narrow_values) wide_values_ = builder_.add_scratch("values", type, {keys, value_axis().extent});
    scores_ = builder_.add_scratch("scores", type, {queries, keys}, Scope::kFragment);
    const Scope row_scope = on_gpu_ ? Scope::kFragment : Scope::kShared;
    largest_ = builder_.add_scratch("largest", type, {queries}, row_scope);
    tile_largest_ = builder_.add_scratch("tile_largest", type, {queries}, row_scope);
    rescale_ = builder_.add_scratch("rescale", type, {queries}, row_scope);
    sum_ = builder_.add_scratch("sum", type, {queries}, row_scope);
    tile_sum_ = builder_.add_scratch("tile_sum", type, {queries}, row_scope);
    weighted_ = builder_.add_scratch("weighted", type, {queries, value_axis().extent}, Scope::kFragment);
  }

  /// The vectors of a CPU run along the keys; the matrix units of a GPU read them as they lie.
  bool copies_keys() const { return !on_gpu_ || forms_.keys->kind != ExprKind::kLoad; }

  void initialise() {
    const Axis i = row_axis();
    builder_.add({Map{{i}, {}, {{largest_, {i.variable}, minus_infinity()}}}});
    builder_.add({Map{{i}, {}, {{sum_, {i.variable}, make_constant(type_, 0)}}}});
    add_constant(row_axis(), make_axis(value_axis().extent), weighted_, type_, 0);
    if (wide_queries_ >= 0) widen_queries();
  }

  void widen_queries() {
    const graft::Axis& depth = forms_.scores->reduced[0];
    const Axis i = row_axis(), d = make_axis(depth.extent);
    Replacements where = at(i.variable);
    where.emplace_back(depth.variable->variable, d.variable);
    const Expr value = make_cast(type_, convert(forms_.queries, where, {}, {}));
    builder_.add({Map{{i, d}, {}, {{wide_queries_, {i.variable, d.variable}, value, ScatterMode::kSet}}}});
  }

  /// scores = q k^T, then scale and mask.
  void add_scores(Body& body) const {
    const graft::Reduce& form = *forms_.scores;
    const Expr key = form.axes.back().variable, depth = form.reduced[0].variable;
    if (copies_keys()) {
      const Axis d = make_axis(form.reduced[0].extent), j = column_axis();
      Replacements where = at(make_index(0), key, j.variable);
      where.emplace_back(depth->variable, d.variable);
      const Expr value = make_cast(type_, convert(forms_.keys, where, {}, {}));
      body.push_back({Map{{d, j}, {}, {{transposed_keys_, {d.variable, j.variable}, value, ScatterMode::kSet}}}});
    }
    Contract contract;
    const Axis i = row_axis(), j = column_axis(), d = make_axis(form.reduced[0].extent);
    contract.m = {i}, contract.n = {j}, contract.k = {d};
    Replacements where = at(i.variable);
    where.emplace_back(depth->variable, d.variable);
    const bool widened = wide_queries_ >= 0;
    contract.a = widened ? load(wide_queries_, {i.variable, d.variable}) : convert(forms_.queries, where, {}, {});
    if (copies_keys()) {
      contract.b = load(transposed_keys_, {d.variable, j.variable});
    } else {
      Replacements keys_at = at(make_index(0), key, j.variable);
      keys_at.emplace_back(depth->variable, d.variable);
      contract.b = convert(forms_.keys, keys_at, {}, {});
    }
    contract.c = scores_;
    contract.c_indices = {i.variable, j.variable};
    contract.tf32 = rounds_to_tf32(contract, region_, target_);
    body.push_back({std::move(contract)});
    const Axis row = row_axis(), column = column_axis();
    const Expr biased =
        convert(forms_.logits, at(row.variable, forms_.logits_key, column.variable), row.variable, column.variable);
    body.push_back({Map{{row, column}, {}, {{scores_, {row.variable, column.variable}, biased, ScatterMode::kSet}}}});
  }

  /// The running maximum grows; what was summed under the old one is rescaled.
  void add_softmax(Body& body) const {
    add_row_reduce(body, row_axis(), column_axis(), tile_largest_, Intrinsic::kMax);
    add_row_map(body, row_axis(), tile_largest_,
                [&](const Expr& i) { return max(load(tile_largest_, {i}), load(largest_, {i})); });
    add_row_map(body, row_axis(), rescale_, [&](const Expr& i) {
      const Expr before = load(largest_, {i}), after = load(tile_largest_, {i});
      return select(eq(before, after), make_constant(type_, 1), exp(before - after));
    });
    add_row_map(body, row_axis(), largest_, [&](const Expr& i) { return load(tile_largest_, {i}); });
    const Axis i = row_axis(), j = column_axis();
    const std::vector<Expr> point = {i.variable, j.variable};
    const Expr shift = convert(forms_.shift, at(i.variable), i.variable, j.variable);
    Map exponentials{{i, j}, {}, {{scores_, point, exp(load(scores_, point) - shift), ScatterMode::kSet}}};
    body.push_back({std::move(exponentials)});
    add_row_reduce(body, row_axis(), column_axis(), tile_sum_, Intrinsic::kAdd);
    add_row_map(body, row_axis(), sum_,
                [&](const Expr& row) { return load(sum_, {row}) * load(rescale_, {row}) + load(tile_sum_, {row}); });
  }

  Replacements values_at(const Axis& key, const Axis& value) const {
    Replacements where = at(make_index(0), key_axis().variable, key.variable);
    where.emplace_back(value_axis().variable->variable, value.variable);
    return where;
  }

  void add_weighted(Body& body) const {
    {
      const Axis i = row_axis(), e = make_axis(value_axis().extent);
      const std::vector<Expr> point = {i.variable, e.variable};
      body.push_back({Map{
          {i, e}, {}, {{weighted_, point, load(weighted_, point) * load(rescale_, {i.variable}), ScatterMode::kSet}}}});
    }
    if (wide_values_ >= 0) {
      const Axis j = column_axis(), e = make_axis(value_axis().extent);
      const Expr value = make_cast(type_, convert(forms_.values, values_at(j, e), {}, {}));
      body.push_back({Map{{j, e}, {}, {{wide_values_, {j.variable, e.variable}, value, ScatterMode::kSet}}}});
    }
    Contract contract;
    const Axis i = row_axis(), e = make_axis(value_axis().extent), j = column_axis();
    contract.m = {i}, contract.n = {e}, contract.k = {j};
    contract.a = load(scores_, {i.variable, j.variable});
    const bool widened = wide_values_ >= 0;
    contract.b =
        widened ? load(wide_values_, {j.variable, e.variable}) : convert(forms_.values, values_at(j, e), {}, {});
    contract.c = weighted_;
    contract.c_indices = {i.variable, e.variable};
    contract.accumulate = true;
    contract.tf32 = rounds_to_tf32(contract, region_, target_);
    body.push_back({std::move(contract)});
  }

  int transposed_keys_ = -1, tile_sum_ = -1;
  int wide_queries_ = -1, wide_values_ = -1;  ///< copies in the type of the scores
};

}  // namespace

Lowered lower_attention(const Region& region, const AttentionSchedule& schedule, const Target& target) {
  std::string reason;
  const auto forms = find_attention(region, reason);
  if (!forms) return reason;
  if (target.kind == TargetKind::kCuda && (schedule.queries % 16 != 0 || schedule.queries > 256)) {
    return "a tile of queries is not whole warps of 16";
  }
  const bool narrow = forms->values->type != forms->scores->lift[0]->type;
  if (target.kind == TargetKind::kCuda && narrow && forms->scores->lift[0]->type == DType::kFloat32) {
    if (schedule.keys % 16 != 0) return "a tile of keys is not whole steps of 16";
    return lower_block_attention(region, *forms, schedule, target);
  }
  return AttentionLowering(region, *forms, schedule, target).run();
}

}  // namespace graft::tile
