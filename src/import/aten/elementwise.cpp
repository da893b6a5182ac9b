// SPDX-License-Identifier: Apache-2.0
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;

/// What becomes of one operand.
using Map = std::function<ValueId(Conversion&, ValueId)>;

Map plain(std::string_view op) {
  return [op](Conversion& c, ValueId x) { return c.add(op, {x}); };
}

/// Integers are whole already.
Map rounded(std::string_view op) {
  return [op](Conversion& c, ValueId x) { return is_float(c.type_of(x)) ? c.add(op, {x}) : x; };
}

ValueId positive(Conversion& c, ValueId x) { return c.add("Greater", {x, number(c, 0, x)}); }

ValueId truncated(Conversion& c, ValueId x) {
  if (!is_float(c.type_of(x))) return x;
  return c.add("Where", {positive(c, x), c.add("Floor", {x}), c.add("Ceil", {x})});
}

ValueId fraction(Conversion& c, ValueId x) { return c.add("Sub", {x, truncated(c, x)}); }

/// e^x - 1 = tanh(x / 2) (e^x + 1), which loses nothing near zero.
ValueId expm1(Conversion& c, ValueId x) {
  const ValueId half = c.add("Tanh", {c.add("Mul", {x, number(c, 0.5, x)})});
  return c.add("Mul", {half, c.add("Add", {c.add("Exp", {x}), number(c, 1, x)})});
}

/// log(1 + x); near 0 as 2 atanh(x / (2 + x)), which keeps all digits.
ValueId log1p(Conversion& c, ValueId x) {
  const ValueId one = number(c, 1, x), two = number(c, 2, x);
  const ValueId half_log = c.add("Atanh", {c.add("Div", {x, c.add("Add", {x, two})})});
  const ValueId is_near = c.add("Less", {c.add("Abs", {x}), number(c, 0.5, x)});
  return c.add("Where", {is_near, c.add("Mul", {two, half_log}), c.add("Log", {c.add("Add", {x, one})})});
}

Map log_to(double base_log) {
  return [base_log](Conversion& c, ValueId x) {
    return c.add("Div", {c.add("Log", {x}), number(c, base_log, x)});
  };
}

/// What is no number has sign 0.
ValueId sign(Conversion& c, ValueId x) {
  if (!is_float(c.type_of(x))) return c.add("Sign", {x});
  const ValueId zero = number(c, 0, x), above = c.add("Greater", {x, zero}), below = c.add("Less", {x, zero});
  return c.add("Sub", {c.cast(above, c.type_of(x)), c.cast(below, c.type_of(x))});
}

ValueId rsqrt(Conversion& c, ValueId x) { return c.add("Reciprocal", {c.add("Sqrt", {x})}); }
ValueId square(Conversion& c, ValueId x) { return c.add("Mul", {x, x}); }
ValueId exp2(Conversion& c, ValueId x) { return c.add("Pow", {number(c, 2, x), x}); }
ValueId logical_not(Conversion& c, ValueId x) { return c.add("Not", {c.cast(x, DType::kBool)}); }
ValueId bitwise_not(Conversion& c, ValueId x) {
  return c.add(c.type_of(x) == DType::kBool ? "Not" : "BitwiseNot", {x});
}

/// Integers are numbers, and finite.
Map float_test(std::string_view op) {
  return [op](Conversion& c, ValueId x) {
    return c.add(op, {is_float(c.type_of(x)) ? x : c.cast(x, DType::kFloat32)});
  };
}

ValueId is_finite(Conversion& c, ValueId x) {
  x = as_float(c, x);
  return c.add("Not", {c.add("Or", {c.add("IsNaN", {x}), c.add("IsInf", {x})})});
}

/// The elements are the operand's: who writes to what it gives, writes to a copy.
void same(Conversion& c) { c.give(c.tensor("self")); }

void cast_to(Conversion& c) {
  const ValueId self = c.tensor("self");
  c.give(c.has("dtype") ? c.cast(self, c.type("dtype")) : self);
}

void cast_like(Conversion& c) {
  const ValueId self = c.tensor("self");
  c.give(c.cast(self, c.type_of(c.tensor("other"))));
}

/// A device is where the engine is; what it computes does not depend on it.
void to_device(Conversion& c) { c.give(c.cast(c.tensor("self"), c.type("dtype"))); }

/// In inference nothing is dropped.
std::function<void(Conversion&)> dropout(std::string_view operand) {
  return [operand](Conversion& c) {
    if (c.flag("train")) c.refuse("dropout of a module in training mode: call eval() before");
    c.give(c.tensor(operand));
  };
}

