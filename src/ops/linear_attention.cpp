// SPDX-License-Identifier: Apache-2.0
// Sequence layers with a state: linear attention with its gated and delta rules, and the causal convolution.
#include <cmath>

#include "ops/samples.h"
#include "ops/unrolled.h"

namespace graft {
namespace {

using namespace samples;

/// The state of a head is a matrix [key size, value size]: decayed, written by k v^T, read by q.
class LinearAttention {
 public:
  explicit LinearAttention(Definition& d) : d_(d), q_(d.in(0)), k_(d.in(1)), v_(d.in(2)) {
    if (q_.rank() != 3 || k_.rank() != 3 || v_.rank() != 3) d.reject("queries, keys and values should have 3 axes");
    readers_ = d.integer("q_num_heads"), heads_ = d.integer("kv_num_heads");
    if (heads_ < 1 || readers_ < 1 || readers_ % heads_ != 0)
      d.reject("q_num_heads should be a multiple of kv_num_heads");
    const std::string rule = d.text("update_rule");
    gated_ = rule == "gated" || rule == "gated_delta";
    delta_ = rule == "delta" || rule == "gated_delta";
    if (!gated_ && !delta_ && rule != "linear") d.reject("its update_rule is " + rule);
    if (gated_ != d.has_input(4)) d.reject("its input decay does not fit its update_rule");
    if (delta_ != d.has_input(5)) d.reject("its input beta does not fit its update_rule");
    type_ = compute_type(q_.type());
    batch_ = q_.size(0), length_ = q_.size(1);
    key_ = floor_div(k_.size(2), Size(heads_)), value_ = floor_div(v_.size(2), Size(heads_));
    d.require_equal(q_.size(2), key_ * Size(readers_), "queries and keys differ in size");
    d.require_shape(k_, {batch_, length_, key_ * Size(heads_)}, "the keys do not fit");
    d.require_shape(v_, {batch_, length_, value_ * Size(heads_)}, "the values do not fit");
    if (d.has_input(3)) d.require_shape(d.in(3), {batch_, heads_, key_, value_}, "the state does not fit");
    if (!delta_) return;
    if (d.in(5).rank() != 3) d.reject("beta should have three axes");
    const Size one_or_heads = d.in(5).size(2).is(1) ? Size(1) : Size(heads_);
    d.require_shape(d.in(5), {batch_, length_, one_or_heads}, "beta does not fit");
  }

  void define() {
    const int64_t steps = unrolled_steps(d_, length_);
    Tensor state = d_.compute("initial", type_, {batch_, heads_, key_, value_}, [&](const Indices& i) {
      return d_.has_input(3) ? d_.in(3).wide(i) : make_constant(type_, 0);
    });
    std::vector<Tensor> read;
    for (int64_t t = 0; t < steps; ++t) {
      state = next(state, make_index(t));
      read.push_back(reading(state, make_index(t)));
    }
    const Steps all(d_, read);
    d_.out(0, d_.compute("y", q_.type(), {batch_, length_, value_ * Size(readers_)}, [&](const Indices& i) {
      const Expr size = make_size(value_);
      return scale() * all.element(i[1], {i[0], floor_div(i[2], size), mod(i[2], size)});
    }));
    const DType kept = d_.has_input(3) ? d_.input_type(3) : q_.type();
    if (d_.wants_output(1)) d_.out(1, stored_as(d_, "present", state, kept));
  }

 private:
  Expr key(const Indices& i, const Expr& t, const Expr& k) const {
    return k_.wide({i[0], t, i[1] * make_size(key_) + k});
  }
  Expr scale() const {
    const double given = d_.real("scale");
    if (given != 0) return make_constant(type_, given);
    if (const auto size = key_.as_constant()) return make_constant(type_, 1 / std::sqrt(static_cast<double>(*size)));
    return make_constant(type_, 1) / sqrt(make_cast(type_, make_size(key_)));
  }

