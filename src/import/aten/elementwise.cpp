// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Argument;
using frontend::Conversion;
using frontend::Row;

/// One operand, one result of its type.
std::function<void(Conversion&)> unary(std::string_view op) {
  return [op](Conversion& c) { c.give(c.add(op, {c.tensor("self")})); };
}

/// The same, whose result is a float where the operand is an integer.
std::function<void(Conversion&)> float_unary(std::string_view op) {
  return [op](Conversion& c) {
    ValueId self = c.tensor("self");
    if (!is_float(c.type_of(self))) self = c.cast(self, DType::kFloat32);
    c.give(c.add(op, {self}));
  };
}

/// Categories of torch's type promotion: a higher one decides, whatever its rank.
int category(DType type) {
  if (kind_of(type) == DTypeKind::kComplex) return 3;
  if (is_float(type)) return 2;
  return type == DType::kBool ? 0 : 1;
}

/// The type of an operation on two tensors, as torch.result_type gives it.
DType promote(Conversion& c, DType a, DType b) {
  if (a == b) return a;
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  if (category(a) == 2) {
    if (bit_width(a) == 16 && bit_width(b) == 16) return DType::kFloat32;
    return bit_width(a) > bit_width(b) ? a : b;
  }
  if (category(a) == 1) {
    if (is_unsigned(a) == is_unsigned(b)) return bit_width(a) > bit_width(b) ? a : b;
    const DType other = is_unsigned(a) ? b : a, u8 = is_unsigned(a) ? a : b;
    if (bit_width(u8) == 8) return bit_width(other) > 8 ? other : DType::kInt16;
  }
  c.refuse("operands of types that torch does not combine either");
}

/// Both operands in their common type. A number of Python takes part with its category only; so does a tensor of rank 0
/// beside one with axes.
std::pair<ValueId, ValueId> operands(Conversion& c, std::string_view first, std::string_view second) {
  ValueId a = c.tensor(first), b = c.tensor(second);
  const auto is_number = [&](std::string_view name) {
    const Argument& argument = c.argument(name);
    return std::holds_alternative<int64_t>(argument.is) || std::holds_alternative<double>(argument.is) ||
           std::holds_alternative<bool>(argument.is);
  };
  DType type = DType::kUndefined;
  const int ca = category(c.type_of(a)), cb = category(c.type_of(b));
  const int ra = is_number(first) ? 0 : c.rank_of(a) > 0 ? 2 : 1, rb = is_number(second) ? 0 : c.rank_of(b) > 0 ? 2 : 1;
  if (ra == rb) {
    type = promote(c, c.type_of(a), c.type_of(b));
  } else {
    const bool a_leads = ra > rb;
    const int lead = a_leads ? ca : cb, other = a_leads ? cb : ca;
    type = c.type_of(a_leads ? a : b);
    if (other > lead) {  // i64 tensor and 0.5: the default float
      const DType others = c.type_of(a_leads ? b : a);
      type = is_float(others) && std::min(ra, rb) == 0 ? DType::kFloat32 : others;
    }
  }
  return {c.cast(a, type), c.cast(b, type)};
}

std::function<void(Conversion&)> binary(std::string_view op) {
  return [op](Conversion& c) {
    const auto [a, b] = operands(c, "self", "other");
    c.give(c.add(op, {a, b}));
  };
}

/// self + alpha * other, self - alpha * other.
std::function<void(Conversion&)> scaled(std::string_view op) {
  return [op](Conversion& c) {
    auto [a, b] = operands(c, "self", "other");
    const double alpha = c.real("alpha");
    if (alpha != 1) b = c.add("Mul", {b, c.real_constant(alpha, c.type_of(b))});
    c.give(c.add(op, {a, b}));
  };
}

void divide(Conversion& c) {
  auto [a, b] = operands(c, "self", "other");
  if (!is_float(c.type_of(a))) a = c.cast(a, DType::kFloat32), b = c.cast(b, DType::kFloat32);
  c.give(c.add("Div", {a, b}));
}

void gelu(Conversion& c) {
  c.give(c.add("Gelu", {c.tensor("self")}, {{"approximate", c.text("approximate")}}));
}

void silu(Conversion& c) {
  const ValueId self = c.tensor("self");
  c.give(c.add("Mul", {self, c.add("Sigmoid", {self})}));
}

