// SPDX-License-Identifier: Apache-2.0
// Attention with online softmax: scores are made, exponentiated and used tile by tile and never stored whole.
// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al., "FlashAttention"
// (2022).
#include <algorithm>
#include <limits>
#include <numbers>

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
    if (const Expr seen = keys_seen(row_begin_ + make_size(row_step_) - make_index(1))) {
      const Expr tiles = floor_div(seen + make_index(schedule_.keys - 1), make_index(schedule_.keys));
      loop.axis.extent = min(loop.axis.extent, max(tiles, make_index(0)));
    }
    key_begin_ = loop.axis.variable * make_index(schedule_.keys);
    if (weights_ >= 0) {
      add_block_steps(loop);
    } else {
      add_scores(loop.body);
      add_softmax(loop.body);
      add_weighted(loop.body);
    }
    builder_.add({std::move(loop)});
    if (weights_ >= 0) add_sum();
    if (inverse_ >= 0) {
      add_row_map(builder_.program.body, inverse_, [&](const auto& i) {
        return make_constant(type_, 1) / convert(divisor_, at(i[0]), i[0], {});
      });
    }
    for (const Compute* out : forms_.results) add_result(*out);
    return builder_.finish(region_.name);
  }

 private:
  const graft::Axis& key_axis() const { return forms_.weighted->reduced[0]; }
  const graft::Axis& value_axis() const { return forms_.weighted->axes.back(); }

  /// select(c, select(d and e, x, -inf), -inf) -> c, d, e; `logits` becomes x.
  static std::vector<Expr> take_conditions(Expr& logits) {
    const double infinity = std::numeric_limits<double>::infinity();
    std::vector<Expr> found;
    while (is_call(logits, Intrinsic::kSelect)) {
      const Expr otherwise = logits->args[2], condition = logits->args[0];
      if (otherwise->kind != ExprKind::kConstant || otherwise->real != -infinity) break;
      std::vector<Expr> conditions = {condition};
      while (!conditions.empty()) {
        const Expr each = conditions.back();
        conditions.pop_back();
        if (is_call(each, Intrinsic::kAnd)) {
          conditions.insert(conditions.end(), each->args.begin(), each->args.end());
        } else {
          found.push_back(each);
        }
      }
      logits = Expr(logits->args[1]);
    }
    return found;
  }

  /// How many of the first keys the query `row` sees, when the logits of all others are minus infinity: those of
  /// select(key <= f(query), ..., -inf) with f growing. Null when it may see all.
  Expr keys_seen(const Expr& row) const {
    Expr logits = forms_.logits, seen;
    for (const Expr& condition : take_conditions(logits)) {
      if (const Expr limit = key_limit(condition, row)) seen = seen ? min(seen, limit) : limit;
    }
    return seen;
  }

  /// key <= f(query), key < f(query) -> how many keys the query `row` sees.
  Expr key_limit(const Expr& condition, const Expr& row_index) const {
    const bool inclusive = is_call(condition, Intrinsic::kLe);
    if (!inclusive && !is_call(condition, Intrinsic::kLt)) return {};
    const int row = forms_.common.back().variable->variable;
    const auto bound = affine(condition->args[1]);
    if (!equal(condition->args[0], forms_.logits_key) || !bound) return {};
    const Size growth = bound->coefficient(row);
    if (!growth.as_constant() || *growth.as_constant() < 0) return {};
    if (uses_variable(condition->args[1], forms_.logits_key->variable)) return {};
    Replacements last = fixed_;
    last.emplace_back(row, row_index);
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
    Expr tile = tiles.is(1) ? make_index(0) : builder_.add_grid(tiles);
    // Where later queries see more keys, they come first: short blocks fill up the end.
    row_begin_ = tile * make_size(row_step_);
    if (on_gpu_ && !tiles.is(1) && keys_seen(row_begin_)) {
      tile = make_size(tiles - 1) - tile;
      row_begin_ = tile * make_size(row_step_);
    }
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
    type_ = type;
    if (on_gpu_ && narrow_values && type == DType::kFloat32) make_block_scratch();
    scores_ = builder_.add_scratch("scores", type, {queries, keys}, Scope::kFragment);
    const Scope row_scope = on_gpu_ ? Scope::kFragment : Scope::kShared;
    largest_ = builder_.add_scratch("largest", type, {queries}, row_scope);
    tile_largest_ = builder_.add_scratch("tile_largest", type, {queries}, row_scope);
    rescale_ = builder_.add_scratch("rescale", type, {queries}, row_scope);
    sum_ = builder_.add_scratch("sum", type, {queries}, row_scope);
    if (weights_ < 0) tile_sum_ = builder_.add_scratch("tile_sum", type, {queries}, row_scope);
    weighted_ = builder_.add_scratch("weighted", type, {queries, value_axis().extent}, Scope::kFragment);
  }

  /// The vectors of a CPU run along the keys; the matrix units of a GPU read them as they lie.
  bool copies_keys() const { return !on_gpu_ || forms_.keys->kind != ExprKind::kLoad; }

  Axis row_axis() const {
    if (on_gpu_ && rows_.is_multiple_of(schedule_.queries)) return make_axis(Size(schedule_.queries));
    return make_axis(min(make_size(row_step_), make_size(rows_) - row_begin_), schedule_.queries);
  }
  Axis column_axis() const {
    const auto extent = key_axis().extent.as_constant();
    // Scores that are made ahead are made once more than there are tiles.
    if (extent && *extent % schedule_.keys == 0 && !schedule_.ahead) return make_axis(Size(schedule_.keys));
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
      if (node->tensor == kInverse) return local(inverse_, {row});
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
    if (weight_sums_ >= 0) {
      const Axis i = whole_rows(), j = make_axis(Size(kSumColumns));
      builder_.add({Map{{i, j}, {}, {{weight_sums_, {i.variable, j.variable}, make_constant(type_, 0)}}}});
    }
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
    const Axis i = weights_ >= 0 ? whole_rows() : row_axis();
    body.push_back({Map{{i}, {}, {{buffer, {i.variable}, value({i.variable}), ScatterMode::kSet}}}});
  }

  void add_row_reduce(Body& body, int buffer, Intrinsic combine) const {
    const bool whole = weights_ >= 0;
    const Axis i = whole ? whole_rows() : row_axis(), j = whole ? whole_columns() : column_axis();
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
    contract.a = load(scores_, {i.variable, j.variable});
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
    const Expr value = convert(inverse_ >= 0 ? multiplied(out) : out.value, where, i.variable, e.variable);
    std::vector<Expr> indices;
    for (const graft::Axis& axis : out.axes) indices.push_back(substitute(axis.variable, where));
    builder_.add({Map{{i, e}, {}, {builder_.store(out.output, indices, value)}}});
  }

  // Blocks of a GPU whose matrix units multiply 16-bit weights and values. Exponentials are powers of two, of logits in
  // units of log 2; their factor is applied together with the shift, in one rounding.

  void make_block_scratch() {
    weights_ = builder_.add_scratch("weights", forms_.values->type, {Size(schedule_.queries), Size(schedule_.keys)},
                                    Scope::kFragment);
    weight_sums_ = builder_.add_scratch("weight_sums", type_, {Size(schedule_.queries), Size(kSumColumns)},
                                        Scope::kFragment);
    shift_ = builder_.add_scratch("shift", type_, {Size(schedule_.queries)}, Scope::kFragment);
    logits_ = forms_.logits;
    for (const Expr& condition : take_conditions(logits_)) {
      bool loads = false;
      for_each(condition, [&](const Expr& node) { loads |= node->kind == ExprKind::kLoad; });
      (loads ? loaded_conditions_ : conditions_).push_back(condition);
    }
    const auto is_scores = [&](const Expr& e) { return e->kind == ExprKind::kLoad && is_score_tensor(e->tensor); };
    const auto is_positive = [](const Expr& e) { return e->kind == ExprKind::kConstant && e->real > 0; };
    scale_ = std::numbers::log2e;
    if (is_call(logits_, Intrinsic::kMul)) {
      for (int side = 0; side < 2 && !is_scores(logits_); ++side) {
        const Expr factor = logits_->args[side], other = logits_->args[1 - side];
        if (is_scores(other) && is_positive(factor)) scale_ *= factor->real, logits_ = other;
      }
    } else if (is_call(logits_, Intrinsic::kDiv) && is_scores(logits_->args[0]) && is_positive(logits_->args[1])) {
      scale_ /= logits_->args[1]->real, logits_ = Expr(logits_->args[0]);
    }
    // What is more than a product with the scores is computed where the scores were.
    if (!loaded_conditions_.empty()) {
      Expr all = loaded_conditions_[0];
      for (size_t i = 1; i < loaded_conditions_.size(); ++i) all = all && loaded_conditions_[i];
      const double infinity = std::numeric_limits<double>::infinity();
      logits_ = select(all, logits_, make_constant(type_, -infinity));
    }
    computes_logits_ = !is_scores(logits_);
    find_divisor();
  }

  /// weighted / f(sum), the same f in all results -> weighted * (1 / f(sum)), the inverse being computed once for a row.
  void find_divisor() {
    for (const Compute* out : forms_.results) {
      for_each(out->value, [&](const Expr& node) {
        if (is_call(node, Intrinsic::kDiv) && node->type == type_ && is_of_row(node->args[1], *out)) {
          if (!divisor_) divisor_ = node->args[1];
        }
      });
    }
    if (divisor_) inverse_ = builder_.add_scratch("inverse", type_, {Size(schedule_.queries)}, Scope::kFragment);
  }
  /// Whether the value is computed of the sum of the row and of constants.
  bool is_of_row(const Expr& value, const Compute& out) const {
    bool only = false, others = false;
    for_each(value, [&](const Expr& node) {
      const bool sum = node->kind == ExprKind::kLoad && node->tensor == forms_.sum->outputs[0];
      only |= sum;
      others |= node->kind == ExprKind::kLoad && !sum;
    });
    return only && !others && !uses_variable(value, out.axes.back().variable->variable);
  }
  Expr multiplied(const Compute& out) const {
    return transform(out.value, [&](const Expr& node) -> Expr {
      if (!is_call(node, Intrinsic::kDiv) || !equal(node->args[1], divisor_)) return {};
      return node->args[0] * make_load(kInverse, type_, {});
    });
  }

  Axis whole_rows() const { return make_axis(Size(schedule_.queries)); }
  Axis whole_columns() const { return make_axis(Size(schedule_.keys)); }
  bool has_whole_tiles() const { return key_axis().extent.is_multiple_of(schedule_.keys); }

  /// The scores of tile t, their exponentials and the sum that they weigh: one after the other, or, when the schedule
  /// asks for it, the scores of tile t before the sum of tile t - 1, so that a product runs beside the exponentials.
  void add_block_steps(For& loop) {
    const Expr tiles = loop.axis.extent, tile = loop.axis.variable;
    if (!schedule_.ahead) {
      add_block_scores(loop.body);
      add_exponentials(loop.body);
      add_rescaling(loop.body);
      add_block_weighted(loop.body, key_begin_);
      return;
    }
    const Axis i = whole_rows(), j = whole_columns();
    builder_.add({Map{{i, j}, {}, {{weights_, {i.variable, j.variable}, make_constant(forms_.values->type, 0)}}}});
    loop.axis.extent = tiles + make_index(1);
    if (loop.axis.bound > 0) ++loop.axis.bound;
    add_block_scores(loop.body);
    add_block_weighted(loop.body, (tile - make_index(1)) * make_index(schedule_.keys));
    If present{lt(tile, tiles), {}};
    add_exponentials(present.body);
    add_rescaling(present.body);
    loop.body.push_back({std::move(present)});
  }

  void add_block_scores(Body& body) const {
    const graft::Reduce& form = *forms_.scores;
    const Axis i = row_axis(), j = column_axis(), d = make_axis(form.reduced[0].extent);
    Contract contract;
    contract.m = {i}, contract.n = {j}, contract.k = {d};
    Replacements queries_at = at(i.variable), keys_at = at(make_index(0), form.axes.back().variable, j.variable);
    for (Replacements* each : {&queries_at, &keys_at}) each->emplace_back(form.reduced[0].variable->variable, d.variable);
    contract.a = convert(forms_.queries, queries_at, {}, {});
    contract.b = convert(forms_.keys, keys_at, {}, {});
    contract.c = scores_;
    contract.c_indices = {i.variable, j.variable};
    body.push_back({std::move(contract)});
  }

  void add_exponentials(Body& body) const {
    add_logits(body);
    add_masking(body);
    const Expr scale = make_constant(type_, scale_);
    const Expr nothing = make_constant(type_, -std::numeric_limits<double>::infinity());
    add_row_reduce(body, tile_largest_, Intrinsic::kMax);
    add_row_map(body, tile_largest_,
                [&](const auto& i) { return max(load(tile_largest_, i) * scale, load(largest_, i)); });
    add_row_map(body, shift_, [&](const auto& i) {
      return select(eq(load(tile_largest_, i), nothing), make_constant(type_, 0), load(tile_largest_, i));
    });
    add_row_map(body, rescale_, [&](const auto& i) { return exp2(load(largest_, i) - load(shift_, i)); });
    add_row_map(body, largest_, [&](const auto& i) { return load(tile_largest_, i); });
    const Axis i = whole_rows(), j = whole_columns();
    const std::vector<Expr> point = {i.variable, j.variable};
    const Expr power = make_call(Intrinsic::kFma, {load(scores_, point), scale, -load(shift_, {i.variable})});
    body.push_back({Map{{i, j}, {}, {{scores_, point, exp2(power)}}}});
  }

  /// Whether column j of a tile is a key: j is compared with a number that is known to be small.
  Expr is_key(const Expr& j) const {
    const Expr left = make_size(key_axis().extent) - key_begin_;
    return lt(j, max(min(left, make_index(schedule_.keys)), make_index(0)));
  }

  /// What the logits are beyond a product with the scores; where it loads anything, rows and keys must be there.
  void add_logits(Body& body) const {
    if (!computes_logits_) return;
    const Axis i = reads_rows() ? row_axis() : whole_rows(), j = whole_columns();
    Expr value = convert(logits_, at(i.variable, forms_.logits_key, j.variable), i.variable, j.variable);
    if (!has_whole_tiles()) {
      const Expr nothing = make_constant(type_, -std::numeric_limits<double>::infinity());
      value = select(is_key(j.variable), value, nothing);
    }
    body.push_back({Map{{i, j}, {}, {{scores_, {i.variable, j.variable}, value}}}});
  }
  /// Whether the logits load other values of the query than its scores.
  bool reads_rows() const {
    bool found = false;
    for_each(logits_, [&](const Expr& node) {
      if (node->kind != ExprKind::kLoad || is_score_tensor(node->tensor)) return;
      for (const Expr& index : node->args) found |= uses_variable(index, forms_.common.back().variable->variable);
    });
    return found;
  }

  /// Minus infinity for keys that do not count, in the tiles that have some.
  void add_masking(Body& body) const {
    Expr counts, needed;
    const auto also = [](Expr& all, const Expr& one, bool both) { all = !all ? one : both ? all && one : all || one; };
    const Expr end = key_begin_ + make_index(schedule_.keys);
    const Axis i = whole_rows(), j = whole_columns();
    if (!has_whole_tiles() && !computes_logits_) {
      also(counts, is_key(j.variable), true);
      also(needed, gt(end, make_size(key_axis().extent)), false);
    }
    const Replacements where = at(i.variable, forms_.logits_key, j.variable);
    for (const Expr& condition : conditions_) {
      also(counts, convert(condition, where, i.variable, j.variable), true);
      const Expr seen = key_limit(condition, row_begin_);
      also(needed, seen ? gt(end, seen) : make_constant(DType::kBool, 1), false);
    }
    if (!counts) return;
    const std::vector<Expr> point = {i.variable, j.variable};
    const Expr nothing = make_constant(type_, -std::numeric_limits<double>::infinity());
    If partial{needed, {}};
    partial.body.push_back({Map{{i, j}, {}, {{scores_, point, select(counts, load(scores_, point), nothing)}}}});
    body.push_back({std::move(partial)});
  }

  /// What was summed under an earlier maximum counts less; the exponentials become weights, rounded as the values are, so
  /// that matrix units can multiply the two.
  void add_rescaling(Body& body) const {
    for (const int sums : {weighted_, weight_sums_}) {
      const Axis i = whole_rows(), e = make_axis(sums == weighted_ ? value_axis().extent : Size(kSumColumns));
      const std::vector<Expr> point = {i.variable, e.variable};
      body.push_back({Map{{i, e}, {}, {{sums, point, load(sums, point) * load(rescale_, {i.variable})}}}});
    }
    const Axis row = whole_rows(), j = whole_columns();
    const std::vector<Expr> at_key = {row.variable, j.variable};
    const Expr rounded = make_cast(forms_.values->type, load(scores_, at_key));
    body.push_back({Map{{row, j}, {}, {{weights_, at_key, rounded}}}});
  }

  /// weighted += weights * values, of the keys from `begin`; there are none before the first and beyond the last.
  void add_block_weighted(Body& body, const Expr& begin) const {
    Contract contract;
    const Axis i = row_axis(), e = make_axis(value_axis().extent), j = whole_columns();
    contract.m = {i}, contract.n = {e}, contract.k = {j};
    contract.a = make_load(weights_, forms_.values->type, {i.variable, j.variable});
    Replacements where = at(make_index(0));
    where.emplace_back(key_axis().variable->variable, begin + j.variable);
    where.emplace_back(value_axis().variable->variable, e.variable);
    contract.b = convert(forms_.values, where, {}, {});
    Expr inside;
    if (schedule_.ahead) inside = ge(begin + j.variable, make_index(0));
    if (!has_whole_tiles()) {
      const Expr before_end = lt(begin + j.variable, make_size(key_axis().extent));
      inside = inside ? inside && before_end : before_end;
    }
    if (inside) contract.b = select(inside, contract.b, make_constant(forms_.values->type, 0));
    contract.c = weighted_;
    contract.c_indices = {i.variable, e.variable};
    contract.accumulate = true;
    body.push_back({std::move(contract)});
    add_weight_sums(body);
  }

  /// The sum that divides is that of the rounded weights: they add up to one, whatever rounding did to them. Matrix units
  /// add them, as a product with ones.
  void add_weight_sums(Body& body) const {
    Contract contract;
    const Axis i = row_axis(), e = make_axis(Size(kSumColumns)), j = whole_columns();
    contract.m = {i}, contract.n = {e}, contract.k = {j};
    contract.a = make_load(weights_, forms_.values->type, {i.variable, j.variable});
    contract.b = make_constant(forms_.values->type, 1);
    contract.c = weight_sums_;
    contract.c_indices = {i.variable, e.variable};
    contract.accumulate = true;
    body.push_back({std::move(contract)});
  }

  /// All columns of the sums are equal.
  void add_sum() {
    const Axis i = whole_rows(), e = make_axis(Size(kSumColumns));
    Reduce reduce;
    reduce.axes = {i}, reduce.reduced = {e};
    reduce.lift = {load(weight_sums_, {i.variable, e.variable})};
    reduce.monoid = make_monoid(Intrinsic::kMax, type_);
    reduce.outputs = {{sum_, {i.variable}, {}, ScatterMode::kSet}};
    builder_.add({std::move(reduce)});
  }

  static constexpr int64_t kSumColumns = 16;  ///< the fewest that a product has
  static constexpr int kInverse = -1000000;  ///< stands for the row's inverse until it has become a buffer
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
  // Of blocks:
  int weights_ = -1;  ///< the exponentials in the type of the values
  int weight_sums_ = -1, shift_ = -1, inverse_ = -1;
  double scale_ = 1;              ///< of what the scores' buffer holds, to logits in units of log 2
  Expr logits_, divisor_;         ///< without conditions; of the weighted sum
  bool computes_logits_ = false;  ///< they are more than the scores
  std::vector<Expr> conditions_, loaded_conditions_;  ///< under which a key counts
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
