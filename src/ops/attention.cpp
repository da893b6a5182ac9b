// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention with its mask, cache and window variants.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// An operand seen as [batch, heads, length, size], whether given so or as [batch, length, heads * size].
struct HeadView {
  Tensor tensor;
  Size batch, heads, length, size;
  bool flat = false;

  Expr operator()(const Expr& b, const Expr& h, const Expr& l, const Expr& e) const {
    return flat ? tensor.wide({b, l, h * make_size(size) + e}) : tensor.wide({b, h, l, e});
  }
};

HeadView head_view(Definition& d, int input, std::string_view heads_attribute) {
  HeadView view{.tensor = d.in(input), .batch = {}, .heads = {}, .length = {}, .size = {}};
  const Tensor& t = view.tensor;
  view.flat = t.rank() == 3;
  if (t.rank() != 3 && t.rank() != 4) d.reject("queries, keys and values should have 3 or 4 axes");
  view.batch = t.size(0);
  if (!view.flat) {
    view.heads = t.size(1), view.length = t.size(2), view.size = t.size(3);
    return view;
  }
  if (!d.has(heads_attribute)) d.reject("with 3 axes the attribute " + std::string(heads_attribute) + " is needed");
  view.heads = d.integer(heads_attribute);
  if (view.heads.constant() <= 0) d.reject("the number of heads should be positive");
  view.length = t.size(1);
  view.size = floor_div(t.size(2), view.heads);
  d.require_equal(view.size * view.heads, t.size(2), "the last axis is not a whole number of heads");
  return view;
}

/// Keys or values with what a cache holds in front.
struct Cached {
  HeadView now;
  Tensor past;
  Size past_length, length;

  Expr operator()(const Expr& b, const Expr& h, const Expr& l, const Expr& e) const {
    if (!past) return now(b, h, l, e);
    const Expr before = make_size(past_length);
    return select(lt(l, before), past.wide({b, h, l, e}), now(b, h, l - before, e));
  }
};

Cached cached(Definition& d, int input, int past, std::string_view heads_attribute) {
  Cached result{.now = head_view(d, input, heads_attribute), .past = {}, .past_length = 0, .length = 0};
  if (d.has_input(past)) {
    result.past = d.in(past);
    if (result.past.rank() != 4) d.reject("the cache should have 4 axes");
    result.past_length = result.past.size(2);
  }
  result.length = result.past_length + result.now.length;
  return result;
}

/// What attributes do to the scores.
struct ScoreRules {
  bool causal = false;
  int64_t left = -1, right = -1;  ///< window sizes, negative where there is no bound
  double softcap = 0;             ///< zero: none
  bool nan_rows = false;          ///< rows whose keys are all hidden give NaN, as a softmax of its own does, not 0
};

class AttentionDefinition {
 public:
  AttentionDefinition(Definition& d, const ScoreRules& rules)
      : d_(d),
        rules_(rules),
        q_(head_view(d, 0, "q_num_heads")),
        k_(cached(d, 1, 4, "kv_num_heads")),
        v_(cached(d, 2, 5, "kv_num_heads")) {
    type_ = compute_type(q_.tensor.type());
    d.require_at_least(k_.now.heads, 1, "there are no heads of keys");
    group_ = floor_div(q_.heads, k_.now.heads);
    d.require_equal(group_ * k_.now.heads, q_.heads, "the heads of Q are not a multiple of those of K");
    d.require_equal(k_.length, v_.length, "keys and values differ in length");
    d.require_equal(q_.size, k_.now.size, "queries and keys differ in size");
    d.require_equal(k_.now.heads, v_.now.heads, "keys and values differ in heads");
    for (const Cached* c : {&k_, &v_}) {
      d.require_equal(c->now.batch, q_.batch, "queries, keys and values differ in their batch");
      if (!c->past) continue;
      d.require_shape(c->past, {q_.batch, c->now.heads, c->past_length, c->now.size}, "the cache does not fit");
    }
    if (d.has_input(6)) d.require_shape(d.in(6), {q_.batch}, "there is not one number of keys for each of the batch");
    if (d.has("scale")) {
      scale_ = make_constant(type_, d.real("scale"));
    } else {
      scale_ = make_constant(type_, 1) / sqrt(make_cast(type_, make_size(q_.size)));
      if (const auto size = q_.size.as_constant()) {
        scale_ = make_constant(type_, 1 / std::sqrt(static_cast<double>(*size)));
      }
    }
  }