  /// The state after step t.
  Tensor next(const Tensor& before, const Expr& t) {
    const Tensor kept = gated_ ? decayed(before, t) : before;
    const auto value = [&](const Indices& i, const Expr& m) {
      return v_.wide({i[0], t, i[1] * make_size(value_) + m});
    };
    Tensor written =
        d_.compute("written", type_, {batch_, heads_, value_}, [&](const Indices& i) { return value(i, i[2]); });
    if (delta_) {
      const Tensor known = d_.reduce("known", Intrinsic::kAdd, {batch_, heads_, value_}, {key_},
                                     [&](const Indices& i, const Indices& k) {
                                       return kept({i[0], i[1], k[0], i[2]}) * key(i, t, k[0]);
                                     });
      written = d_.compute("corrected", type_, {batch_, heads_, value_},
                           [&](const Indices& i) { return beta(i, t) * (value(i, i[2]) - known(i)); });
    }
    return d_.compute("state", type_, {batch_, heads_, key_, value_}, [&](const Indices& i) {
      return kept(i) + key(i, t, i[2]) * written({i[0], i[1], i[3]});
    });
  }

  /// e^decay times the state; the decay is one number per head or one per head and key element.
  Tensor decayed(const Tensor& state, const Expr& t) {
    const Tensor decay = d_.in(4);
    if (decay.rank() != 3) d_.reject("the decay should have three axes");
    const bool per_head = decay.size(2) == heads_size() && !key_.is(1);
    d_.require_shape(decay, {batch_, length_, per_head ? heads_size() : heads_size() * key_}, "the decay does not fit");
    return d_.compute("decayed", type_, {batch_, heads_, key_, value_}, [&](const Indices& i) {
      const Expr where = per_head ? i[1] : i[1] * make_size(key_) + i[2];
      return state(i) * exp(make_cast(type_, decay({i[0], t, where})));
    });
  }
  Expr beta(const Indices& i, const Expr& t) {
    const Tensor beta = d_.in(5);
    return make_cast(type_, beta({i[0], t, beta.size(2).is(1) ? make_index(0) : i[1]}));
  }
  /// What each query head reads of its group's state.
  Tensor reading(const Tensor& state, const Expr& t) {
    const int64_t group = readers_ / heads_;
    return d_.reduce("read", Intrinsic::kAdd, {batch_, readers_, value_}, {key_},
                     [&](const Indices& i, const Indices& k) {
                       const Expr head = group == 1 ? i[1] : floor_div(i[1], make_index(group));
                       return q_.wide({i[0], t, i[1] * make_size(key_) + k[0]}) * state({i[0], head, k[0], i[2]});
                     });
  }
  Size heads_size() const { return Size(heads_); }

  Definition& d_;
  Tensor q_, k_, v_;
  int64_t readers_ = 1, heads_ = 1;
  bool gated_ = false, delta_ = false;
  DType type_ = DType::kFloat32;
  Size batch_, length_, key_, value_;
};

void define_linear_attention(Definition& d) { LinearAttention(d).define(); }

/// Each channel convolved with its own kernel over what was and is, never over what comes.
void define_causal_conv(Definition& d) {
  const Tensor x = d.in(0), w = d.in(1);
  if (x.rank() != 3 || w.rank() != 3) d.reject("its input and weight should have three axes");
  const std::string activation = d.text("activation");
  const bool silu = activation == "silu" || activation == "swish";
  if (!silu && activation != "none") d.reject("its activation is " + activation);
  const Size before = w.size(2) - Size(1);
  d.require_shape(w, {x.size(1), Size(1), w.size(2)}, "its weight is not one kernel per channel");
  d.require_at_least(before, 0, "its kernel is empty");
  if (d.has_input(2)) d.require_shape(d.in(2), {x.size(1)}, "its bias is not one per channel");
  if (d.has_input(3)) d.require_shape(d.in(3), {x.size(0), x.size(1), before}, "its state does not fit");
  const auto padded = [&](const Expr& b, const Expr& c, const Expr& p) {
    const Expr past = d.has_input(3) ? d.in(3).wide({b, c, p}) : literal(x.type(), 0);
    return select(lt(p, make_size(before)), past, x.wide({b, c, p - make_size(before)}));
  };
  const Tensor sum =
      d.reduce("sum", Intrinsic::kAdd, Shape(x.shape()), {w.size(2)}, [&](const Indices& i, const Indices& k) {
        return padded(i[0], i[1], i[2] + k[0]) * w.wide({i[1], make_index(0), k[0]});
      });
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    const Expr value = d.has_input(2) ? sum(i) + d.in(2).wide({i[1]}) : sum(i);
    return silu ? value / (make_constant(value->type, 1) + exp(-value)) : value;
  }));
  if (!d.wants_output(1)) return;
  const DType kept = d.has_input(3) ? d.input_type(3) : x.type();
  d.out(1, d.compute("present", kept, {x.size(0), x.size(1), before},
                     [&](const Indices& i) { return padded(i[0], i[1], i[2] + make_size(x.size(2))); }));
}

