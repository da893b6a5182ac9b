// SPDX-License-Identifier: Apache-2.0
// Attention with online softmax: scores are made, exponentiated and used tile by tile and never stored whole.
// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al., "FlashAttention"
// (2022).
#include <algorithm>
#include <limits>

#include "fuse/attention.h"
#include "fuse/rewrite_region.h"
#include "tile/builder.h"

namespace graft::tile {
namespace {

using Replacements = std::vector<std::pair<int, Expr>>;

class AttentionLowering {
 public:
  AttentionLowering(const Region& region, const AttentionForms& forms, const AttentionSchedule& schedule,
                    const Target& target)
      : region_(region),
        forms_(forms),
        schedule_(schedule),
        target_(target),
        builder_(region, {}),
        on_gpu_(target.kind == TargetKind::kCuda) {
    // On a GPU a warp has 16 rows.
    builder_.program.threads = on_gpu_ ? static_cast<int>(schedule.queries) * 2 : 0;
  }

  Program run() {
    make_grid();
    make_scratch();
    initialise();
    For loop{.axis = make_axis(ceil_div(key_axis().extent, schedule_.keys)), .stages = on_gpu_ ? 2 : 1, .body = {}};
    if (const Expr seen = keys_seen()) {
      const Expr tiles = floor_div(seen + make_index(schedule_.keys - 1), make_index(schedule_.keys));
      loop.axis.extent = min(loop.axis.extent, max(tiles, make_index(0)));
    }
    key_begin_ = loop.axis.variable * make_index(schedule_.keys);
    add_scores(loop.body);
    add_softmax(loop.body);
    add_weighted(loop.body);
    builder_.add({std::move(loop)});
    for (const Compute* out : forms_.results) add_result(*out);
    return builder_.finish(region_.name);
  }

 private:
  const graft::Axis& key_axis() const { return forms_.weighted->reduced[0]; }
  const graft::Axis& value_axis() const { return forms_.weighted->axes.back(); }

  /// How many of the first keys any query of the tile sees, when the logits of all others are minus infinity: those of
  /// select(key <= f(query), ..., -inf) with f growing. Null when they may see all.
  Expr keys_seen() const {
    Expr logits = forms_.logits, seen;
    const double infinity = std::numeric_limits<double>::infinity();
    while (is_call(logits, Intrinsic::kSelect)) {
      const Expr& otherwise = logits->args[2];
      if (otherwise->kind != ExprKind::kConstant || otherwise->real != -infinity) break;
      std::vector<Expr> conditions = {logits->args[0]};
      while (!conditions.empty()) {
        const Expr condition = conditions.back();
        conditions.pop_back();
        if (is_call(condition, Intrinsic::kAnd)) {
          conditions.insert(conditions.end(), condition->args.begin(), condition->args.end());
        } else if (const Expr limit = key_limit(condition)) {
          seen = seen ? min(seen, limit) : limit;
        }
      }
      logits = logits->args[1];
    }
    return seen;
  }

  /// key <= f(query), key < f(query) -> how many keys the last query of the tile sees.
  Expr key_limit(const Expr& condition) const {
    const bool inclusive = is_call(condition, Intrinsic::kLe);
    if (!inclusive && !is_call(condition, Intrinsic::kLt)) return {};
    const int row = forms_.common.back().variable->variable;
    const auto bound = affine(condition->args[1]);
    if (!equal(condition->args[0], forms_.logits_key) || !bound) return {};
    const Size growth = bound->coefficient(row);
    if (!growth.as_constant() || *growth.as_constant() < 0) return {};
    if (uses_variable(condition->args[1], forms_.logits_key->variable)) return {};
    Replacements last = fixed_;
    last.emplace_back(row, row_begin_ + make_size(row_step_) - make_index(1));
    return substitute(condition->args[1], last) + make_index(inclusive ? 1 : 0);
  }

  void make_grid() {
    const auto& common = forms_.common;
    for (size_t i = 0; i + 1 < common.size(); ++i) {
      fixed_.emplace_back(common[i].variable->variable, builder_.add_grid(common[i].extent));
    }
    // Nearly equal tiles of query rows on a CPU, whole ones on a GPU, whose matrix units pad them anyhow.
    const Size rows = common.back().extent;
    const Size tiles = max(ceil_div(rows, schedule_.queries), Size(1));
    row_step_ = on_gpu_ ? Size(schedule_.queries) : ceil_div(rows, tiles);
    row_begin_ = (tiles.is(1) ? make_index(0) : builder_.add_grid(tiles)) * make_size(row_step_);
    rows_ = rows;
  }

