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

void add_all(Conversion& c) { c.give(c.add("Sum", c.inputs())); }

}  // namespace

std::vector<Row> arithmetic_rows() {
  const std::string_view both = "lhs, rhs", one = "data, scalar=1, is_int=True";
  return {
      {"elemwise_add _plus _add _Plus _grad_add broadcast_add broadcast_plus", both, binary("Add")},
      {"elemwise_sub _minus _sub _Minus broadcast_sub broadcast_minus", both, binary("Sub")},
      {"elemwise_mul _mul _Mul broadcast_mul", both, binary("Mul")},
      {"elemwise_div _div _Div broadcast_div", both, float_binary("Div")},
      {"_power _Power broadcast_power", both, float_binary("Pow")},
      {"_maximum _Maximum broadcast_maximum", both, binary("Max")},
      {"_minimum _Minimum broadcast_minimum", both, binary("Min")},
      {"_equal _Equal broadcast_equal", both, binary("Equal")},
      {"_not_equal _Not_Equal broadcast_not_equal", both, not_equal("lhs", "rhs")},
      {"_greater _Greater broadcast_greater", both, binary("Greater")},
      {"_greater_equal _Greater_Equal broadcast_greater_equal", both, binary("GreaterOrEqual")},
      {"_lesser _Lesser broadcast_lesser", both, binary("Less")},
      {"_lesser_equal _Lesser_Equal broadcast_lesser_equal", both, binary("LessOrEqual")},
      {"add_n ElementWiseSum", "args, num_args=0", add_all},
      {"_plus_scalar _PlusScalar", one, with_scalar("Add")},
      {"_minus_scalar _MinusScalar", one, with_scalar("Sub")},
      {"_rminus_scalar _RMinusScalar", one, reversed("Sub")},
      {"_mul_scalar _MulScalar", one, with_scalar("Mul")},
      {"_div_scalar _DivScalar", one, float_with_scalar(with_scalar("Div"))},
      {"_rdiv_scalar _RDivScalar", one, float_with_scalar(reversed("Div"))},
      {"_power_scalar _PowerScalar", one, float_with_scalar(with_scalar("Pow"))},
      {"_rpower_scalar _RPowerScalar", one, float_with_scalar(reversed("Pow"))},
      {"_maximum_scalar _MaximumScalar", one, with_scalar("Max")},
      {"_minimum_scalar _MinimumScalar", one, with_scalar("Min")},
      {"_equal_scalar _EqualScalar", one, with_scalar("Equal")},
      {"_not_equal_scalar _NotEqualScalar", one, not_equal_scalar},
      {"_greater_scalar _GreaterScalar", one, with_scalar("Greater")},
      {"_greater_equal_scalar _GreaterEqualScalar", one, with_scalar("GreaterOrEqual")},
      {"_lesser_scalar _LesserScalar", one, with_scalar("Less")},
      {"_lesser_equal_scalar _LesserEqualScalar", one, with_scalar("LessOrEqual")},
  };
}

}  // namespace graft::mxnet