std::vector<Sample> linear_attention_samples() {
  const auto inputs = [](int64_t q, int64_t kv) {
    return std::vector<SampleInput>{f32({2, 3, q * 5}), f32({2, 3, kv * 5}), f32({2, 3, kv * 4})};
  };
  const auto heads = [](int64_t q, int64_t kv, const char* rule) {
    return Attributes{{"q_num_heads", q}, {"kv_num_heads", kv}, {"update_rule", std::string(rule)}};
  };
  std::vector<Sample> all = {
      {.name = "linear", .inputs = inputs(2, 2), .attributes = heads(2, 2, "linear"), .outputs = 2},
      {.name = "groups_of_queries_gated", .inputs = inputs(4, 2), .attributes = heads(4, 2, "gated"), .outputs = 2},
      {.name = "delta_with_a_past", .inputs = inputs(2, 2), .attributes = heads(2, 2, "delta"), .outputs = 2},
      {.name = "gated_per_key_delta", .inputs = inputs(2, 2), .attributes = heads(2, 2, "gated_delta"), .outputs = 2}};
  const auto add = [&](int sample, std::vector<SampleInput> more) {
    for (SampleInput& input : more) all[sample].inputs.push_back(std::move(input));
  };
  add(1, {absent(), f32({2, 3, 2}, -1, 0)});
  add(2, {f32({2, 2, 5, 4}), absent(), f32({2, 3, 2}, 0, 0.2)});
  add(3, {absent(), f32({2, 3, 10}, -1, 0), f32({2, 3, 1}, 0, 0.2)});
  return all;
}
std::vector<Sample> causal_conv_samples() {
  return {{.name = "starts_with_zeros", .inputs = {f32({2, 3, 7}), f32({3, 1, 4})}, .outputs = 2},
          {.name = "goes_on_from_a_state_with_silu",
           .inputs = {f32({2, 3, 5}), f32({3, 1, 3}), f32({3}), f32({2, 3, 2})},
           .attributes = {{"activation", std::string("silu")}},
           .outputs = 2}};
}

}  // namespace

std::vector<OpDef> linear_attention_ops() {
  return {
      {.domain = "",
       .name = "LinearAttention",
       .since = 27,
       .inputs = {"query", "key", "value", "past_state?", "decay?", "beta?"},
       .outputs = {"output", "present_state?"},
       .attributes = {{"chunk_size", int64_t{64}},
                      {"kv_num_heads"},
                      {"q_num_heads"},
                      {"scale", 0.0},
                      {"update_rule", std::string("gated_delta")}},
       .define = define_linear_attention,
       .samples = linear_attention_samples,
       .doc = "Attention through a state per head that each position decays, writes and reads."},
      {.domain = "",
       .name = "CausalConvWithState",
       .since = 27,
       .inputs = {"input", "weight", "bias?", "past_state?"},
       .outputs = {"output", "present_state?"},
       .attributes = {{"activation", std::string("none")}},
       .define = define_causal_conv,
       .samples = causal_conv_samples,
       .doc = "Each channel convolved over earlier positions, the last of which are handed on."},
  };
}

}  // namespace graft
