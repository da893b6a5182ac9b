// SPDX-License-Identifier: Apache-2.0
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

/// What becomes of two operands of one type.
using Combine = std::function<ValueId(Conversion&, ValueId, ValueId)>;

Combine plain(std::string_view op) {
  return [op](Conversion& c, ValueId a, ValueId b) { return c.add(op, {a, b}); };
}

/// Truth values add up to `or` and multiply to `and`.
Combine counted(std::string_view op, std::string_view of_bools) {
  return [op, of_bools](Conversion& c, ValueId a, ValueId b) {
    return c.add(c.type_of(a) == DType::kBool ? of_bools : op, {a, b});
  };
}

/// Bit by bit; truth values are single bits.
Combine bitwise(std::string_view op, std::string_view of_bools) {
  return [op, of_bools](Conversion& c, ValueId a, ValueId b) {
    if (is_float(c.type_of(a))) c.refuse("bits of floats");
    return c.add(c.type_of(a) == DType::kBool ? of_bools : op, {a, b});
  };
}

/// On truth values, which are what is not zero.
Combine logical(std::string_view op) {
  return [op](Conversion& c, ValueId a, ValueId b) {
    return c.add(op, {c.cast(a, DType::kBool), c.cast(b, DType::kBool)});
  };
}

/// Truth values have an order: false is less than true.
Combine ordered(std::string_view op) {
  return [op](Conversion& c, ValueId a, ValueId b) {
    const bool bools = c.type_of(a) == DType::kBool;
    return c.add(op, {bools ? c.cast(a, DType::kInt32) : a, bools ? c.cast(b, DType::kInt32) : b});
  };
}

ValueId not_equal(Conversion& c, ValueId a, ValueId b) { return c.add("Not", {c.add("Equal", {a, b})}); }

/// a where the signs of both differ.
ValueId signs_differ(Conversion& c, ValueId a, ValueId b) {
  const ValueId zero = number(c, 0, a);
  return c.add("Xor", {c.add("Less", {a, zero}), c.add("Less", {b, zero})});
}

/// The remainder with the dividend's sign.
ValueId fmod(Conversion& c, ValueId a, ValueId b) { return c.add("Mod", {a, b}, {{"fmod", int64_t{1}}}); }

/// The remainder with the divisor's sign.
ValueId remainder(Conversion& c, ValueId a, ValueId b) {
  const ValueId rest = fmod(c, a, b), zero = number(c, 0, a);
  const ValueId moves = c.add("And", {signs_differ(c, rest, b), not_equal(c, rest, zero)});
  return c.add("Where", {moves, c.add("Add", {rest, b}), rest});
}

/// The quotient rounded down, so that divisor and remainder give back the dividend, as Python has it.
ValueId floor_divide(Conversion& c, ValueId a, ValueId b) {
  const ValueId rest = fmod(c, a, b), zero = number(c, 0, a), one = number(c, 1, a);
  const ValueId moves = c.add("And", {signs_differ(c, rest, b), not_equal(c, rest, zero)});
  if (!is_float(c.type_of(a))) {
    const ValueId quotient = c.add("Div", {a, b});  // towards zero
    return c.add("Where", {moves, c.add("Sub", {quotient, one}), quotient});
  }
  const ValueId exact = c.add("Div", {c.add("Sub", {a, rest}), b});
  const ValueId quotient = c.add("Where", {moves, c.add("Sub", {exact, one}), exact});
  const ValueId down = c.add("Floor", {quotient});
  const ValueId up = c.add("Greater", {c.add("Sub", {quotient, down}), number(c, 0.5, a)});
  const ValueId whole = c.add("Where", {up, c.add("Add", {down, one}), down});
  return c.add("Where", {c.add("Equal", {b, zero}), c.add("Div", {a, b}), whole});
}

ValueId truncated(Conversion& c, ValueId a) {
  return c.add("Where", {c.add("Less", {a, number(c, 0, a)}), c.add("Ceil", {a}), c.add("Floor", {a})});
}

