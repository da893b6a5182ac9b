// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;
using Build = std::function<void(Conversion&)>;

/// On operands of one type, which is the result's, too: MXNet's truth values are 0 and 1 of the operands' type.
ValueId combined(Conversion& c, std::string_view op, ValueId a, ValueId b) {
  if (c.type_of(a) != c.type_of(b)) c.refuse("operands of different types");
  return c.cast(c.add(op, {a, b}), c.type_of(a));
}

Build binary(std::string_view op) {
  return [op](Conversion& c) { c.give(combined(c, op, c.tensor("lhs"), c.tensor("rhs"))); };
}

/// Division of integers truncates in MXNet as in ONNX; powers of them are left to MXNet.
Build float_binary(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId a = c.tensor("lhs"), b = c.tensor("rhs");
    if (!is_float(c.type_of(a))) c.refuse("operands of integers");
    c.give(combined(c, op, a, b));
  };
}

Build not_equal(std::string_view first, std::string_view second) {
  return [first, second](Conversion& c) {
    const ValueId a = c.tensor(first), b = c.tensor(second);
    if (c.type_of(a) != c.type_of(b)) c.refuse("operands of different types");
    c.give(c.cast(c.add("Not", {c.add("Equal", {a, b})}), c.type_of(a)));
  };
}

/// The attribute `scalar` as a tensor of the operand's type.
ValueId scalar(Conversion& c, ValueId data) {
  const double value = real(c, "scalar");
  if (!is_float(c.type_of(data)) && value != std::trunc(value)) c.refuse("a fraction beside integers");
  return c.real_constant(value, c.type_of(data));
}

Build with_scalar(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId data = c.tensor("data");
    c.give(combined(c, op, data, scalar(c, data)));
  };
}

/// The scalar is the first operand.
Build reversed(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId data = c.tensor("data");
    c.give(combined(c, op, scalar(c, data), data));
  };
}

Build float_with_scalar(const Build& build) {
  return [build](Conversion& c) {
    if (!is_float(c.type_of(c.tensor("data")))) c.refuse("an operand of integers");
    build(c);
  };
}

void not_equal_scalar(Conversion& c) {
  const ValueId data = c.tensor("data");
  c.give(c.cast(c.add("Not", {c.add("Equal", {data, scalar(c, data)})}), c.type_of(data)));
}

/// The remainder with the divisor's sign; 0 where that is 0.
ValueId remainder(Conversion& c, ValueId a, ValueId b) {
  if (!is_float(c.type_of(a)) || c.type_of(a) != c.type_of(b)) c.refuse("operands that are not floats of one type");
  const ValueId zero = c.real_constant(0, c.type_of(a)), rest = c.add("Mod", {a, b}, {{"fmod", int64_t{1}}});
  const ValueId other_sign = c.add("Xor", {c.add("Less", {rest, zero}), c.add("Less", {b, zero})});
  const ValueId whole = c.add("Equal", {rest, zero});
  const ValueId moves = c.add("And", {other_sign, c.add("Not", {whole})});
  const ValueId moved = c.add("Where", {moves, c.add("Add", {rest, b}), rest});
  return c.add("Where", {c.add("Equal", {b, zero}), zero, moved});
}

ValueId hypotenuse(Conversion& c, ValueId a, ValueId b) {
  if (!is_float(c.type_of(a)) || c.type_of(a) != c.type_of(b)) c.refuse("operands that are not floats of one type");
  return c.add("Sqrt", {c.add("Add", {c.add("Mul", {a, a}), c.add("Mul", {b, b})})});
}

/// On truth values, which are what is not zero.
std::function<ValueId(Conversion&, ValueId, ValueId)> logical(std::string_view op) {
  return [op](Conversion& c, ValueId a, ValueId b) {
    return c.cast(c.add(op, {c.cast(a, DType::kBool), c.cast(b, DType::kBool)}), c.type_of(a));
  };
}

/// The same function of two tensors, of a tensor and a scalar, and the other way round.
struct Function {
  std::function<ValueId(Conversion&, ValueId, ValueId)> make;
  void both(Conversion& c) const { c.give(make(c, c.tensor("lhs"), c.tensor("rhs"))); }
  void with_scalar(Conversion& c) const { c.give(make(c, c.tensor("data"), scalar(c, c.tensor("data")))); }
  void reversed(Conversion& c) const { c.give(make(c, scalar(c, c.tensor("data")), c.tensor("data"))); }
};
Build of_both(Function f) {
  return [f](Conversion& c) { f.both(c); };
}
Build of_scalar(Function f) {
  return [f](Conversion& c) { f.with_scalar(c); };
}