void clamp_to(Conversion& c, ValueId low, ValueId high) {
  const ValueId self = c.tensor("self");
  const auto as_self = [&](ValueId bound) { return bound == kNoValue ? kNoValue : c.cast(bound, c.type_of(self)); };
  c.give(c.add("Clip", {self, as_self(low), as_self(high)}));
}
void clamp(Conversion& c) { clamp_to(c, c.tensor("min"), c.tensor("max")); }
void hardtanh(Conversion& c) { clamp_to(c, c.tensor("min_val"), c.tensor("max_val")); }
void relu6(Conversion& c) {
  clamp_to(c, c.real_constant(0, DType::kFloat32), c.real_constant(6, DType::kFloat32));
}

void leaky_relu(Conversion& c) {
  c.give(c.add("LeakyRelu", {c.tensor("self")}, {{"alpha", c.real("negative_slope")}}));
}

/// In inference nothing is dropped.
void dropout(Conversion& c) {
  if (c.flag("train")) c.refuse("dropout of a module in training mode: call eval() before");
  c.give(c.tensor("input"));
}

void same(Conversion& c) { c.give(c.tensor("self")); }

/// The mean over axes; over all of them where none is named.
void mean(Conversion& c) {
  ValueId self = c.tensor("self");
  if (c.has("dtype")) self = c.cast(self, c.type("dtype"));
  if (!is_float(c.type_of(self))) c.refuse("the mean of integers");
  const std::vector<int64_t> axes = c.has("dim") ? c.integers("dim") : std::vector<int64_t>{};
  c.give(c.add("ReduceMean", {self, axes.empty() ? kNoValue : c.integers_constant(axes)},
               {{"keepdims", int64_t{c.flag("keepdim")}}}));
}

void to_type(Conversion& c) {
  const ValueId self = c.tensor("self");
  c.give(c.has("dtype") ? c.cast(self, c.type("dtype")) : self);
}

}  // namespace

std::vector<Row> elementwise_rows() {
  return {
      {"aten::relu(Tensor self) -> Tensor", unary("Relu")},
      {"aten::relu_(Tensor self) -> Tensor", unary("Relu")},
      {"aten::relu6(Tensor self) -> Tensor", relu6},
      {"aten::sigmoid(Tensor self) -> Tensor", float_unary("Sigmoid")},
      {"aten::tanh(Tensor self) -> Tensor", float_unary("Tanh")},
      {"aten::exp(Tensor self) -> Tensor", float_unary("Exp")},
      {"aten::log(Tensor self) -> Tensor", float_unary("Log")},
      {"aten::sqrt(Tensor self) -> Tensor", float_unary("Sqrt")},
      {"aten::erf(Tensor self) -> Tensor", float_unary("Erf")},
      {"aten::neg(Tensor self) -> Tensor", unary("Neg")},
      {"aten::abs(Tensor self) -> Tensor", unary("Abs")},
      {"aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor", gelu},
      {"aten::silu(Tensor self) -> Tensor", silu},
      {"aten::silu_(Tensor self) -> Tensor", silu},
      {"aten::hardswish(Tensor self) -> Tensor", unary("HardSwish")},
      {"aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", leaky_relu},
      {"aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", clamp},
      {"aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", hardtanh},
      {"aten::hardtanh_(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", hardtanh},
      {"aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", scaled("Add")},
      {"aten::add_.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", scaled("Add")},
      {"aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", scaled("Add")},
      {"aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", scaled("Sub")},
      {"aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", scaled("Sub")},
      {"aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", binary("Mul")},
      {"aten::mul.Scalar(Tensor self, Scalar other) -> Tensor", binary("Mul")},
      {"aten::div.Tensor(Tensor self, Tensor other) -> Tensor", divide},
      {"aten::div.Scalar(Tensor self, Scalar other) -> Tensor", divide},
      {"aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", mean},
      {"aten::dropout(Tensor input, float p, bool train) -> Tensor", dropout},
      {"aten::detach(Tensor self) -> Tensor", same},
      {"aten::alias(Tensor self) -> Tensor", same},
      {"aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", same},
      {"aten::contiguous(Tensor self, *, MemoryFormat memory_format=None) -> Tensor", same},
      {"aten::to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, "
       "MemoryFormat? memory_format=None) -> Tensor", to_type},
  };
}

}  // namespace graft::aten
