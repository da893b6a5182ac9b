// SPDX-License-Identifier: Apache-2.0
// Attention by the matrix units of a GPU's block. Weights and values are of 16 bits, all else is f32. Exponentials are
// powers of two, of logits in units of log 2: their factor is applied together with the shift, in one rounding. Rows
// and columns beyond the ends of a tile are computed too; keys that do not count have logits of minus infinity. Source:
// Shah et al., "FlashAttention-3" (2024), for products that run beside the exponentials of another tile.
#include <numbers>

#include "strategy/attention.h"
#include "strategy/attention_tile.h"

namespace graft::tile {
namespace {

class BlockAttention : AttentionTile {
 public:
  using AttentionTile::AttentionTile;

  Program run() {
    read_logits();
    make_grid();
    make_scratch();
    initialise();
    For loop = key_loop();
    add_scores(loop.body);
    add_exponentials(loop.body);
    add_rescaling(loop.body);
    add_weighted(loop.body);
    builder_.add({std::move(loop)});
    add_sum();
    add_results();
    return builder_.finish(region_.name);
  }

 private:
  static constexpr int64_t kSumColumns = 16;  ///< the fewest that a product has

  void make_scratch() {
    const Size queries = schedule_.queries, keys = schedule_.keys;
    const auto fragment = [&](const char* name, DType type, const Shape& shape) {
      return builder_.add_scratch(name, type, shape, Scope::kFragment);
    };
    weights_ = fragment("weights", forms_.values->type, {queries, keys});
    scores_ = fragment("scores", type_, {queries, keys});
    weighted_ = fragment("weighted", type_, {queries, value_axis().extent});
    weight_sums_ = fragment("weight_sums", type_, {queries, Size(kSumColumns)});
    largest_ = fragment("largest", type_, {queries});
    tile_largest_ = fragment("tile_largest", type_, {queries});
    shift_ = fragment("shift", type_, {queries});
    rescale_ = fragment("rescale", type_, {queries});
    sum_ = fragment("sum", type_, {queries});
  }

  void initialise() {
    const Axis i = whole_rows();
    builder_.add({Map{{i}, {}, {{largest_, {i.variable}, minus_infinity()}}}});
    add_constant(whole_rows(), make_axis(value_axis().extent), weighted_, type_, 0);
    add_constant(whole_rows(), make_axis(Size(kSumColumns)), weight_sums_, type_, 0);
  }

  /// Logits as conditions, a factor, and what the buffer of scores will hold.
  void read_logits() {
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
      logits_ = select(all, logits_, minus_infinity());
    }
    computes_logits_ = !is_scores(logits_);
  }

  /// The divisor that results share, computed of the sum of a row alone; null when there is none.
  Expr row_divisor() const {
    Expr divisor;
    for (const Compute* out : forms_.results) {
      for_each(out->value, [&](const Expr& node) {
        if (!divisor && is_call(node, Intrinsic::kDiv) && node->type == type_ && is_of_row(node->args[1], *out)) {
          divisor = node->args[1];
        }
      });
    }
    // The inverse takes the sum's place: nothing else may want the sum.
    for (const Compute* out : forms_.results) {
      const Expr rest = transform(out->value, [&](const Expr& node) -> Expr {
        const bool divides = divisor && is_call(node, Intrinsic::kDiv) && equal(node->args[1], divisor);
        return divides ? node->args[0] : Expr();
      });
      for_each(rest, [&](const Expr& node) {
        if (node->kind == ExprKind::kLoad && node->tensor == forms_.sum->outputs[0]) divisor = {};
      });
    }
    return divisor;
  }
  bool is_of_row(const Expr& value, const Compute& out) const {
    bool only = false, others = false;
    for_each(value, [&](const Expr& node) {
      const bool sum = node->kind == ExprKind::kLoad && node->tensor == forms_.sum->outputs[0];
      only |= sum;
      others |= node->kind == ExprKind::kLoad && !sum;
    });
    return only && !others && !uses_variable(value, out.axes.back().variable->variable);
  }

  /// x / f(sum) -> x * (1 / f(sum)), the inverse being computed once for a row and kept where the sum was.
  void add_results() {
    const Expr divisor = row_divisor();
    if (divisor) {
      add_row_map(builder_.program.body, whole_rows(), sum_,
                  [&](const Expr& i) { return make_constant(type_, 1) / convert(divisor, at(i), i, {}); });
    }
    for (const Compute* out : forms_.results) {
      const Expr value = transform(out->value, [&](const Expr& node) -> Expr {
        if (!divisor || !is_call(node, Intrinsic::kDiv) || !equal(node->args[1], divisor)) return {};
        return node->args[0] * make_load(forms_.sum->outputs[0], type_, {});
      });
      add_result(*out, value);
    }
  }

