// SPDX-License-Identifier: Apache-2.0
// Operators that map each element by one primitive.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// Output 0 = the intrinsic of each element.
template <Intrinsic kIntrinsic>
void define_intrinsic(Definition& d) {
  define_map(d, [](const Expr& x) { return make_call(kIntrinsic, {x}); });
}

/// Integers are their own floor, ceil and rounding.
template <Intrinsic kIntrinsic>
void define_rounding(Definition& d) {
  define_map(d, [](const Expr& x) { return is_float(x->type) ? make_call(kIntrinsic, {x}) : x; });
}

void define_identity(Definition& d) { d.out(0, copy_of(d, "y", d.in(0))); }

void define_reciprocal(Definition& d) {
  define_map(d, [](const Expr& x) { return make_integer(x->type, 1) / x; });
}

void define_abs(Definition& d) {
  define_map(d, [](const Expr& x) { return is_unsigned(x->type) ? x : abs(x); });
}

/// -1, 0 or 1; NaN stays NaN.
void define_sign(Definition& d) {
  define_map(d, [](const Expr& x) {
    const Expr zero = make_integer(x->type, 0), one = make_integer(x->type, 1);
    const Expr positive = select(gt(x, zero), one, zero);
    if (is_unsigned(x->type)) return positive;
    const Expr sign = select(lt(x, zero), make_integer(x->type, -1), positive);
    return is_float(x->type) ? select(is_nan(x), x, sign) : sign;
  });
}

void define_is_nan(Definition& d) {
  d.out(0, map(d, "y", d.in(0), DType::kBool, [](const Expr& x) { return is_nan(x); }));
}

void define_is_inf(Definition& d) {
  const bool negative = d.integer("detect_negative") != 0, positive = d.integer("detect_positive") != 0;
  d.out(0, map(d, "y", d.in(0), DType::kBool, [&](const Expr& x) {
    const Expr zero = make_integer(x->type, 0);
    if (negative && positive) return is_inf(x);
    if (!negative && !positive) return make_integer(DType::kBool, 0);
    return is_inf(x) && (negative ? lt(x, zero) : gt(x, zero));
  }));
}

std::vector<Sample> samples_in(double low, double high) {
  return {
      {.name = "odd_sizes", .inputs = {f32({3, 7, 5}, low, high)}},
      {.name = "half_precision", .inputs = {f16({2, 9}, low, high)}, .tolerance = 2e-3},
      {.name = "double_precision", .inputs = {of(DType::kFloat64, {11}, low, high)}},
      {.name = "scalar", .inputs = {f32({}, low, high)}},
      {.name = "no_elements", .inputs = {f32({0, 4}, low, high)}},
  };
}

template <int kLow, int kHigh>
std::vector<Sample> float_samples() {
  return samples_in(kLow, kHigh);
}

std::vector<Sample> number_samples() {
  std::vector<Sample> all = samples_in(-3, 3);
  all.push_back({.name = "integers", .inputs = {i64({4, 5})}});
  all.push_back({.name = "narrow_integers", .inputs = {of(DType::kInt8, {17}, -100, 100)}});
  return all;
}

std::vector<Sample> rounding_samples() {
  const std::vector<double> halves = {-2.5, -1.5, -0.5, -0.25, 0, 0.5, 1.5, 2.5, 2.75};
  return {{.name = "halves_and_others", .inputs = {values(DType::kFloat32, {9}, halves)}},
          {.name = "odd_sizes", .inputs = {f32({5, 7}, -9, 9)}},
          {.name = "half_precision", .inputs = {f16({13}, -9, 9)}}};
}

std::vector<Sample> special_samples() {
  const double inf = 1.0 / 0.0;
  const std::vector<double> data = {0, -inf, inf, inf - inf, -3, 4};
  return {{.name = "nan_and_infinities", .inputs = {values(DType::kFloat32, {6}, data)}},
          {.name = "half_precision", .inputs = {values(DType::kFloat16, {2, 3}, data)}}};
}

std::vector<Sample> is_inf_samples() {
  std::vector<Sample> all = special_samples();
  all.push_back(all[0]);
  all.back().name = "positive_only";
  all.back().attributes = {{"detect_negative", int64_t{0}}};
  all.push_back(all[0]);
  all.back().name = "negative_only";
  all.back().attributes = {{"detect_positive", int64_t{0}}};
  return all;
}

std::vector<Sample> not_samples() { return {{.name = "odd_sizes", .inputs = {boolean({3, 5})}}}; }