ValueId hypotenuse(Conversion& c, ValueId a, ValueId b) {
  return c.add("Sqrt", {c.add("Add", {c.add("Mul", {a, a}), c.add("Mul", {b, b})})});
}

Build binary(const Combine& combine, std::string_view first = "self", std::string_view second = "other") {
  return [=](Conversion& c) {
    const auto [a, b] = operands(c, first, second);
    c.give(combine(c, a, b));
  };
}

Build float_binary(const Combine& combine) {
  return [=](Conversion& c) {
    const auto [a, b] = float_operands(c, "self", "other");
    c.give(combine(c, a, b));
  };
}

/// self + alpha * other, self - alpha * other; reversed other - alpha * self.
Build scaled(const Combine& combine, bool reversed = false) {
  return [=](Conversion& c) {
    auto [a, b] = operands(c, "self", "other");
    if (reversed) std::swap(a, b);
    const double alpha = c.real("alpha");
    if (alpha != 1) b = c.add("Mul", {b, number(c, alpha, b)});
    c.give(combine(c, a, b));
  };
}

/// Without a mode the quotient is a float.
void divide_rounded(Conversion& c) {
  if (!c.has("rounding_mode")) return float_binary(plain("Div"))(c);
  const auto [a, b] = operands(c, "self", "other");
  const std::string mode = c.text("rounding_mode");
  if (mode == "floor") return c.give(floor_divide(c, a, b));
  const ValueId quotient = c.add("Div", {a, b});
  c.give(is_float(c.type_of(a)) ? truncated(c, quotient) : quotient);
}

/// Squares and roots have operators of their own.
void power(Conversion& c) {
  const auto [a, b] = operands(c, "self", "exponent");
  const auto& exponent = c.argument("exponent").is;
  const bool fixed = std::holds_alternative<int64_t>(exponent) || std::holds_alternative<double>(exponent);
  const double times = fixed ? c.real("exponent") : 0;
  if (times < 0 && !is_float(c.type_of(a))) c.refuse("a negative power of integers");
  if (times == 1) return c.give(a);
  if (times == 2) return c.give(c.add("Mul", {a, a}));
  if (times == 0.5) return c.give(c.add("Sqrt", {a}));
  if (times == -0.5) return c.give(c.add("Reciprocal", {c.add("Sqrt", {a})}));
  c.give(c.add("Pow", {a, b}));
}

void where(Conversion& c) {
  const auto [a, b] = operands(c, "self", "other");
  c.give(c.add("Where", {c.cast(c.tensor("condition"), DType::kBool), a, b}));
}

void masked_fill(Conversion& c) {
  const ValueId self = c.tensor("self");
  c.give(c.add("Where", {c.tensor("mask"), as_type(c, "value", c.type_of(self)), self}));
}

/// self + value * (tensor1 op tensor2).
Build added(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId self = c.tensor("self"), a = c.tensor("tensor1"), b = c.tensor("tensor2");
    if (!is_float(c.type_of(self)) || c.type_of(a) != c.type_of(self) || c.type_of(b) != c.type_of(self)) {
      c.refuse("operands that are not floats of one type");
    }
    const double value = c.real("value");
    const ValueId scaled = value == 1 ? a : c.add("Mul", {a, number(c, value, a)});
    c.give(c.add("Add", {self, c.add(op, {scaled, b})}));
  };
}

/// self + weight * (end - self), from the nearer end.
void lerp(Conversion& c) {
  const ValueId self = c.tensor("self"), end = c.tensor("end"), weight = as_type(c, "weight", c.type_of(self));
  const ValueId way = c.add("Sub", {end, self});
  const ValueId rest = c.add("Mul", {way, c.add("Sub", {number(c, 1, self), weight})});
  c.give(c.add("Where", {c.add("Less", {c.add("Abs", {weight}), number(c, 0.5, self)}),
                         c.add("Add", {self, c.add("Mul", {weight, way})}), c.add("Sub", {end, rest})}));
}