  void define() {
    const Shape score_shape = {q_.batch, q_.heads, q_.length, k_.length};
    const Shape rows = {q_.batch, q_.heads, q_.length};
    const Tensor product =
        d_.reduce("scores", Intrinsic::kAdd, score_shape, {q_.size}, [&](const Indices& i, const Indices& e) {
          return q_(i[0], i[1], i[2], e[0]) * k_(i[0], group(i[1]), i[3], e[0]);
        });
    const auto scaled = [&](const Indices& i) { return softcapped(product(i) * scale_); };
    const Tensor logits =
        d_.compute("logits", type_, score_shape, [&](const Indices& i) { return biased(scaled(i), i); });
    const Tensor largest =
        d_.reduce("largest", Intrinsic::kMax, rows, {k_.length}, [&](const Indices& i, const Indices& j) {
          return logits({i[0], i[1], i[2], j[0]});
        });
    // A row whose keys are all masked has exponentials of zero, and so a sum of zero.
    const Tensor exponentials = d_.compute("exponentials", type_, score_shape, [&](const Indices& i) {
      return exp(logits(i) - softmax_shift(largest({i[0], i[1], i[2]})));
    });
    const auto weight = [&](const Indices& i, const Expr& j) { return exponentials({i[0], i[1], i[2], j}); };
    const Tensor sum = d_.reduce("sum", Intrinsic::kAdd, rows, {k_.length},
                                 [&](const Indices& i, const Indices& j) { return weight(i, j[0]); });
    const auto divisor = [&](const Indices& i) {
      const Expr total = sum({i[0], i[1], i[2]});
      return rules_.nan_rows ? total : softmax_divisor(total);
    };
    const Tensor weighted = d_.reduce(
        "weighted", Intrinsic::kAdd, {q_.batch, q_.heads, q_.length, v_.now.size}, {k_.length},
        [&](const Indices& i, const Indices& j) {
          return weight(i, j[0]) * make_cast(type_, v_(i[0], group(i[1]), j[0], i[3]));
        });
    result(weighted, divisor);
    present(1, k_);
    present(2, v_);
    if (!d_.wants_output(3)) return;
    d_.out(3, d_.compute("qk", q_.tensor.type(), score_shape, [&](const Indices& i) {
      switch (d_.integer("qk_matmul_output_mode")) {
        case 0:
          return product(i) * scale_;
        case 1:
          return scaled(i);
        case 2:
          return logits(i);
        default:
          return exponentials(i) / divisor(i);
      }
    }));
  }

 private:
  Expr group(const Expr& head) const { return group_.is(1) ? head : floor_div(head, make_size(group_)); }

  Expr softcapped(const Expr& score) const {
    const double cap = rules_.softcap;
    if (cap <= 0) return score;
    return make_constant(type_, cap) * tanh(score / make_constant(type_, cap));
  }

  /// The score with everything that masks it.
  Expr biased(Expr score, const Indices& i) const {
    const Expr masked = make_constant(type_, -std::numeric_limits<double>::infinity());
    const auto keep = [&](const Expr& condition) { score = select(condition, score, masked); };
    if (d_.has_input(3)) add_mask(score, i, masked);
    if (rules_.causal) keep(le(i[3], i[2] + offset(i[0])));
    const int64_t left = rules_.left, right = rules_.right;
    if (left >= 0) keep(ge(i[3], i[2] + offset(i[0]) - make_index(left)));
    if (right >= 0) keep(le(i[3], i[2] + offset(i[0]) + make_index(right)));
    if (d_.has_input(6)) keep(lt(i[3], make_cast(DType::kInt64, d_.in(6)({i[0]}))));
    return score;
  }

  void add_mask(Expr& score, const Indices& i, const Expr& masked) const {
    const Tensor mask = d_.in(3);
    if (mask.rank() == 0 || mask.rank() > 4) d_.reject("the mask should have 1 to 4 axes");
    Shape masked_shape = {q_.batch, q_.heads, q_.length, mask.size(-1)};
    d_.require_fits(mask, masked_shape, "the mask does not fit the scores");
    const bool chooses = mask.type() == DType::kBool;
    const Expr value = d_.at(mask, i);
    Expr with_mask = chooses ? select(value, score, masked) : score + make_cast(type_, value);
    // A mask shorter than the keys hides the rest.
    const Size& known = mask.size(-1);
    if (!(known == k_.length) && !known.is(1)) with_mask = select(lt(i[3], make_size(known)), with_mask, masked);
    score = with_mask;
  }