void add_all(Conversion& c) { c.give(c.add("Sum", c.inputs())); }

}  // namespace

std::vector<Row> arithmetic_rows() {
  const std::string_view both = "lhs, rhs", one = "data, scalar=1, is_int=True";
  return {
      {"elemwise_add _plus _add _Plus _grad_add broadcast_add broadcast_plus _npi_add", both, binary("Add")},
      {"elemwise_sub _minus _sub _Minus broadcast_sub broadcast_minus _npi_subtract", both, binary("Sub")},
      {"elemwise_mul _mul _Mul broadcast_mul _npi_multiply", both, binary("Mul")},
      {"elemwise_div _div _Div broadcast_div _npi_true_divide _scatter_elemwise_div", both, float_binary("Div")},
      {"_power _Power broadcast_power _npi_power", both, float_binary("Pow")},
      {"_maximum _Maximum broadcast_maximum _npi_maximum", both, binary("Max")},
      {"_minimum _Minimum broadcast_minimum _npi_minimum", both, binary("Min")},
      {"_equal _Equal broadcast_equal", both, binary("Equal")},
      {"_not_equal _Not_Equal broadcast_not_equal", both, not_equal("lhs", "rhs")},
      {"_greater _Greater broadcast_greater", both, binary("Greater")},
      {"_greater_equal _Greater_Equal broadcast_greater_equal", both, binary("GreaterOrEqual")},
      {"_lesser _Lesser broadcast_lesser", both, binary("Less")},
      {"_lesser_equal _Lesser_Equal broadcast_lesser_equal", both, binary("LessOrEqual")},
      {"add_n ElementWiseSum", "... args, num_args=0", add_all},
      {"_mod _Mod broadcast_mod _npi_mod", both, of_both({remainder})},
      {"_mod_scalar _ModScalar _npi_mod_scalar", one, of_scalar({remainder})},
      {"_rmod_scalar _RModScalar _npi_rmod_scalar", one, [](Conversion& c) { Function{remainder}.reversed(c); }},
      {"_hypot _Hypot broadcast_hypot _npi_hypot", both, of_both({hypotenuse})},
      {"_hypot_scalar _HypotScalar _npi_hypot_scalar", one, of_scalar({hypotenuse})},
      {"_logical_and _Logical_And broadcast_logical_and", both, of_both({logical("And")})},
      {"_logical_or _Logical_Or broadcast_logical_or", both, of_both({logical("Or")})},
      {"_logical_xor _Logical_Xor broadcast_logical_xor", both, of_both({logical("Xor")})},
      {"_logical_and_scalar _LogicalAndScalar", one, of_scalar({logical("And")})},
      {"_logical_or_scalar _LogicalOrScalar", one, of_scalar({logical("Or")})},
      {"_logical_xor_scalar _LogicalXorScalar", one, of_scalar({logical("Xor")})},
      {"_plus_scalar _PlusScalar _npi_add_scalar _scatter_plus_scalar", one, with_scalar("Add")},
      {"_minus_scalar _MinusScalar _npi_subtract_scalar _scatter_minus_scalar", one, with_scalar("Sub")},
      {"_rminus_scalar _RMinusScalar _npi_rsubtract_scalar", one, reversed("Sub")},
      {"_mul_scalar _MulScalar _npi_multiply_scalar", one, with_scalar("Mul")},
      {"_div_scalar _DivScalar _npi_true_divide_scalar", one, float_with_scalar(with_scalar("Div"))},
      {"_rdiv_scalar _RDivScalar _npi_rtrue_divide_scalar", one, float_with_scalar(reversed("Div"))},
      {"_power_scalar _PowerScalar _npi_power_scalar", one, float_with_scalar(with_scalar("Pow"))},
      {"_rpower_scalar _RPowerScalar _npi_rpower_scalar", one, float_with_scalar(reversed("Pow"))},
      {"_maximum_scalar _MaximumScalar _npi_maximum_scalar", one, with_scalar("Max")},
      {"_minimum_scalar _MinimumScalar _npi_minimum_scalar", one, with_scalar("Min")},
      {"_equal_scalar _EqualScalar", one, with_scalar("Equal")},
      {"_not_equal_scalar _NotEqualScalar", one, not_equal_scalar},
      {"_greater_scalar _GreaterScalar", one, with_scalar("Greater")},
      {"_greater_equal_scalar _GreaterEqualScalar", one, with_scalar("GreaterOrEqual")},
      {"_lesser_scalar _LesserScalar", one, with_scalar("Less")},
      {"_lesser_equal_scalar _LesserEqualScalar", one, with_scalar("LessOrEqual")},
  };
}

}  // namespace graft::mxnet
