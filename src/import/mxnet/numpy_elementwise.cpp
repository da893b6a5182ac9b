// SPDX-License-Identifier: Apache-2.0
// What numpy's interface has (`mx.np`, `mx.npx`), element by element: comparisons give truth values there, and a scalar
// is one.
#include <cmath>
#include <limits>
#include <numbers>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;
using Build = std::function<void(Conversion&)>;
using Pair = std::function<ValueId(Conversion&, ValueId, ValueId)>;

ValueId number(Conversion& c, double value, ValueId like) { return c.real_constant(value, c.type_of(like)); }

ValueId scalar_beside(Conversion& c, ValueId data) {
  const double value = real(c, "scalar");
  if (!is_float(c.type_of(data)) && value != std::trunc(value)) c.refuse("a fraction beside integers");
  return number(c, value, data);
}

void check_floats(Conversion& c, ValueId a, ValueId b) {
  if (!is_float(c.type_of(a)) || c.type_of(a) != c.type_of(b)) c.refuse("operands that are not floats of one type");
}

/// The same function of two tensors, of a tensor and a scalar, and of a scalar and a tensor.
Build of_both(const Pair& make) {
  return [make](Conversion& c) { c.give(make(c, c.tensor("lhs"), c.tensor("rhs"))); };
}
Build of_scalar(const Pair& make) {
  return [make](Conversion& c) { c.give(make(c, c.tensor("data"), scalar_beside(c, c.tensor("data")))); };
}
Build reversed(const Pair& make) {
  return [make](Conversion& c) { c.give(make(c, scalar_beside(c, c.tensor("data")), c.tensor("data"))); };
}

Pair compared(std::string_view op) {
  return [op](Conversion& c, ValueId a, ValueId b) {
    if (c.type_of(a) != c.type_of(b)) c.refuse("operands of different types");
    return c.add(op, {a, b});
  };
}

ValueId differs(Conversion& c, ValueId a, ValueId b) { return c.add("Not", {compared("Equal")(c, a, b)}); }

/// Of truth values or of the bits of integers.
Pair by_bits(std::string_view logical, std::string_view bits) {
  return [logical, bits](Conversion& c, ValueId a, ValueId b) {
    if (c.type_of(a) != c.type_of(b)) c.refuse("operands of different types");
    return c.add(c.type_of(a) == DType::kBool ? logical : bits, {a, b});
  };
}

void bitwise_not(Conversion& c) {
  const ValueId data = c.tensor("x");
  c.give(c.add(c.type_of(data) == DType::kBool ? "Not" : "BitwiseNot", {data}));
}

void logical_not(Conversion& c) { c.give(c.add("Not", {c.cast(c.tensor("x"), DType::kBool)})); }

/// The angle of (x, y), by the quadrant.
ValueId angle(Conversion& c, ValueId y, ValueId x) {
  check_floats(c, y, x);
  const ValueId zero = number(c, 0, x), pi = number(c, std::numbers::pi, x);
  const ValueId below = c.add("Less", {y, zero}), behind = c.add("Less", {x, zero});
  const ValueId half = c.add("Atan", {c.add("Div", {y, x})});
  const ValueId turned = c.add("Where", {below, c.add("Sub", {half, pi}), c.add("Add", {half, pi})});
  const ValueId origin = c.add("And", {c.add("Equal", {x, zero}), c.add("Equal", {y, zero})});
  return c.add("Where", {origin, zero, c.add("Where", {behind, turned, half})});
}

ValueId with_sign(Conversion& c, ValueId size, ValueId sign) {
  check_floats(c, size, sign);
  const ValueId magnitude = c.add("Abs", {size}), below = c.add("Less", {sign, number(c, 0, sign)});
  return c.add("Where", {below, c.add("Neg", {magnitude}), magnitude});
}

/// a 2^b
ValueId scaled_by_power(Conversion& c, ValueId a, ValueId b) {
  check_floats(c, a, b);
  return c.add("Mul", {a, c.add("Pow", {number(c, 2, b), b})});
}

Build named(const Pair& make, std::string_view first, std::string_view second) {
  return [make, first, second](Conversion& c) { c.give(make(c, c.tensor(first), c.tensor(second))); };
}