void native_dropout(Conversion& c) {
  if (!c.has("train") || c.flag("train")) c.refuse("dropout of a module in training mode: call eval() before");
  const ValueId input = c.tensor("input");
  c.give({input, c.add("Expand", {c.real_constant(1, DType::kBool), c.add("Shape", {input})})});
}

/// Each function with all its spellings, in place or not.
void add_maps(std::vector<Row>& rows, std::string_view names, const Map& map, bool as_floats) {
  const auto build = [=](Conversion& c) {
    const ValueId self = c.tensor("self");
    c.give(map(c, as_floats ? as_float(c, self) : self));
  };
  rows.push_back({"aten::" + std::string(names) + "(Tensor self) -> Tensor", build});
}

}  // namespace

std::vector<Row> elementwise_rows() {
  std::vector<Row> rows = {
      {"aten::dropout feature_dropout alpha_dropout feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor",
       dropout("input")},
      {"aten::dropout_(Tensor self, float p, bool train) -> Tensor", dropout("self")},
      {"aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)", native_dropout},
      {"aten::detach alias lift_fresh lift_fresh_copy positive lift(Tensor self) -> Tensor", same},
      {"aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", same},
      {"aten::contiguous(Tensor self, *, MemoryFormat memory_format=None) -> Tensor", same},
      {"aten::to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, "
       "MemoryFormat? memory_format=None) -> Tensor", cast_to},
      {"aten::to.dtype_layout(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, "
       "Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, "
       "MemoryFormat? memory_format=None) -> Tensor", cast_to},
      {"aten::to.prim_dtype(Tensor self, int? dtype=None, bool non_blocking=False, bool copy=False) -> Tensor",
       cast_to},
      {"aten::to.device(Tensor self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, "
       "MemoryFormat? memory_format=None) -> Tensor", to_device},
      {"aten::to.other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, "
       "MemoryFormat? memory_format=None) -> Tensor", cast_like},
      {"aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
       "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor", cast_to},
      {"aten::type_as(Tensor self, Tensor other) -> Tensor", cast_like},
  };
  const std::pair<std::string_view, Map> kFloats[] = {
      {"acos acos_ arccos", plain("Acos")},     {"acosh acosh_ arccosh", plain("Acosh")},
      {"asin asin_ arcsin", plain("Asin")},     {"asinh asinh_ arcsinh", plain("Asinh")},
      {"atan atan_ arctan", plain("Atan")},     {"atanh atanh_ arctanh", plain("Atanh")},
      {"cos cos_", plain("Cos")},               {"cosh cosh_", plain("Cosh")},
      {"sin sin_", plain("Sin")},               {"sinh sinh_", plain("Sinh")},
      {"tan tan_", plain("Tan")},               {"tanh tanh_", plain("Tanh")},
      {"erf erf_ special_erf", plain("Erf")},   {"exp exp_", plain("Exp")},
      {"log log_", plain("Log")},               {"sqrt sqrt_", plain("Sqrt")},
      {"sigmoid sigmoid_ special_expit", plain("Sigmoid")},
      {"reciprocal reciprocal_", plain("Reciprocal")},
      {"rsqrt rsqrt_", rsqrt},                  {"exp2 exp2_", exp2},
      {"expm1 expm1_", expm1},                  {"log1p log1p_", log1p},
      {"log2 log2_", log_to(0.69314718055994530942)},
      {"log10 log10_", log_to(2.30258509299404568402)},
  };
  const std::pair<std::string_view, Map> kMaps[] = {
      {"neg neg_ negative", plain("Neg")},      {"abs abs_ absolute", plain("Abs")},
      {"sign sign_ sgn", sign},                 {"square square_", square},
      {"ceil ceil_", rounded("Ceil")},          {"floor floor_", rounded("Floor")},
      {"round round_", rounded("Round")},       {"trunc trunc_ fix", truncated},
      {"frac frac_", fraction},                 {"logical_not logical_not_", logical_not},
      {"bitwise_not bitwise_not_", bitwise_not},
      {"isnan", float_test("IsNaN")},           {"isinf", float_test("IsInf")},
      {"isfinite", is_finite},
  };
  for (const auto& [names, map] : kFloats) add_maps(rows, names, map, true);
  for (const auto& [names, map] : kMaps) add_maps(rows, names, map, false);
  return rows;
}

}  // namespace graft::aten