/// A row for tensors and one for a number, each also in place.
void add_pair(std::vector<Row>& rows, const std::string& name, const Build& build) {
  rows.push_back({"aten::" + name + ".Tensor " + name + "_.Tensor(Tensor self, Tensor other) -> Tensor", build});
  rows.push_back({"aten::" + name + ".Scalar " + name + "_.Scalar(Tensor self, Scalar other) -> Tensor", build});
}

}  // namespace

std::vector<Row> arithmetic_rows() {
  const Build sum = scaled(counted("Add", "Or")), difference = scaled(plain("Sub"));
  std::vector<Row> rows = {
      {"aten::add.Tensor add_.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", sum},
      {"aten::add.Scalar add_.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", sum},
      {"aten::sub.Tensor sub_.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", difference},
      {"aten::sub.Scalar sub_.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", difference},
      {"aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", scaled(plain("Sub"), true)},
      {"aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", scaled(plain("Sub"), true)},
      {"aten::div.Tensor_mode div_.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
       divide_rounded},
      {"aten::div.Scalar_mode div_.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor",
       divide_rounded},
      {"aten::floor_divide floor_divide.Scalar(Tensor self, Tensor other) -> Tensor", binary(floor_divide)},
      {"aten::maximum max.other(Tensor self, Tensor other) -> Tensor", binary(plain("Max"))},
      {"aten::minimum min.other(Tensor self, Tensor other) -> Tensor", binary(plain("Min"))},
      {"aten::atan2 arctan2(Tensor self, Tensor other) -> Tensor", float_binary(atan2)},
      {"aten::hypot(Tensor self, Tensor other) -> Tensor", binary(hypotenuse)},
      {"aten::logical_and(Tensor self, Tensor other) -> Tensor", binary(logical("And"))},
      {"aten::logical_or(Tensor self, Tensor other) -> Tensor", binary(logical("Or"))},
      {"aten::logical_xor(Tensor self, Tensor other) -> Tensor", binary(logical("Xor"))},
      {"aten::__and__.Tensor(Tensor self, Tensor other) -> Tensor", binary(bitwise("BitwiseAnd", "And"))},
      {"aten::__or__.Tensor(Tensor self, Tensor other) -> Tensor", binary(bitwise("BitwiseOr", "Or"))},
      {"aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", power},
      {"aten::pow.Tensor_Scalar pow_.Scalar(Tensor self, Scalar exponent) -> Tensor", power},
      {"aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor", binary(plain("Pow"), "self", "exponent")},
      {"aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", where},
      {"aten::where.ScalarSelf where.ScalarOther where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor",
       where},
      {"aten::masked_fill.Scalar masked_fill_.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", masked_fill},
      {"aten::masked_fill.Tensor masked_fill_.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", masked_fill},
      {"aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", added("Mul")},
      {"aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", added("Div")},
      {"aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", lerp},
      {"aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", lerp},
  };
  const std::pair<std::string, Build> kPairs[] = {
      {"mul", binary(counted("Mul", "And"))},
      {"div", float_binary(plain("Div"))},
      {"true_divide", float_binary(plain("Div"))},
      {"remainder", binary(remainder)},
      {"fmod", binary(fmod)},
      {"bitwise_and", binary(bitwise("BitwiseAnd", "And"))},
      {"bitwise_or", binary(bitwise("BitwiseOr", "Or"))},
      {"bitwise_xor", binary(bitwise("BitwiseXor", "Xor"))},
      {"eq", binary(plain("Equal"))},
      {"ne", binary(not_equal)},
      {"lt", binary(ordered("Less"))},
      {"le", binary(ordered("LessOrEqual"))},
      {"gt", binary(ordered("Greater"))},
      {"ge", binary(ordered("GreaterOrEqual"))},
  };
  for (const auto& [name, build] : kPairs) add_pair(rows, name, build);
  return rows;
}

}  // namespace graft::aten
