// SPDX-License-Identifier: Apache-2.0
#include "import/aten/axes.h"
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Argument;
using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

/// The type of a number of Python where nothing else is said.
DType type_of_number(const Argument& number) {
  if (std::holds_alternative<bool>(number.is)) return DType::kBool;
  return std::holds_alternative<double>(number.is) ? DType::kFloat32 : DType::kInt64;
}

DType type_or(Conversion& c, DType otherwise) { return c.has("dtype") ? c.type("dtype") : otherwise; }

/// One element, of a shape given as a one-dimensional tensor.
ValueId filled(Conversion& c, ValueId element, ValueId shape) { return c.add("Expand", {element, shape}); }

/// f32 of a shape, where no type is named.
Build of_shape(double element) {
  return [element](Conversion& c) {
    c.give(filled(c, c.real_constant(element, type_or(c, DType::kFloat32)), c.shape_tensor("size")));
  };
}

/// The operand's type, and its shape where none is given.
Build like(double element, bool has_size) {
  return [=](Conversion& c) {
    const ValueId self = c.tensor("self");
    const ValueId shape = has_size ? c.shape_tensor("size") : c.add("Shape", {self});
    c.give(filled(c, c.real_constant(element, type_or(c, c.type_of(self))), shape));
  };
}

void full(Conversion& c) {
  const DType type = type_or(c, type_of_number(c.argument("fill_value")));
  c.give(filled(c, as_type(c, "fill_value", type), c.shape_tensor("size")));
}

Build full_like(std::string_view value, bool has_size) {
  return [=](Conversion& c) {
    const ValueId self = c.tensor("self");
    const bool typed = value == "fill_value";
    const DType type = typed ? type_or(c, c.type_of(self)) : c.type_of(self);
    c.give(filled(c, as_type(c, value, type), has_size ? c.shape_tensor("size") : c.add("Shape", {self})));
  };
}

void scalar_tensor(Conversion& c) { c.give(as_type(c, "s", type_or(c, DType::kFloat32))); }

/// start, start + step ... before end. Without a type i64 if all three are integers, else f32.
Build arange(std::string_view start, std::string_view step) {
  return [=](Conversion& c) {
    DType type = DType::kInt64;
    for (const std::string_view name : {start, std::string_view("end"), step}) {
      if (!name.empty() && is_float(c.type_of(c.tensor(name)))) type = DType::kFloat32;
    }
    type = type_or(c, type);
    const ValueId from = start.empty() ? c.real_constant(0, type) : as_type(c, start, type);
    const ValueId by = step.empty() ? c.real_constant(1, type) : as_type(c, step, type);
    c.give(c.add("Range", {from, as_type(c, "end", type), by}));
  };
}

/// `steps` numbers from start to end, from the nearer end each, as torch counts.
void linspace(Conversion& c) {
  const int64_t steps = c.integer("steps");
  const double start = c.real("start"), end = c.real("end");
  if (steps < 0) c.refuse("a negative number of steps");
  TensorData numbers = table(c, type_or(c, DType::kFloat32), {steps});
  const double by = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  for (int64_t i = 0; i < steps; ++i) {
    const bool near = i < steps / 2 || steps == 1;
    numbers.write_double(i, near ? start + by * static_cast<double>(i) : end - by * static_cast<double>(steps - 1 - i));
  }
  c.give(c.constant(std::move(numbers)));
}

/// Ones on the diagonal.
void eye(Conversion& c, std::string_view columns) {
  const ValueId shape = joined(c, {c.shape_tensor("n"), c.shape_tensor(columns)});
  const DType type = type_or(c, DType::kFloat32);
  c.give(c.add("EyeLike", {filled(c, c.real_constant(0, type), shape)}));
}

/// Elements of `src` in the type and shape of the operand.
void copy(Conversion& c) {
  const ValueId self = c.tensor("self"), src = c.cast(c.tensor("src"), c.type_of(self));
  c.give(filled(c, src, c.add("Shape", {self})));
}

/// A tensor of one number.
void tensor_of_number(Conversion& c) {
  const ValueId data = c.tensor("t");
  c.give(c.has("dtype") ? c.cast(data, c.type("dtype")) : data);
}

const std::string kOptions = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None";

}  // namespace

std::vector<Row> creation_rows() {
  const std::string of_size = "(SymInt[] size, *, " + kOptions + ") -> Tensor";
  const std::string formatted = "(SymInt[] size, *, " + kOptions + ", MemoryFormat? memory_format=None) -> Tensor";
  const std::string as_self = "(Tensor self, *, " + kOptions + ", MemoryFormat? memory_format=None) -> Tensor";
  const std::string new_size = "(Tensor self, SymInt[] size, *, " + kOptions + ") -> Tensor";
  return {
      {"aten::zeros" + of_size, of_shape(0)},
      {"aten::ones" + of_size, of_shape(1)},
      {"aten::empty.memory_format" + formatted, of_shape(0)},  // any elements will do
      {"aten::empty_permuted(SymInt[] size, int[] physical_layout, *, " + kOptions + ") -> Tensor", of_shape(0)},
      {"aten::empty_strided(SymInt[] size, SymInt[] stride, *, " + kOptions + ") -> Tensor", of_shape(0)},
      {"aten::zeros_like empty_like" + as_self, like(0, false)},
      {"aten::ones_like" + as_self, like(1, false)},
      {"aten::new_zeros new_empty" + new_size, like(0, true)},
      {"aten::new_ones" + new_size, like(1, true)},
      {"aten::full(SymInt[] size, Scalar fill_value, *, " + kOptions + ") -> Tensor", full},
      {"aten::full_like(Tensor self, Scalar fill_value, *, " + kOptions + ", MemoryFormat? memory_format=None) -> "
       "Tensor", full_like("fill_value", false)},
      {"aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, *, " + kOptions + ") -> Tensor",
       full_like("fill_value", true)},
      {"aten::fill.Scalar fill.Tensor fill_.Scalar(Tensor self, Scalar value) -> Tensor", full_like("value", false)},
      {"aten::zero zero_(Tensor self) -> Tensor",
       [](Conversion& c) {
         const ValueId self = c.tensor("self");
         c.give(filled(c, number(c, 0, self), c.add("Shape", {self})));
       }},
      {"aten::scalar_tensor(Scalar s, *, " + kOptions + ") -> Tensor", scalar_tensor},
      {"aten::tensor.int tensor.float tensor.bool(Scalar t, *, ScalarType? dtype=None, Device? device=None, "
       "bool requires_grad=False) -> Tensor", tensor_of_number},
      {"aten::arange(Scalar end, *, " + kOptions + ") -> Tensor", arange("", "")},
      {"aten::arange.start(Scalar start, Scalar end, *, " + kOptions + ") -> Tensor", arange("start", "")},
      {"aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, " + kOptions + ") -> Tensor",
       arange("start", "step")},
      {"aten::linspace(Scalar start, Scalar end, int steps, *, " + kOptions + ") -> Tensor", linspace},
      {"aten::eye(SymInt n, *, " + kOptions + ") -> Tensor", [](Conversion& c) { eye(c, "n"); }},
      {"aten::eye.m(SymInt n, SymInt m, *, " + kOptions + ") -> Tensor", [](Conversion& c) { eye(c, "m"); }},
      {"aten::copy copy_(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", copy},
  };
}

}  // namespace graft::aten
