// SPDX-License-Identifier: Apache-2.0
// One step of the optimizers of ai.onnx.preview.training: inputs rate, count, then lists of tensors, one per kind.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// What a rule reads at one element, and what it gives: the new tensors, in the order of the outputs.
struct Update {
  Definition& d;
  Expr rate, count;
  std::vector<Expr> values;  ///< x, gradient, then the states

  Expr real(double value) const { return make_constant(rate->type, value); }
  Expr attribute(std::string_view name) const { return real(d.real(name)); }
  /// The gradient with that of the regularisation added.
  Expr gradient() const { return attribute("norm_coefficient") * values[0] + values[1]; }
  Expr first() const { return eq(count, make_index(0)); }
};
using Rule = std::vector<Expr> (*)(const Update&);

/// Applies a rule with `states` states to every optimized tensor.
void define_updates(Definition& d, int states, Rule rule) {
  const int kinds = 2 + states, tensors = (d.input_count() - 2) / kinds;
  if (tensors < 1 || d.input_count() != 2 + kinds * tensors) d.reject("its lists of tensors differ in length");
  for (int n = 0; n < tensors; ++n) {
    const auto input = [&](int kind) { return d.in(2 + kind * tensors + n); };
    const Tensor x = input(0);
    for (int kind = 1; kind < kinds; ++kind) {
      if (input(kind).rank() != x.rank()) d.reject("its tensors differ in rank");
      for (int a = 0; a < x.rank(); ++a) d.require_equal(x.size(a), input(kind).size(a), "its tensors differ in shape");
    }
    const auto scalar_of = [&](int index) { return d.in(index)(Indices(d.in(index).rank(), make_index(0))); };
    const DType type = compute_type(x.type());
    for (int output = 0; output <= states; ++output) {
      const int kind = output == 0 ? 0 : output + 1;
      d.out(output * tensors + n, d.compute("new", input(kind).type(), Shape(x.shape()), [&](const Indices& i) {
        Update update{d, make_cast(type, scalar_of(0)), scalar_of(1), {}};
        for (int k = 0; k < kinds; ++k) update.values.push_back(make_cast(type, input(k)(i)));
        return rule(update)[output];
      }));
    }
  }
}

std::vector<Expr> momentum(const Update& u) {
  const std::string mode = u.d.text("mode");
  if (mode != "standard" && mode != "nesterov") u.d.reject("its mode is " + mode);
  const Expr share = select(u.first(), u.real(1), u.attribute("beta"));
  const Expr speed = u.attribute("alpha") * u.values[2] + share * u.gradient();
  const Expr step = mode == "standard" ? speed : u.gradient() + u.attribute("alpha") * speed;
  return {u.values[0] - u.rate * step, speed};
}

std::vector<Expr> adagrad(const Update& u) {
  const Expr steps = make_cast(u.rate->type, u.count);
  const Expr rate = u.rate / (u.real(1) + steps * u.attribute("decay_factor"));
  const Expr squares = u.values[2] + u.gradient() * u.gradient();
  return {u.values[0] - rate * u.gradient() / (sqrt(squares) + u.attribute("epsilon")), squares};
}

std::vector<Expr> adam(const Update& u) {
  const auto blend = [&](std::string_view name, const Expr& old, const Expr& now) {
    return u.attribute(name) * old + (u.real(1) - u.attribute(name)) * now;
  };
  const Expr mean = blend("alpha", u.values[2], u.gradient());
  const Expr square = blend("beta", u.values[3], u.gradient() * u.gradient());
  const Expr steps = make_cast(u.rate->type, u.count);
  const auto remaining = [&](std::string_view name) { return u.real(1) - pow(u.attribute(name), steps); };
  const Expr rate = select(u.first(), u.rate, u.rate * sqrt(remaining("beta")) / remaining("alpha"));
  const Expr next = u.values[0] - rate * mean / (sqrt(square) + u.attribute("epsilon"));
  return {(u.real(1) - u.attribute("norm_coefficient_post")) * next, mean, square};
}

void define_momentum(Definition& d) { define_updates(d, 1, momentum); }
void define_adagrad(Definition& d) { define_updates(d, 1, adagrad); }
void define_adam(Definition& d) { define_updates(d, 2, adam); }

/// One tensor at the first step, and two at a later one.
std::vector<Sample> update_samples(int states, const Attributes& attributes) {
  std::vector<Sample> all;
  for (const int tensors : {1, 2}) {
    Sample sample{.name = tensors == 1 ? "first_step" : "two_tensors_later",
                  .inputs = {values(DType::kFloat32, {}, {0.1}), values(DType::kInt64, {}, {tensors == 1 ? 0.0 : 3.0})},
                  .attributes = attributes,
                  .outputs = tensors * (1 + states)};
    for (int kind = 0; kind < 2 + states; ++kind) {
      for (int n = 0; n < tensors; ++n) sample.inputs.push_back(f32({3, 5 + n}, kind < 2 ? -2 : 0, 2));
    }
    all.push_back(std::move(sample));
  }
  return all;
}
std::vector<Sample> momentum_samples() {
  const auto with = [](const char* mode) {
    return Attributes{{"alpha", 0.9}, {"beta", 0.5}, {"mode", std::string(mode)}, {"norm_coefficient", 0.01}};
  };
  std::vector<Sample> all = update_samples(1, with("standard"));
  all.push_back(update_samples(1, with("nesterov"))[1]);
  all.back().name = "nesterov";
  return all;
}
std::vector<Sample> adagrad_samples() {
  return update_samples(1, {{"decay_factor", 0.1}, {"epsilon", 1e-5}, {"norm_coefficient", 0.01}});
}
std::vector<Sample> adam_samples() {
  return update_samples(
      2,
      {{"alpha", 0.9}, {"beta", 0.99}, {"epsilon", 1e-5}, {"norm_coefficient", 0.01}, {"norm_coefficient_post", 0.02}});
}

OpDef row(std::string_view name, std::vector<AttributeSpec> attributes, void (*define)(Definition&),
          std::vector<Sample> (*samples)(), std::string_view doc) {
  return {.domain = "ai.onnx.preview.training",
          .name = name,
          .since = 1,
          .inputs = {"r", "t", "tensors*"},
          .outputs = {"updated*"},
          .attributes = std::move(attributes),
          .define = define,
          .samples = samples,
          .doc = doc};
}

}  // namespace

std::vector<OpDef> optimizer_ops() {
  const AttributeSpec norm{"norm_coefficient", 0.0};
  return {
      row("Momentum", {{"alpha"}, {"beta"}, {"mode"}, {"norm_coefficient"}}, define_momentum, momentum_samples,
          "A step down the gradient with momentum."),
      row("Adagrad", {{"decay_factor", 0.0}, {"epsilon", 1e-6}, norm}, define_adagrad, adagrad_samples,
          "A step down the gradient by the rule of Adagrad."),
      row("Adam", {{"alpha", 0.9}, {"beta", 0.999}, {"epsilon", 1e-6}, norm, {"norm_coefficient_post", 0.0}},
          define_adam, adam_samples, "A step down the gradient by the rule of Adam."),
  };
}

}  // namespace graft
