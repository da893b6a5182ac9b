// SPDX-License-Identifier: Apache-2.0
// Activation functions: maps of each element, some with parameters.
#include <cmath>
#include <numbers>

#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

Expr like(const Expr& x, double value) { return make_constant(x->type, value); }
Expr clamp(const Expr& x, double low, double high) { return min(max(x, like(x, low)), like(x, high)); }
Expr sigmoid(const Expr& x) { return like(x, 1) / (like(x, 1) + exp(-x)); }
/// log(1 + e^x) without overflow.
Expr softplus(const Expr& x) { return max(x, like(x, 0)) + log1p(exp(-abs(x))); }

void define_relu(Definition& d) {
  define_map(d, [](const Expr& x) { return max(x, make_integer(x->type, 0)); });
}
void define_sigmoid(Definition& d) { define_map(d, sigmoid); }
void define_softplus(Definition& d) { define_map(d, softplus); }
void define_softsign(Definition& d) {
  define_map(d, [](const Expr& x) { return x / (like(x, 1) + abs(x)); });
}
void define_mish(Definition& d) {
  define_map(d, [](const Expr& x) { return x * tanh(softplus(x)); });
}
void define_swish(Definition& d) {
  const double alpha = d.real("alpha");
  define_map(d, [&](const Expr& x) { return x * sigmoid(alpha == 1 ? x : like(x, alpha) * x); });
}
/// a sigmoid(alpha a) b, of equal shapes.
void define_swiglu(Definition& d) {
  const Tensor a = d.in(0), b = d.in(1);
  if (a.rank() != b.rank()) d.reject("its inputs differ in rank");
  for (int i = 0; i < a.rank(); ++i) d.require_equal(a.size(i), b.size(i), "its inputs differ in shape");
  const double alpha = d.real("alpha");
  d.out(0, d.compute("y", a.type(), Shape(a.shape()), [&](const Indices& i) {
    const Expr x = a.wide(i);
    return x * sigmoid(alpha == 1 ? x : like(x, alpha) * x) * b.wide(i);
  }));
}
void define_hard_sigmoid(Definition& d) {
  const double alpha = d.real("alpha"), beta = d.real("beta");
  define_map(d, [&](const Expr& x) { return clamp(like(x, alpha) * x + like(x, beta), 0, 1); });
}
void define_hard_swish(Definition& d) {
  define_map(d, [](const Expr& x) { return x * clamp(x * like(x, 1.0 / 6) + like(x, 0.5), 0, 1); });
}
void define_leaky_relu(Definition& d) {
  const double alpha = d.real("alpha");
  define_map(d, [&](const Expr& x) { return select(lt(x, like(x, 0)), like(x, alpha) * x, x); });
}
void define_elu(Definition& d) {
  const double alpha = d.real("alpha");
  define_map(d, [&](const Expr& x) { return select(lt(x, like(x, 0)), like(x, alpha) * expm1(x), x); });
}
void define_selu(Definition& d) {
  const double alpha = d.real("alpha"), gamma = d.real("gamma");
  define_map(d,
             [&](const Expr& x) { return like(x, gamma) * select(gt(x, like(x, 0)), x, like(x, alpha) * expm1(x)); });
}
void define_celu(Definition& d) {
  const double alpha = d.real("alpha");
  define_map(d, [&](const Expr& x) {
    const Expr zero = like(x, 0);
    return max(zero, x) + min(zero, like(x, alpha) * expm1(x / like(x, alpha)));
  });
}
void define_thresholded_relu(Definition& d) {
  const double alpha = d.real("alpha");
  define_map(d, [&](const Expr& x) { return select(gt(x, like(x, alpha)), x, like(x, 0)); });
}
void define_shrink(Definition& d) {
  const double bias = d.real("bias"), lambda = d.real("lambd");
  define_map(d, [&](const Expr& x) {
    const Expr wide = is_float(x->type) ? x : make_cast(DType::kFloat64, x);
    return select(lt(wide, like(wide, -lambda)), wide + like(wide, bias),
                  select(gt(wide, like(wide, lambda)), wide - like(wide, bias), like(wide, 0)));
  });
}

void define_prelu(Definition& d) {
  const Tensor x = d.in(0), slope = d.in(1);
  if (slope.rank() > x.rank()) d.reject("its slope has more axes than its input");
  d.out(0, zip(d, "y", x, slope, x.type(),
               [](const Expr& a, const Expr& s) { return select(lt(a, make_integer(a->type, 0)), s * a, a); }));
}

void define_gelu(Definition& d) {
  const std::string approximate = d.text("approximate");
  if (approximate != "none" && approximate != "tanh") d.reject("its attribute 'approximate' is " + approximate);
  define_map(d, [&](const Expr& x) {
    const Expr half = like(x, 0.5) * x;
    if (approximate == "none") return half * (like(x, 1) + erf(x * like(x, std::numbers::sqrt2 / 2)));
    const Expr inner = like(x, std::sqrt(2 / std::numbers::pi)) * (x + like(x, 0.044715) * (x * x * x));
    return half * (like(x, 1) + tanh(inner));
  });
}

