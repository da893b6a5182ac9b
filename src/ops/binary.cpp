// SPDX-License-Identifier: Apache-2.0
// Arithmetic, comparison, logic and bits of two tensors, with numpy's broadcasting.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

void check_types(Definition& d) {
  if (d.input_type(0) != d.input_type(1)) {
    d.reject("its inputs have different types, " + std::string(name_of(d.input_type(0))) + " and " +
             std::string(name_of(d.input_type(1))));
  }
}

/// Output 0 = the intrinsic of each pair, of the inputs' type.
template <Intrinsic kIntrinsic>
void define_arithmetic(Definition& d) {
  check_types(d);
  d.out(0, zip(d, "c", d.in(0), d.in(1), d.input_type(0),
               [](const Expr& a, const Expr& b) { return make_call(kIntrinsic, {a, b}); }));
}

/// A quotient or remainder of each pair; integers divided by zero end the run.
template <class F>
void divide_pairs(Definition& d, F combine) {
  check_types(d);
  const bool checked = is_integer(d.input_type(0));
  d.out(0, zip(d, "c", d.in(0), d.in(1), d.input_type(0),
               [&](const Expr& a, const Expr& b) { return combine(a, checked ? check_divisor(b) : b); }));
}

void define_div(Definition& d) {
  divide_pairs(d, [](const Expr& a, const Expr& b) { return a / b; });
}

template <Intrinsic kIntrinsic>
void define_comparison(Definition& d) {
  check_types(d);
  d.out(0, zip(d, "c", d.in(0), d.in(1), DType::kBool,
               [](const Expr& a, const Expr& b) { return make_call(kIntrinsic, {a, b}); }));
}

/// The exponent when it is one small whole number known when compiling, else 0: x^2 is x x.
int whole_exponent(const Definition& d) {
  const TensorData* exponent = d.constant(1);
  if (!exponent || exponent->element_count() != 1) return 0;
  const double value = exponent->read_double(0);
  return value == 1 || value == 2 || value == 3 ? static_cast<int>(value) : 0;
}

void define_pow(Definition& d) {
  const Tensor x = d.in(0), y = d.in(1);
  const int whole = whole_exponent(d);
  d.out(0, zip(d, "z", x, y, x.type(), [&](const Expr& base, const Expr& exponent) {
    if (whole == 1) return base;
    if (whole == 2) return base * base;
    if (whole == 3) return base * base * base;
    const bool mixed = is_integer(base->type) && is_float(exponent->type);
    const DType type = mixed ? DType::kFloat64 : base->type;
    const Expr power = pow(make_cast(type, base), make_cast(type, exponent));
    if (!mixed) return power;
    // A fractional exponent of an integer is computed in f64 and then cut off; what lies below a whole number by
    // rounding alone is that number.
    constexpr double kRounding = 0x1p-50;
    const Expr near = round(power), allowed = abs(power) * make_constant(DType::kFloat64, kRounding);
    return select(le(abs(power - near), allowed), near, power);
  }));
}

void define_mod(Definition& d) {
  const bool truncated = d.integer("fmod") != 0;
  divide_pairs(d, [&](const Expr& a, const Expr& b) { return truncated ? rem(a, b) : mod(a, b); });
}

void define_bit_shift(Definition& d) {
  check_types(d);
  const std::string direction = d.text("direction");
  if (direction != "LEFT" && direction != "RIGHT") d.reject("its attribute 'direction' is " + direction);
  d.out(0, zip(d, "c", d.in(0), d.in(1), d.input_type(0),
               [&](const Expr& a, const Expr& b) { return direction == "LEFT" ? a << b : a >> b; }));
}

/// Pairs of shapes that broadcast in each way there is, in `type`.
std::vector<Sample> pairs(DType type, double low, double high, double second_low, double second_high) {
  const auto pair = [&](Dims a, Dims b) {
    return std::vector<SampleInput>{of(type, std::move(a), low, high), of(type, std::move(b), second_low, second_high)};
  };
  const std::string prefix(name_of(type));
  return {{.name = prefix + "_same_shape", .inputs = pair({3, 7}, {3, 7})},
          {.name = prefix + "_row_and_column", .inputs = pair({5, 1}, {1, 6})},
          {.name = prefix + "_fewer_axes", .inputs = pair({2, 3, 4}, {4})},
          {.name = prefix + "_scalar_first", .inputs = pair({}, {3, 2})},
          {.name = prefix + "_no_elements", .inputs = pair({0, 3}, {1, 3})}};
}

void append(std::vector<Sample>& to, std::vector<Sample> more) {
  for (Sample& sample : more) to.push_back(std::move(sample));
}

std::vector<Sample> number_samples() {
  std::vector<Sample> all = pairs(DType::kFloat32, -2, 2, 0.5, 3);
  append(all, pairs(DType::kInt64, -50, 50, 1, 9));
  all.push_back({.name = "half_precision", .inputs = {f16({3, 5}), f16({5}, 0.5, 3)}, .tolerance = 2e-3});
  all.push_back({.name = "unsigned_bytes", .inputs = {of(DType::kUint8, {9}, 0, 200), of(DType::kUint8, {9}, 1, 9)}});
  return all;
}

std::vector<Sample> comparison_samples() {
  std::vector<Sample> all = pairs(DType::kFloat32, -2, 2, -2, 2);
  append(all, pairs(DType::kInt32, -2, 2, -2, 2));
  all.push_back({.name = "with_nan", .inputs = {values(DType::kFloat32, {3}, {1, 0.0 / 0.0, 2}), f32({3})}});
  return all;
}