  Axis whole_rows() const { return make_axis(Size(schedule_.queries)); }
  Axis whole_columns() const { return make_axis(Size(schedule_.keys)); }
  bool has_whole_tiles() const { return key_axis().extent.is_multiple_of(schedule_.keys); }

  void add_scores(Body& body) const {
    const graft::Reduce& form = *forms_.scores;
    const Axis i = row_axis(), j = column_axis(), d = make_axis(form.reduced[0].extent);
    Contract contract;
    contract.m = {i}, contract.n = {j}, contract.k = {d};
    Replacements queries_at = at(i.variable), keys_at = at(make_index(0), form.axes.back().variable, j.variable);
    for (Replacements* each : {&queries_at, &keys_at})
      each->emplace_back(form.reduced[0].variable->variable, d.variable);
    contract.a = convert(forms_.queries, queries_at, {}, {});
    contract.b = convert(forms_.keys, keys_at, {}, {});
    contract.c = scores_;
    contract.c_indices = {i.variable, j.variable};
    contract.tf32 = rounds_to_tf32(contract, region_, target_);
    body.push_back({std::move(contract)});
  }

  void add_exponentials(Body& body) const {
    add_logits(body);
    add_masking(body);
    const Expr scale = make_constant(type_, scale_);
    const Expr nothing = minus_infinity();
    add_row_reduce(body, whole_rows(), whole_columns(), tile_largest_, Intrinsic::kMax);
    add_row_map(body, whole_rows(), tile_largest_,
                [&](const Expr& i) { return max(load(tile_largest_, {i}) * scale, load(largest_, {i})); });
    add_row_map(body, whole_rows(), shift_, [&](const Expr& i) {
      return select(eq(load(tile_largest_, {i}), nothing), make_constant(type_, 0), load(tile_largest_, {i}));
    });
    add_row_map(body, whole_rows(), rescale_,
                [&](const Expr& i) { return exp2(load(largest_, {i}) - load(shift_, {i})); });
    add_row_map(body, whole_rows(), largest_, [&](const Expr& i) { return load(tile_largest_, {i}); });
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
      const Expr nothing = minus_infinity();
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
    const Expr nothing = minus_infinity();
    If partial{needed, {}};
    partial.body.push_back({Map{{i, j}, {}, {{scores_, point, select(counts, load(scores_, point), nothing)}}}});
    body.push_back({std::move(partial)});
  }

  /// What was summed under an earlier maximum counts less; the exponentials become weights, rounded as the values are,
  /// so that matrix units can multiply the two.
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

  /// weighted += weights * values; there are none beyond the last key.
  void add_weighted(Body& body) const {
    Contract contract;
    const Axis i = row_axis(), e = make_axis(value_axis().extent), j = whole_columns();
    contract.m = {i}, contract.n = {e}, contract.k = {j};
    contract.a = make_load(weights_, forms_.values->type, {i.variable, j.variable});
    Replacements where = at(make_index(0));
    where.emplace_back(key_axis().variable->variable, key_begin_ + j.variable);
    where.emplace_back(value_axis().variable->variable, e.variable);
    contract.b = convert(forms_.values, where, {}, {});
    if (!has_whole_tiles()) {
      const Expr inside = lt(key_begin_ + j.variable, make_size(key_axis().extent));
      contract.b = select(inside, contract.b, make_constant(forms_.values->type, 0));
    }
    contract.c = weighted_;
    contract.c_indices = {i.variable, e.variable};
    contract.accumulate = true;
    body.push_back({std::move(contract)});
    add_weight_sums(body);
  }

  /// The sum that divides is that of the rounded weights: they add up to one, whatever rounding did to them. Matrix
  /// units add them, as a product with ones.
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

  int weights_ = -1;              ///< the exponentials in the type of the values
  int weight_sums_ = -1;          ///< of the weights of a row, in each column
  int shift_ = -1;                ///< the largest logit, or 0 when there is none
  double scale_ = 1;              ///< from what the buffer of scores holds to logits in units of log 2
  Expr logits_;                   ///< without conditions and factor
  bool computes_logits_ = false;  ///< they are more than the scores
  std::vector<Expr> conditions_, loaded_conditions_;  ///< under which a key counts
};

}  // namespace

Program lower_block_attention(const Region& region, const AttentionForms& forms, const AttentionSchedule& schedule,
                              const Target& target) {
  return BlockAttention(region, forms, schedule, target).run();
}

}  // namespace graft::tile