std::vector<Sample> float_samples() {
  return {
      {.name = "odd_sizes", .inputs = {f32({3, 7, 5}, -4, 4)}},
      {.name = "half_precision", .inputs = {f16({2, 9}, -4, 4)}, .tolerance = 2e-3},
      {.name = "double_precision", .inputs = {of(DType::kFloat64, {11}, -4, 4)}},
      {.name = "scalar", .inputs = {f32({}, -4, 4)}},
      {.name = "no_elements", .inputs = {f32({3, 0})}},
  };
}

/// The samples above with the operator's parameters changed in a last one.
std::vector<Sample> with(Attributes attributes) {
  std::vector<Sample> all = float_samples();
  all.push_back({.name = "parameters_given", .inputs = {f32({4, 11}, -4, 4)}, .attributes = std::move(attributes)});
  return all;
}

std::vector<Sample> relu_samples() {
  std::vector<Sample> all = float_samples();
  all.push_back({.name = "integers", .inputs = {of(DType::kInt32, {9}, -9, 9)}});
  return all;
}

std::vector<Sample> prelu_samples() {
  return {{.name = "slope_of_the_same_shape", .inputs = {f32({3, 4, 5}), f32({3, 4, 5})}},
          {.name = "slope_per_last_axis", .inputs = {f32({3, 4, 5}), f32({5})}},
          {.name = "slope_per_channel", .inputs = {f32({2, 3, 5, 1}), f32({3, 1, 1})}},
          {.name = "half_precision", .inputs = {f16({7}), f16({1})}, .tolerance = 2e-3}};
}

std::vector<Sample> swiglu_samples() {
  return {{.name = "plain", .inputs = {f32({3, 7}), f32({3, 7})}},
          {.name = "alpha", .inputs = {f32({2, 5}), f32({2, 5})}, .attributes = {{"alpha", 0.5}}},
          {.name = "half_precision", .inputs = {f16({9}), f16({9})}, .tolerance = 3e-3}};
}

OpDef row(std::string_view name, int since, std::vector<AttributeSpec> attributes, void (*define)(Definition&),
          std::vector<Sample> (*samples)(), std::string_view doc) {
  return {.domain = "",
          .name = name,
          .since = since,
          .inputs = {"x"},
          .outputs = {"y"},
          .attributes = std::move(attributes),
          .define = define,
          .samples = samples,
          .doc = doc};
}

}  // namespace

std::vector<OpDef> activation_ops() {
  std::vector<OpDef> ops = {
      row("Relu", 14, {}, define_relu, relu_samples, "max(0, x)."),
      row("Sigmoid", 13, {}, define_sigmoid, float_samples, "1 / (1 + e^-x)."),
      row("Softplus", 22, {}, define_softplus, float_samples, "log(1 + e^x)."),
      row("Softsign", 22, {}, define_softsign, float_samples, "x / (1 + |x|)."),
      row("Mish", 22, {}, define_mish, float_samples, "x tanh(softplus(x))."),
      row("HardSwish", 22, {}, define_hard_swish, float_samples, "x max(0, min(1, x / 6 + 1 / 2))."),
      row(
          "Swish", 24, {{"alpha", 1.0}}, define_swish,
          [] {
            return with({{"alpha", 0.5}});
          },
          "x sigmoid(alpha x)."),
      row(
          "HardSigmoid", 22, {{"alpha", 0.2}, {"beta", 0.5}}, define_hard_sigmoid,
          [] {
            return with({{"alpha", 0.4}, {"beta", 0.3}});
          },
          "max(0, min(1, alpha x + beta))."),
      row(
          "LeakyRelu", 16, {{"alpha", 0.01}}, define_leaky_relu,
          [] {
            return with({{"alpha", 0.2}});
          },
          "x, or alpha x below zero."),
      row(
          "Elu", 22, {{"alpha", 1.0}}, define_elu,
          [] {
            return with({{"alpha", 1.7}});
          },
          "x, or alpha (e^x - 1) below zero."),
      row(
          "Selu", 22, {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}}, define_selu,
          [] {
            return with({{"alpha", 2.0}, {"gamma", 3.0}});
          },
          "gamma x, or gamma alpha (e^x - 1) below zero."),
      row(
          "Celu", 12, {{"alpha", 1.0}}, define_celu,
          [] {
            return with({{"alpha", 2.0}});
          },
          "max(0, x) + min(0, alpha (e^(x / alpha) - 1))."),
      row(
          "ThresholdedRelu", 22, {{"alpha", 1.0}}, define_thresholded_relu,
          [] {
            return with({{"alpha", 2.0}});
          },
          "x above alpha, else 0."),
      row(
          "Shrink", 9, {{"bias", 0.0}, {"lambd", 0.5}}, define_shrink,
          [] {
            return with({{"bias", 1.5}, {"lambd", 1.5}});
          },
          "x moved towards 0 by bias outside [-lambd, lambd]."),
      row(
          "Gelu", 20, {{"approximate", std::string("none")}}, define_gelu,
          [] {
            return with({{"approximate", std::string("tanh")}});
          },
          "x times the normal distribution function."),
      row("PRelu", 16, {}, define_prelu, prelu_samples, "x, or slope x below zero, with a slope per element."),
  };
  ops.back().inputs = {"x", "slope"};
  ops.push_back(row("SwiGLU", 28, {{"alpha", 1.0}}, define_swiglu, swiglu_samples, "a sigmoid(alpha a) b."));
  ops.back().inputs = {"a", "b"};
  return ops;
}

}  // namespace graft