  void make_scratch() {
    const DType type = forms_.scores->lift[0]->type;
    const Size queries = schedule_.queries, keys = schedule_.keys;
    const Size& depth = forms_.scores->reduced[0].extent;
    if (copies_keys()) transposed_keys_ = builder_.add_scratch("keys", type, {depth, keys});
    // The vectors of a CPU multiply f32 only, the matrix units of a GPU operands of one type.
    const bool narrow_values = forms_.values->type != type;
    if (!on_gpu_ && forms_.queries->type != type) wide_queries_ = builder_.add_scratch("wide", type, {queries, depth});
    if (!on_gpu_ && narrow_values) wide_values_ = builder_.add_scratch("values", type, {keys, value_axis().extent});
    if (on_gpu_ && narrow_values) {
      weights_ = builder_.add_scratch("weights", forms_.values->type, {queries, keys}, Scope::kFragment);
    }
    scores_ = builder_.add_scratch("scores", type, {queries, keys}, Scope::kFragment);
    const Scope row_scope = on_gpu_ ? Scope::kFragment : Scope::kShared;
    largest_ = builder_.add_scratch("largest", type, {queries}, row_scope);
    tile_largest_ = builder_.add_scratch("tile_largest", type, {queries}, row_scope);
    rescale_ = builder_.add_scratch("rescale", type, {queries}, row_scope);
    sum_ = builder_.add_scratch("sum", type, {queries}, row_scope);
    tile_sum_ = builder_.add_scratch("tile_sum", type, {queries}, row_scope);
    weighted_ = builder_.add_scratch("weighted", type, {queries, value_axis().extent}, Scope::kFragment);
    type_ = type;
  }

  /// The vectors of a CPU run along the keys; the matrix units of a GPU read them as they lie.
  bool copies_keys() const { return !on_gpu_ || forms_.keys->kind != ExprKind::kLoad; }

  Axis row_axis() const {
    if (on_gpu_ && rows_.is_multiple_of(schedule_.queries)) return make_axis(Size(schedule_.queries));
    return make_axis(min(make_size(row_step_), make_size(rows_) - row_begin_), schedule_.queries);
  }
  Axis column_axis() const {
    const auto extent = key_axis().extent.as_constant();
    if (extent && *extent % schedule_.keys == 0) return make_axis(Size(schedule_.keys));
    return make_axis(min(make_index(schedule_.keys), make_size(key_axis().extent) - key_begin_), schedule_.keys);
  }

  /// What region variables are at local row `i` and, for the axis `key`, local column `j`.
  Replacements at(const Expr& row, const Expr& key_variable = {}, const Expr& column = {}) const {
    Replacements result = fixed_;
    result.emplace_back(forms_.common.back().variable->variable, row_begin_ + row);
    if (key_variable) result.emplace_back(key_variable->variable, key_begin_ + column);
    return result;
  }

  /// Region expression -> buffers; loads of the region's own tensors read the tiles at (row, column).
  Expr convert(const Expr& e, const Replacements& replacements, const Expr& row, const Expr& column) const {
    const Expr tiled = transform(e, [&](const Expr& node) -> Expr {
      if (node->kind != ExprKind::kLoad) return {};
      if (is_score_tensor(node->tensor)) return local(scores_, {row, column});
      if (node->tensor == forms_.largest->outputs[0]) return local(largest_, {row});
      if (node->tensor == forms_.sum->outputs[0]) return local(sum_, {row});
      if (node->tensor == forms_.weighted->outputs[0]) return local(weighted_, {row, column});
      return {};
    });
    const Expr placed = substitute(tiled, replacements);
    return transform(placed, [&](const Expr& node) -> Expr {
      // Scratch loads carry their buffer number below zero until region tensors have become buffers.
      if (node->kind != ExprKind::kLoad) return {};
      if (node->tensor < 0) return make_load(-1 - node->tensor, node->type, node->args);
      return make_load(builder_.buffer_of(node->tensor), node->type, node->args);
    });
  }

  Expr local(int buffer, const std::vector<Expr>& indices) const { return make_load(-1 - buffer, type_, indices); }
  Expr load(int buffer, const std::vector<Expr>& indices) const { return make_load(buffer, type_, indices); }

  bool is_score_tensor(int tensor) const {
    return tensor == forms_.scores->outputs[0] || (forms_.biased && tensor == forms_.biased->output) ||
           tensor == forms_.exponentials->output;
  }