std::vector<Sample> equal_samples() {
  std::vector<Sample> all = comparison_samples();
  all.push_back({.name = "booleans", .inputs = {boolean({7}), boolean({7})}});
  return all;
}

std::vector<Sample> logic_samples() { return pairs(DType::kBool, 0, 1, 0, 1); }
std::vector<Sample> bit_samples() {
  std::vector<Sample> all = pairs(DType::kInt32, -99, 99, -99, 99);
  append(all, pairs(DType::kUint8, 0, 255, 0, 255));
  return all;
}

std::vector<Sample> pow_samples() {
  std::vector<Sample> all = pairs(DType::kFloat32, 0.25, 3, -2, 2);
  all.push_back({.name = "squares", .inputs = {f32({3, 5}), scalar(DType::kFloat32, 2)}});
  all.push_back({.name = "integer_exponent", .inputs = {f32({4}), of(DType::kInt64, {4}, -3, 3)}});
  all.push_back({.name = "integers", .inputs = {i64({6}, -5, 5), of(DType::kInt64, {6}, 0, 5)}});
  all.push_back({.name = "integer_base", .inputs = {of(DType::kInt32, {5}, 1, 9), f32({5}, 0.5, 2.5)}});
  all.push_back({.name = "integers_to_whole_floats",
                 .inputs = {values(DType::kInt32, {10, 1}, {1, 2, 3, 5, 6, 7, 9, 10, 11, 13}),
                            values(DType::kFloat32, {6}, {-1, 0, 1, 2, 3, 5})}});
  return all;
}

std::vector<Sample> mod_samples() {
  std::vector<Sample> all = pairs(DType::kInt64, -50, 50, 3, 9);
  all.push_back({.name = "negative_divisor", .inputs = {i64({9}, -50, 50), i64({9}, -9, -3)}});
  all.push_back({.name = "sign_of_the_dividend", .inputs = {i64({9}, -50, 50), i64({9}, -9, -3)},
                 .attributes = {{"fmod", int64_t{1}}}});
  all.push_back({.name = "floats", .inputs = {f32({9}, -9, 9), f32({9}, 1, 3)}, .attributes = {{"fmod", int64_t{1}}}});
  return all;
}

template <bool kLeft>
std::vector<Sample> shifts() {
  std::vector<Sample> all = pairs(DType::kUint8, 0, 255, 0, 7);
  append(all, pairs(DType::kUint32, 0, 70000, 0, 31));
  for (Sample& sample : all) {
    sample.name += kLeft ? "_to_the_left" : "_to_the_right";
    sample.attributes = {{"direction", std::string(kLeft ? "LEFT" : "RIGHT")}};
  }
  return all;
}

std::vector<Sample> shift_samples() {
  std::vector<Sample> all = shifts<true>();
  append(all, shifts<false>());
  return all;
}

OpDef row(std::string_view name, int since, void (*define)(Definition&), std::vector<Sample> (*samples)(),
          std::string_view doc, std::vector<AttributeSpec> attributes = {}) {
  return {.domain = "", .name = name, .since = since, .inputs = {"a", "b"}, .outputs = {"c"},
          .attributes = std::move(attributes), .define = define, .samples = samples, .doc = doc};
}

}  // namespace

std::vector<OpDef> binary_ops() {
  return {
      row("Add", 14, define_arithmetic<Intrinsic::kAdd>, number_samples, "a + b."),
      row("Sub", 14, define_arithmetic<Intrinsic::kSub>, number_samples, "a - b."),
      row("Mul", 14, define_arithmetic<Intrinsic::kMul>, number_samples, "a b."),
      row("Div", 14, define_div, number_samples,
          "a / b, of integers towards zero; an integer divided by zero is an error of the run."),
      row("Pow", 15, define_pow, pow_samples, "a to the power b, in the type of a."),
      row("Mod", 13, define_mod, mod_samples,
          "The remainder of a / b; of an integer by zero it is an error of the run.", {{"fmod", int64_t{0}}}),
      row("Equal", 19, define_comparison<Intrinsic::kEq>, equal_samples, "Whether a = b."),
      row("Less", 13, define_comparison<Intrinsic::kLt>, comparison_samples, "Whether a < b."),
      row("LessOrEqual", 16, define_comparison<Intrinsic::kLe>, comparison_samples, "Whether a <= b."),
      row("Greater", 13, define_comparison<Intrinsic::kGt>, comparison_samples, "Whether a > b."),
      row("GreaterOrEqual", 16, define_comparison<Intrinsic::kGe>, comparison_samples, "Whether a >= b."),
      row("And", 7, define_arithmetic<Intrinsic::kAnd>, logic_samples, "Logical and."),
      row("Or", 7, define_arithmetic<Intrinsic::kOr>, logic_samples, "Logical or."),
      row("Xor", 7, define_arithmetic<Intrinsic::kXor>, logic_samples, "Logical exclusive or."),
      row("BitwiseAnd", 18, define_arithmetic<Intrinsic::kAnd>, bit_samples, "And of each bit."),
      row("BitwiseOr", 18, define_arithmetic<Intrinsic::kOr>, bit_samples, "Or of each bit."),
      row("BitwiseXor", 18, define_arithmetic<Intrinsic::kXor>, bit_samples, "Exclusive or of each bit."),
      row("BitShift", 11, define_bit_shift, shift_samples, "a shifted by b bits.", {{"direction", {}}}),
  };
}

}  // namespace graft