/// Integers are finite numbers.
ValueId float_of(Conversion& c) {
  const ValueId data = c.tensor("x");
  if (!is_float(c.type_of(data))) c.refuse("an operand of integers");
  return data;
}

void is_nan(Conversion& c) { c.give(c.add("IsNaN", {float_of(c)})); }

Build is_infinite(bool below, bool above) {
  return [below, above](Conversion& c) {
    c.give(c.add("IsInf", {float_of(c)}, {{"detect_negative", int64_t{below}}, {"detect_positive", int64_t{above}}}));
  };
}

void is_finite(Conversion& c) {
  const ValueId data = float_of(c);
  c.give(c.add("Not", {c.add("Or", {c.add("IsNaN", {data}), c.add("IsInf", {data})})}));
}

/// The largest number of a float type.
double largest(Conversion& c, DType type) {
  switch (type) {
    case DType::kFloat16: return 65504;
    case DType::kFloat32: return std::numeric_limits<float>::max();
    case DType::kFloat64: return std::numeric_limits<double>::max();
    default: c.refuse("an operand of another type");
  }
}

void replace_what_is_no_number(Conversion& c) {
  ValueId data = c.tensor("data");
  const double most = largest(c, c.type_of(data));
  const auto infinity = [&](bool below, bool above, const char* name, double otherwise) {
    const ValueId there = c.add("IsInf", {data}, {{"detect_negative", int64_t{below}},
                                                  {"detect_positive", int64_t{above}}});
    return c.add("Where", {there, number(c, given(c, name) ? real(c, name) : otherwise, data), data});
  };
  const ValueId none = c.add("IsNaN", {data});
  data = infinity(false, true, "posinf", most);
  data = infinity(true, false, "neginf", -most);
  c.give(c.add("Where", {none, number(c, real(c, "nan"), data), data}));
}

/// To so many decimals; of two numbers the one further from zero.
void around(Conversion& c) {
  const ValueId data = float_of(c);
  const int64_t decimals = integer(c, "decimals");
  if (decimals < -30 || decimals > 30) c.refuse("a number of decimals beyond what a float has");
  const double power = std::pow(10.0, static_cast<double>(decimals));
  const ValueId moved = decimals == 0 ? data : c.add("Mul", {data, number(c, power, data)});
  const ValueId size = c.add("Abs", {moved});
  const ValueId whole = c.add("Floor", {c.add("Add", {size, number(c, 0.5, data)})});
  const ValueId rounded = c.add("Mul", {c.add("Sign", {moved}), whole});
  c.give(decimals == 0 ? rounded : c.add("Div", {rounded, number(c, power, data)}));
}

/// A tensor or a number where the condition holds, and another where it does not.
Build chosen(bool first_is_number, bool second_is_number) {
  return [=](Conversion& c) {
    const ValueId condition = c.cast(c.tensor("condition"), DType::kBool);
    ValueId x = first_is_number ? kNoValue : c.tensor("x"), y = second_is_number ? kNoValue : c.tensor("y");
    if (first_is_number && second_is_number) {
      x = c.real_constant(real(c, "x"), DType::kFloat32), y = c.real_constant(real(c, "y"), DType::kFloat32);
    } else if (first_is_number) {
      x = scalar_beside(c, y);
    } else if (second_is_number) {
      y = scalar_beside(c, x);
    }
    if (c.type_of(x) != c.type_of(y)) c.refuse("operands of different types");
    c.give(c.add("Where", {condition, x, y}));
  };
}

/// Horner's scheme; the highest power stands first.
void polynomial(Conversion& c) {
  const ValueId factors = c.tensor("p"), x = c.tensor("x");
  check_floats(c, factors, x);
  if (c.rank_of(factors) != 1) c.refuse("factors that are no row");
  const auto count = c.size_of(factors, 0).as_constant();
  if (!count || *count < 1 || *count > 64) c.refuse("more factors than 64, or an unknown number of them");
  const auto factor = [&](int64_t i) {
    const ValueId place = c.integers_constant({i});
    return c.add("Gather", {factors, c.add("Squeeze", {place})}, {{"axis", int64_t{0}}});
  };
  ValueId sum = c.add("Add", {factor(0), c.add("Mul", {x, number(c, 0, x)})});
  for (int64_t i = 1; i < *count; ++i) sum = c.add("Add", {c.add("Mul", {sum, x}), factor(i)});
  c.give(sum);
}

