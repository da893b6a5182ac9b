// SPDX-License-Identifier: Apache-2.0
// Sizes, numbers and lists of the host language: what they are is followed symbolically, so that shapes computed from
// them stay inside of engines.
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

/// A size as a number of rank 0.
void size_of_axis(Conversion& c) {
  const ValueId self = c.tensor("self");
  const int64_t axis = c.axis(c.integer("dim"), c.rank_of(self));
  const ValueId row = c.add("Shape", {self}, {{"start", axis}, {"end", axis + 1}});
  c.give(c.add("Squeeze", {row, c.integers_constant({0})}));
}

void size(Conversion& c) { c.give(c.add("Shape", {c.tensor("self")})); }
void element_count(Conversion& c) { c.give(c.add("Size", {c.tensor("self")})); }
void number_of_axes(Conversion& c) {
  c.give(c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {c.rank_of(c.tensor("self"))})));
}

/// A number is a tensor without axes.
Build same(std::string_view name) {
  return [name](Conversion& c) { c.give(c.tensor(name)); };
}
/// The one element of a tensor of whatever axes.
Build as(std::string_view name, DType type) {
  return [=](Conversion& c) {
    const ValueId given = c.tensor(name);
    c.give(c.cast(c.rank_of(given) == 0 ? given : c.add("Reshape", {given, c.integers_constant({})}), type));
  };
}

Build arithmetic(std::string_view op) {
  return [op](Conversion& c) {
    const auto [a, b] = operands(c, "a", "b");
    c.give(c.add(op, {a, b}));
  };
}

/// Rounded down, as Python divides.
void floor_divide(Conversion& c) {
  const auto [a, b] = operands(c, "a", "b");
  if (is_float(c.type_of(a))) return c.give(c.add("Floor", {c.add("Div", {a, b})}));
  const ValueId rest = c.add("Mod", {a, b});  // with the divisor's sign, so that what is left is divided exactly
  c.give(c.add("Div", {c.add("Sub", {a, rest}), b}));
}

void remainder(Conversion& c) {
  const auto [a, b] = operands(c, "a", "b");
  if (is_float(c.type_of(a))) c.refuse("the remainder of floats");
  c.give(c.add("Mod", {a, b}));
}

/// Python's `/`: in double.
void divide(Conversion& c) {
  c.give(c.add("Div", {as_type(c, "a", DType::kFloat64), as_type(c, "b", DType::kFloat64)}));
}

void differ(Conversion& c) {
  const auto [a, b] = operands(c, "a", "b");
  c.give(c.add("Not", {c.add("Equal", {a, b})}));
}

void negate(Conversion& c) { c.give(c.add("Neg", {c.tensor("a")})); }

/// What it demands of a type is known now; layouts and devices are the engine's own.
void assert_type(Conversion& c) {
  if (c.has("dtype") && c.type_of(c.tensor("a")) != c.type("dtype"))
    c.refuse("a tensor of another type than it demands");
  c.give(std::vector<ValueId>{});
}

/// An engine has one device, so that no converter reads what this gives; it only has to be there.
void device(Conversion& c) { c.give(c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {0}))); }

}  // namespace

std::vector<Row> language_rows() {
  return {
      {"aten::size.int sym_size.int(Tensor self, int dim) -> int", size_of_axis},
      {"aten::size sym_size(Tensor self) -> int[]", size},
      {"aten::numel sym_numel(Tensor self) -> int", element_count},
      {"aten::dim(Tensor self) -> int", number_of_axes},
      {"prim::NumToTensor.Scalar prim::NumToTensor.bool(Scalar a) -> Tensor", same("a")},
      {"aten::Int.Tensor Int.Scalar Int.float Int.bool(Tensor a) -> int", as("a", DType::kInt64)},
      {"aten::Float.Tensor Float.Scalar Float.int Float.bool(Tensor a) -> float", as("a", DType::kFloat64)},
      {"aten::Bool.Tensor Bool.int Bool.float(Tensor a) -> bool", as("a", DType::kBool)},
      {"aten::ScalarImplicit(Tensor a) -> Scalar", same("a")},
      {"aten::IntImplicit(Tensor a) -> int", as("a", DType::kInt64)},
      {"aten::FloatImplicit(Tensor a) -> float", as("a", DType::kFloat64)},
      {"aten::_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, "
       "Device? device=None, Layout? layout=None) -> ()", assert_type},
      {"prim::device(Tensor a) -> Device", device},
      {"aten::item _local_scalar_dense(Tensor self) -> Scalar", same("self")},
      {"aten::add.int add.float add.int_float add.float_int python::add(int a, int b) -> int", arithmetic("Add")},
      {"aten::sub.int sub.float sub.int_float sub.float_int python::sub(int a, int b) -> int", arithmetic("Sub")},
      {"aten::mul.int mul.float mul.int_float mul.float_int python::mul(int a, int b) -> int", arithmetic("Mul")},
      {"aten::floordiv.int __floordiv__.int python::floordiv(int a, int b) -> int", floor_divide},
      {"aten::remainder.int python::mod(int a, int b) -> int", remainder},
      {"aten::neg.int neg.float python::neg(int a) -> int", negate},
      {"aten::div.int div.float div python::truediv(int a, int b) -> float", divide},
      {"prim::max.int prim::max.float python::sym_max(int a, int b) -> int", arithmetic("Max")},
      {"prim::min.int prim::min.float python::sym_min(int a, int b) -> int", arithmetic("Min")},
      {"aten::lt.int lt.float lt.int_float lt.float_int lt python::lt(int a, int b) -> bool", arithmetic("Less")},
      {"aten::le.int le.float le.int_float le.float_int le python::le(int a, int b) -> bool",
       arithmetic("LessOrEqual")},
      {"aten::gt.int gt.float gt.int_float gt.float_int gt python::gt(int a, int b) -> bool", arithmetic("Greater")},
      {"aten::ge.int ge.float ge.int_float ge.float_int ge python::ge(int a, int b) -> bool",
       arithmetic("GreaterOrEqual")},
      {"aten::eq.int eq.float eq.int_float eq.float_int eq.bool eq python::eq(int a, int b) -> bool",
       arithmetic("Equal")},
      {"aten::ne.int ne.float ne.int_float ne.float_int ne.bool ne python::ne(int a, int b) -> bool", differ},
      {"aten::__and__.bool(bool a, bool b) -> bool", arithmetic("And")},
      {"aten::__or__.bool(bool a, bool b) -> bool", arithmetic("Or")},
      {"aten::__not__(bool self) -> bool", [](Conversion& c) { c.give(c.add("Not", {c.tensor("self")})); }},
  };
}

}  // namespace graft::aten