std::vector<Sample> bitwise_not_samples() {
  return {{.name = "signed_bytes", .inputs = {of(DType::kInt8, {3, 5}, -128, 127)}},
          {.name = "unsigned_words", .inputs = {of(DType::kUint16, {7}, 0, 65535)}},
          {.name = "longs", .inputs = {i64({2, 2})}}};
}

std::vector<Sample> identity_samples() {
  std::vector<Sample> all = number_samples();
  all.push_back({.name = "booleans", .inputs = {boolean({5})}});
  return all;
}

OpDef row(std::string_view name, int since, void (*define)(Definition&), std::vector<Sample> (*samples)(),
          std::string_view doc) {
  return {.domain = "", .name = name, .since = since, .inputs = {"x"}, .outputs = {"y"}, .attributes = {},
          .define = define, .samples = samples, .doc = doc};
}

}  // namespace

std::vector<OpDef> unary_ops() {
  std::vector<OpDef> ops = {
      row("Identity", 25, define_identity, identity_samples, "The input itself."),
      row("Sqrt", 13, define_intrinsic<Intrinsic::kSqrt>, float_samples<0, 4>, "The square root of each element."),
      row("Erf", 13, define_intrinsic<Intrinsic::kErf>, float_samples<-3, 3>, "The error function."),
      row("Exp", 13, define_intrinsic<Intrinsic::kExp>, float_samples<-5, 5>, "e to the power of each element."),
      row("Log", 13, define_intrinsic<Intrinsic::kLog>, float_samples<1, 9>, "The natural logarithm."),
      row("Tanh", 13, define_intrinsic<Intrinsic::kTanh>, float_samples<-3, 3>, "The hyperbolic tangent."),
      row("Neg", 13, define_intrinsic<Intrinsic::kNeg>, number_samples, "Each element with its sign changed."),
      row("Abs", 13, define_abs, number_samples, "The magnitude of each element."),
      row("Reciprocal", 13, define_reciprocal, float_samples<1, 4>, "One divided by each element."),
      row("Sin", 22, define_intrinsic<Intrinsic::kSin>, float_samples<-9, 9>, "The sine."),
      row("Cos", 22, define_intrinsic<Intrinsic::kCos>, float_samples<-9, 9>, "The cosine."),
      row("Tan", 22, define_intrinsic<Intrinsic::kTan>, float_samples<-1, 1>, "The tangent."),
      row("Asin", 22, define_intrinsic<Intrinsic::kAsin>, float_samples<-1, 1>, "The inverse sine."),
      row("Acos", 22, define_intrinsic<Intrinsic::kAcos>, float_samples<-1, 1>, "The inverse cosine."),
      row("Atan", 22, define_intrinsic<Intrinsic::kAtan>, float_samples<-9, 9>, "The inverse tangent."),
      row("Sinh", 22, define_intrinsic<Intrinsic::kSinh>, float_samples<-3, 3>, "The hyperbolic sine."),
      row("Cosh", 22, define_intrinsic<Intrinsic::kCosh>, float_samples<-3, 3>, "The hyperbolic cosine."),
      row("Asinh", 22, define_intrinsic<Intrinsic::kAsinh>, float_samples<-3, 3>, "The inverse hyperbolic sine."),
      row("Acosh", 22, define_intrinsic<Intrinsic::kAcosh>, float_samples<1, 9>, "The inverse hyperbolic cosine."),
      row("Atanh", 22, define_intrinsic<Intrinsic::kAtanh>, [] { return samples_in(-0.9, 0.9); },
          "The inverse hyperbolic tangent."),
      row("Floor", 13, define_rounding<Intrinsic::kFloor>, rounding_samples, "The largest integer not above."),
      row("Ceil", 13, define_rounding<Intrinsic::kCeil>, rounding_samples, "The smallest integer not below."),
      row("Round", 22, define_rounding<Intrinsic::kRound>, rounding_samples, "The nearest integer, halves to even."),
      row("Sign", 13, define_sign, number_samples, "-1, 0 or 1 by the sign of each element."),
      row("IsNaN", 20, define_is_nan, special_samples, "Whether each element is not a number."),
      row("IsInf", 20, define_is_inf, is_inf_samples, "Whether each element is an infinity."),
      row("Not", 1, define_intrinsic<Intrinsic::kNot>, not_samples, "Logical negation."),
      row("BitwiseNot", 18, define_intrinsic<Intrinsic::kNot>, bitwise_not_samples, "Each bit inverted."),
  };
  for (OpDef& op : ops) {
    if (op.name == "IsInf") op.attributes = {{"detect_negative", int64_t{1}}, {"detect_positive", int64_t{1}}};
  }
  return ops;
}

}  // namespace graft