/// Whether all elements are numbers: 1 or 0, in a tensor of one element.
void all_finite(Conversion& c) {
  const ValueId data = c.tensor("data");
  const ValueId bad = c.cast(c.add("Or", {c.add("IsNaN", {data}), c.add("IsInf", {data})}), DType::kFloat32);
  const ValueId most = c.add("ReduceMax", {c.add("Reshape", {bad, c.integers_constant({-1})})},
                             {{"keepdims", int64_t{1}}});
  c.give(c.add("Sub", {number(c, 1, most), most}));
}

}  // namespace

std::vector<Row> numpy_elementwise_rows() {
  const std::string_view both = "lhs, rhs", one = "data, scalar=1, is_int=True";
  return {
      {"_npi_equal", both, of_both(compared("Equal"))},
      {"_npi_not_equal", both, of_both(differs)},
      {"_npi_greater", both, of_both(compared("Greater"))},
      {"_npi_greater_equal", both, of_both(compared("GreaterOrEqual"))},
      {"_npi_less", both, of_both(compared("Less"))},
      {"_npi_less_equal", both, of_both(compared("LessOrEqual"))},
      {"_npi_equal_scalar", one, of_scalar(compared("Equal"))},
      {"_npi_not_equal_scalar", one, of_scalar(differs)},
      {"_npi_greater_scalar", one, of_scalar(compared("Greater"))},
      {"_npi_greater_equal_scalar", one, of_scalar(compared("GreaterOrEqual"))},
      {"_npi_less_scalar", one, of_scalar(compared("Less"))},
      {"_npi_less_equal_scalar", one, of_scalar(compared("LessOrEqual"))},
      {"_npi_bitwise_and", both, of_both(by_bits("And", "BitwiseAnd"))},
      {"_npi_bitwise_or", both, of_both(by_bits("Or", "BitwiseOr"))},
      {"_npi_bitwise_xor", both, of_both(by_bits("Xor", "BitwiseXor"))},
      {"_npi_bitwise_and_scalar", one, of_scalar(by_bits("And", "BitwiseAnd"))},
      {"_npi_bitwise_or_scalar", one, of_scalar(by_bits("Or", "BitwiseOr"))},
      {"_npi_bitwise_xor_scalar", one, of_scalar(by_bits("Xor", "BitwiseXor"))},
      {"_npi_bitwise_not", "x", bitwise_not},
      {"_npi_logical_not", "x", logical_not},
      {"_npi_arctan2", "x1, x2", named(angle, "x1", "x2")},
      {"_npi_arctan2_scalar", one, of_scalar(angle)},
      {"_npi_rarctan2_scalar", one, reversed(angle)},
      {"_npi_copysign", both, of_both(with_sign)},
      {"_npi_copysign_scalar", one, of_scalar(with_sign)},
      {"_npi_rcopysign_scalar", one, reversed(with_sign)},
      {"_npi_ldexp", both, of_both(scaled_by_power)},
      {"_npi_ldexp_scalar", one, of_scalar(scaled_by_power)},
      {"_npi_rldexp_scalar", one, reversed(scaled_by_power)},
      {"_npi_isnan", "x", is_nan},
      {"_npi_isinf", "x", is_infinite(true, true)},
      {"_npi_isposinf", "x", is_infinite(false, true)},
      {"_npi_isneginf", "x", is_infinite(true, false)},
      {"_npi_isfinite", "x", is_finite},
      {"_npi_nan_to_num", "data, copy=True, nan=0, posinf=None, neginf=None", replace_what_is_no_number},
      {"_npi_around", "x, decimals=0", around},
      {"_npi_where", "condition, x, y", chosen(false, false)},
      {"_npi_where_lscalar", "condition, y, scalar=0", chosen(true, false)},
      {"_npi_where_rscalar", "condition, x, scalar=0", chosen(false, true)},
      {"_npi_where_scalar2", "condition, x=0, y=0", chosen(true, true)},
      {"_npi_polyval", "p, x", polynomial},
      {"all_finite", "data, init_output=True", all_finite},
  };
}

}  // namespace graft::mxnet
