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
Build as(std::string_view name, DType type) {
  return [=](Conversion& c) { c.give(c.cast(c.tensor(name), type)); };
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

void negate(Conversion& c) { c.give(c.add("Neg", {c.tensor("a")})); }

/// An element of a list: of tensors, or of sizes.
void item(Conversion& c) {
  const int64_t at = c.integer("idx");
  if (!c.is_list("list")) {
    const ValueId index = c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {at}));
    return c.give(c.add("Gather", {c.tensor("list"), index}, {{"axis", int64_t{0}}}));
  }
  const std::vector<ValueId> elements = c.tensors("list");
  c.give(elements[static_cast<size_t>(c.axis(at, static_cast<int>(elements.size())))]);
}

/// The elements of a list, each on its own.
void unpack(Conversion& c) {
  if (c.is_list("list")) return c.give(c.tensors("list"));
  const ValueId sizes = c.tensor("list");
  const auto count = c.size_of(sizes, 0).as_constant();
  if (!count || *count != std::ssize(c.node().outputs)) c.refuse("a list of another length");
  std::vector<ValueId> elements;
  for (int64_t i = 0; i < *count; ++i) {
    const ValueId index = c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {i}));
    elements.push_back(c.add("Gather", {sizes, index}, {{"axis", int64_t{0}}}));
  }
  c.give(std::move(elements));
}

/// What it demands of a type is known now; layouts and devices are the engine's own.
void assert_type(Conversion& c) {
  if (c.has("dtype") && c.type_of(c.tensor("a")) != c.type("dtype"))
    c.refuse("a tensor of another type than it demands");
  c.give(std::vector<ValueId>{});
}

/// An engine has one device, so that no converter reads what this gives; it only has to be there.
void device(Conversion& c) { c.give(c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {0}))); }

void length(Conversion& c) {
  const int64_t count = c.is_list("a") ? std::ssize(c.tensors("a")) : c.size_of(c.tensor("a"), 0).constant();
  c.give(c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {count})));
}

}  // namespace

std::vector<Row> language_rows() {
  return {
      {"aten::size.int sym_size.int(Tensor self, int dim) -> int", size_of_axis},
      {"aten::size sym_size(Tensor self) -> int[]", size},
      {"aten::numel sym_numel(Tensor self) -> int", element_count},
      {"aten::dim(Tensor self) -> int", number_of_axes},
      {"aten::len.t(t[] a) -> int", length},
      {"aten::__getitem__.t(t[] list, int idx) -> t", item},
      {"prim::ListUnpack(t[] list) -> t", unpack},
      {"prim::NumToTensor.Scalar prim::NumToTensor.bool(Scalar a) -> Tensor", same("a")},
      {"aten::Int.Tensor Int.Scalar Int.float Int.bool(Tensor a) -> int", as("a", DType::kInt64)},
      {"aten::Float.Tensor Float.Scalar Float.int(Tensor a) -> float", as("a", DType::kFloat32)},
      {"aten::IntImplicit ScalarImplicit FloatImplicit(Tensor a) -> int", same("a")},
      {"aten::_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, "
       "Device? device=None, Layout? layout=None) -> ()", assert_type},
      {"prim::device(Tensor a) -> Device", device},
      {"aten::item _local_scalar_dense(Tensor self) -> Scalar", same("self")},
      {"aten::add.int python::add(int a, int b) -> int", arithmetic("Add")},
      {"aten::sub.int python::sub(int a, int b) -> int", arithmetic("Sub")},
      {"aten::mul.int python::mul(int a, int b) -> int", arithmetic("Mul")},
      {"aten::floordiv.int __floordiv__.int python::floordiv(int a, int b) -> int", floor_divide},
      {"aten::remainder.int python::mod(int a, int b) -> int", remainder},
      {"aten::neg.int python::neg(int a) -> int", negate},
      {"prim::max.int python::sym_max(int a, int b) -> int", arithmetic("Max")},
      {"prim::min.int python::sym_min(int a, int b) -> int", arithmetic("Min")},
  };
}

}  // namespace graft::aten