  /// How many keys lie before the first query.
  Expr offset(const Expr& b) const {
    if (d_.has_input(6) && !k_.past) return make_cast(DType::kInt64, d_.in(6)({b})) - make_size(q_.length);
    return make_size(k_.past_length);
  }

  void result(const Tensor& weighted, const std::function<Expr(const Indices&)>& divisor) {
    const DType type = q_.tensor.type();
    if (!q_.flat) {
      return d_.out(0, d_.compute("y", type, Shape(weighted.shape()),
                                  [&](const Indices& i) { return weighted(i) / divisor(i); }));
    }
    const Shape shape = {q_.batch, q_.length, q_.heads * v_.now.size};
    const Expr size = make_size(v_.now.size);
    d_.out(0, d_.compute("y", type, shape, [&](const Indices& i) {
      const Indices at = {i[0], floor_div(i[2], size), i[1], mod(i[2], size)};
      return weighted(at) / divisor(at);
    }));
  }

  void present(int output, const Cached& cache) {
    if (!d_.wants_output(output)) return;
    const Shape shape = {q_.batch, cache.now.heads, cache.length, cache.now.size};
    d_.out(output, d_.compute("present", cache.now.tensor.type(), shape,
                              [&](const Indices& i) { return cache(i[0], i[1], i[2], i[3]); }));
  }

  Definition& d_;
  ScoreRules rules_;
  HeadView q_;
  Cached k_, v_;
  DType type_ = DType::kFloat32;
  Size group_;
  Expr scale_;
};

void define_attention(Definition& d) {
  AttentionDefinition(d, {.causal = d.integer("is_causal") != 0,
                          .left = d.integer("left_window_size"),
                          .right = d.integer("right_window_size"),
                          .softcap = d.real("softcap"),
                          .nan_rows = d.integer("hidden_rows_give_nan") != 0})
      .define();
}

void define_flex_attention(Definition& d) {
  for (const std::string_view graph : {"score_mod", "prob_mod"}) {
    if (d.has(graph)) d.unsupported("scores changed by the graph " + std::string(graph));
  }
  for (int i = 0; i < 3; ++i) {
    if (d.in(i).rank() != 4) d.reject("queries, keys and values should have four axes");
  }
  AttentionDefinition(d, {}).define();
}

/// In a window, with the scores as a result: before the cap, behind it, with the mask, or as weights.
Sample scores_given(int64_t mode) {
  return {.name = fmt::format("scores_of_mode_{}", mode),
          .inputs = {f32({1, 2, 5, 8}), f32({1, 2, 7, 8}), f32({1, 2, 7, 8}), f32({5, 7})},
          .attributes = {{"softcap", mode == 0 ? 0.0 : 2.0},
                         {"qk_matmul_output_mode", mode},
                         {"left_window_size", int64_t{3}}},
          .outputs = 4};
}