  void initialise() {
    const Axis i = row_axis();
    const double infinity = std::numeric_limits<double>::infinity();
    builder_.add({Map{{i}, {}, {{largest_, {i.variable}, make_constant(type_, -infinity), ScatterMode::kSet}}}});
    builder_.add({Map{{i}, {}, {{sum_, {i.variable}, make_constant(type_, 0), ScatterMode::kSet}}}});
    const Axis row = row_axis(), e = make_axis(value_axis().extent);
    builder_.add(
        {Map{{row, e}, {}, {{weighted_, {row.variable, e.variable}, make_constant(type_, 0), ScatterMode::kSet}}}});
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

  void add_row_map(Body& body, int buffer, const std::function<Expr(const std::vector<Expr>&)>& value) const {
    const Axis i = row_axis();
    body.push_back({Map{{i}, {}, {{buffer, {i.variable}, value({i.variable}), ScatterMode::kSet}}}});
  }

  void add_row_reduce(Body& body, int buffer, Intrinsic combine) const {
    const Axis i = row_axis(), j = column_axis();
    Reduce reduce;
    reduce.axes = {i}, reduce.reduced = {j};
    reduce.lift = {load(scores_, {i.variable, j.variable})};
    reduce.monoid = make_monoid(combine, type_);
    reduce.outputs = {{buffer, {i.variable}, {}, ScatterMode::kSet}};
    body.push_back({std::move(reduce)});
  }

  /// The running maximum grows; what was summed under the old one is rescaled.
  void add_softmax(Body& body) const {
    add_row_reduce(body, tile_largest_, Intrinsic::kMax);
    add_row_map(body, tile_largest_, [&](const auto& i) { return max(load(tile_largest_, i), load(largest_, i)); });
    add_row_map(body, rescale_, [&](const auto& i) {
      const Expr before = load(largest_, i), after = load(tile_largest_, i);
      return select(eq(before, after), make_constant(type_, 1), exp(before - after));
    });
    add_row_map(body, largest_, [&](const auto& i) { return load(tile_largest_, i); });
    const Axis i = row_axis(), j = column_axis();
    const std::vector<Expr> point = {i.variable, j.variable};
    const Expr shift = convert(forms_.shift, at(i.variable), i.variable, j.variable);
    Map exponentials{{i, j}, {}, {{scores_, point, exp(load(scores_, point) - shift), ScatterMode::kSet}}};
    if (weights_ >= 0) {
      // Rounded as the values are, so that matrix units can multiply the two; the sum below is of the exact ones.
      const Expr rounded = make_cast(forms_.values->type, load(scores_, point));
      exponentials.stores.push_back({weights_, point, rounded, ScatterMode::kSet});
    }
    body.push_back({std::move(exponentials)});
    add_row_reduce(body, tile_sum_, Intrinsic::kAdd);
    add_row_map(body, sum_,
                [&](const auto& row) { return load(sum_, row) * load(rescale_, row) + load(tile_sum_, row); });
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
    contract.a = make_load(weights_ >= 0 ? weights_ : scores_, weights_ >= 0 ? forms_.values->type : type_,
                           {i.variable, j.variable});
    const bool widened = wide_values_ >= 0;
    contract.b = widened ? load(wide_values_, {j.variable, e.variable})
                         : convert(forms_.values, values_at(j, e), {}, {});
    contract.c = weighted_;
    contract.c_indices = {i.variable, e.variable};
    contract.accumulate = true;
    contract.tf32 = rounds_to_tf32(contract, region_, target_);
    body.push_back({std::move(contract)});
  }

  void add_result(const Compute& out) {
    const Axis i = row_axis(), e = make_axis(value_axis().extent);
    Replacements where = at(i.variable);
    where.emplace_back(out.axes.back().variable->variable, e.variable);
    const Expr value = convert(out.value, where, i.variable, e.variable);
    std::vector<Expr> indices;
    for (const graft::Axis& axis : out.axes) indices.push_back(substitute(axis.variable, where));
    builder_.add({Map{{i, e}, {}, {builder_.store(out.output, indices, value)}}});
  }

  const Region& region_;
  const AttentionForms& forms_;
  const AttentionSchedule& schedule_;
  const Target& target_;
  ProgramBuilder builder_;
  bool on_gpu_;
  Replacements fixed_;
  Size row_step_, rows_;
  Expr row_begin_, key_begin_;
  DType type_ = DType::kFloat32;
  int transposed_keys_ = -1, scores_ = -1, largest_ = -1, tile_largest_ = -1, rescale_ = -1, sum_ = -1, tile_sum_ = -1,
      weighted_ = -1;
  int wide_queries_ = -1, wide_values_ = -1;  ///< copies in the type of the scores
  int weights_ = -1;                          ///< the exponentials in the type of the values
};

}  // namespace

Lowered lower_attention(const Region& region, const AttentionSchedule& schedule, const Target& target) {
  std::string reason;
  const auto forms = find_attention(region, reason);
  if (!forms) return reason;
  if (target.kind == TargetKind::kCuda && (schedule.queries % 16 != 0 || schedule.queries > 256)) {
    return "a tile of queries is not whole warps of 16";
  }
  return AttentionLowering(region, *forms, schedule, target).run();
}

}  // namespace graft::tile