std::vector<Sample> attention_samples() {
  return {
      {.name = "heads_apart", .inputs = {f32({2, 3, 5, 8}), f32({2, 3, 7, 8}), f32({2, 3, 7, 8})}},
      {.name = "values_of_another_size", .inputs = {f32({1, 2, 5, 8}), f32({1, 2, 7, 8}), f32({1, 2, 7, 3})}},
      {.name = "heads_in_the_last_axis",
       .inputs = {f32({2, 5, 12}), f32({2, 7, 12}), f32({2, 7, 12})},
       .attributes = {{"q_num_heads", int64_t{3}}, {"kv_num_heads", int64_t{3}}}},
      {.name = "causal",
       .inputs = {f32({1, 2, 9, 8}), f32({1, 2, 9, 8}), f32({1, 2, 9, 8})},
       .attributes = {{"is_causal", int64_t{1}}}},
      {.name = "mask_added_and_scale",
       .inputs = {f32({2, 2, 5, 8}), f32({2, 2, 7, 8}), f32({2, 2, 7, 8}), f32({2, 1, 1, 7})},
       .attributes = {{"scale", 0.5}}},
      {.name = "groups_of_queries_share_keys", .inputs = {f32({1, 4, 5, 8}), f32({1, 2, 7, 8}), f32({1, 2, 7, 8})}},
      {.name = "more_keys_than_a_tile", .inputs = {f32({1, 1, 70, 16}), f32({1, 1, 150, 16}), f32({1, 1, 150, 16})}},
      {.name = "half_precision",
       .inputs = {f16({1, 2, 5, 8}), f16({1, 2, 7, 8}), f16({1, 2, 7, 8})},
       .tolerance = 3e-3},
      {.name = "causal_rows_of_several_tiles",
       .inputs = {f32({1, 2, 150, 8}), f32({1, 2, 150, 8}), f32({1, 2, 150, 8})},
       .attributes = {{"is_causal", int64_t{1}}}},
      {.name = "mask_of_choices",
       .inputs = {f32({2, 2, 5, 8}), f32({2, 2, 7, 8}), f32({2, 2, 7, 8}), boolean({2, 1, 5, 7})}},
      {.name = "softcap",
       .inputs = {f32({1, 2, 5, 8}), f32({1, 2, 7, 8}), f32({1, 2, 7, 8})},
       .attributes = {{"softcap", 1.5}}},
      {.name = "windows_to_both_sides",
       .inputs = {f32({1, 2, 9, 8}), f32({1, 2, 9, 8}), f32({1, 2, 9, 8})},
       .attributes = {{"left_window_size", int64_t{2}}, {"right_window_size", int64_t{1}}}},
      {.name = "a_cache_in_front",
       .inputs = {f32({2, 4, 3, 8}), f32({2, 2, 3, 8}), f32({2, 2, 3, 6}), absent(), f32({2, 2, 5, 8}),
                  f32({2, 2, 5, 6})},
       .outputs = 3},
      {.name = "a_cache_in_front_of_causal_queries",
       .inputs = {f32({1, 2, 3, 8}), f32({1, 2, 3, 8}), f32({1, 2, 3, 8}), absent(), f32({1, 2, 5, 8}),
                  f32({1, 2, 5, 8})},
       .attributes = {{"is_causal", int64_t{1}}},
       .outputs = 3},
      {.name = "keys_that_are_padding",
       .inputs = {f32({2, 2, 3, 8}), f32({2, 2, 7, 8}), f32({2, 2, 7, 8}), absent(), absent(), absent(),
                  run_list({4, 7})}},
      scores_given(0), scores_given(1), scores_given(2), scores_given(3)};
}

std::vector<Sample> flex_attention_samples() {
  return {{.name = "heads_apart", .inputs = {f32({2, 3, 5, 8}), f32({2, 3, 7, 8}), f32({2, 3, 7, 3})}},
          {.name = "groups_and_scale",
           .inputs = {f32({1, 4, 5, 8}), f32({1, 2, 7, 8}), f32({1, 2, 7, 8})},
           .attributes = {{"scale", 0.3}}}};
}

}  // namespace

std::vector<OpDef> attention_ops() {
  return {{.domain = "",
           .name = "Attention",
           .since = 25,
           .inputs = {"q", "k", "v", "mask?", "past_key?", "past_value?", "nonpad_kv_seqlen?"},
           .outputs = {"y", "present_key?", "present_value?", "qk?"},
           .attributes = {{"hidden_rows_give_nan", int64_t{0}},
                          {"is_causal", int64_t{0}},
                          {"kv_num_heads", {}, true},
                          {"q_num_heads", {}, true},
                          {"qk_matmul_output_mode", int64_t{0}},
                          {"scale", {}, true},
                          {"softcap", 0.0},
                          {"softmax_precision", {}, true},
                          {"left_window_size", int64_t{-1}},
                          {"right_window_size", int64_t{-1}}},
           .define = define_attention,
           .samples = attention_samples,
           .doc = "softmax(q k^T * scale + mask) v for each head."},
          {.domain = "ai.onnx.preview",
           .name = "FlexAttention",
           .since = 1,
           .inputs = {"q", "k", "v"},
           .outputs = {"y"},
           .attributes = {{"captures", {}, true},
                          {"prob_mod", {}, true},
                          {"scale", {}, true},
                          {"score_mod", {}, true},
                          {"softmax_precision", {}, true}},
           .define = define_flex_attention,
           .samples = flex_attention_samples,
           .doc = "softmax(q k^T * scale) v for each head."}};
}

}  // namespace graft
