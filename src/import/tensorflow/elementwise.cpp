// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

Build unary(std::string_view op) {
  return [op](Conversion& c) { c.give(c.add(op, {c.tensor("x")})); };
}
Build activation(std::string_view op) {
  return [op](Conversion& c) { c.give(c.add(op, {c.tensor("features")})); };
}
Build binary(std::string_view op) {
  return [op](Conversion& c) { c.give(c.add(op, {c.tensor("x"), c.tensor("y")})); };
}

ValueId number(Conversion& c, double element, ValueId like) { return c.real_constant(element, c.type_of(like)); }

void relu6(Conversion& c) {
  const ValueId x = c.tensor("features");
  c.give(c.add("Clip", {x, number(c, 0, x), number(c, 6, x)}));
}

void leaky_relu(Conversion& c) {
  c.give(c.add("LeakyRelu", {c.tensor("features")}, {{"alpha", c.real("alpha")}}));
}

void rsqrt(Conversion& c) { c.give(c.add("Reciprocal", {c.add("Sqrt", {c.tensor("x")})})); }

void square(Conversion& c) {
  const ValueId x = c.tensor("x");
  c.give(c.add("Mul", {x, x}));
}

void squared_difference(Conversion& c) {
  const ValueId difference = c.add("Sub", {c.tensor("x"), c.tensor("y")});
  c.give(c.add("Mul", {difference, difference}));
}

/// Rounds towards minus infinity; the graph's division of integers rounds towards zero.
void floor_divide(Conversion& c) {
  const ValueId x = c.tensor("x"), y = c.tensor("y"), quotient = c.add("Div", {x, y});
  if (is_float(c.type_of(x))) return c.give(c.add("Floor", {quotient}));
  if (kind_of(c.type_of(x)) == DTypeKind::kUnsigned) return c.give(quotient);
  const ValueId zero = number(c, 0, x), rest = c.add("Sub", {x, c.add("Mul", {quotient, y})});
  const ValueId other_sign = c.add("Xor", {c.add("Less", {rest, zero}), c.add("Less", {y, zero})});
  const ValueId lower = c.add("And", {other_sign, c.add("Not", {c.add("Equal", {rest, zero})})});
  c.give(c.add("Where", {lower, c.add("Sub", {quotient, number(c, 1, x)}), quotient}));
}

/// The remainder has the divisor's sign.
void floor_modulo(Conversion& c) {
  const ValueId x = c.tensor("x");
  if (is_float(c.type_of(x))) c.refuse("a remainder of floats that has the divisor's sign");
  c.give(c.add("Mod", {x, c.tensor("y")}));
}

/// How many of the boundaries, which rise, are not above each element.
void bucketize(Conversion& c) {
  const ValueId x = c.tensor("input");
  const auto* listed = std::get_if<frontend::Arguments>(&c.argument("boundaries").is);
  if (!listed) c.refuse("its boundaries are no numbers");
  std::vector<double> boundaries;
  for (const frontend::Argument& each : *listed) {
    const auto* real = std::get_if<double>(&each.is);
    const auto* integer = std::get_if<int64_t>(&each.is);
    if (!real && !integer) c.refuse("its boundaries are no numbers");
    boundaries.push_back(real ? *real : static_cast<double>(*integer));
  }
  TensorData data = TensorData::zeros(DType::kFloat32, {static_cast<int64_t>(boundaries.size())});
  for (size_t i = 0; i < boundaries.size(); ++i) data.write_double(static_cast<int64_t>(i), boundaries[i]);
  const DType compared = c.type_of(x) == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const ValueId wide = c.add("Unsqueeze", {c.cast(x, compared), c.integers_constant({-1})});
  const ValueId reached = c.add("GreaterOrEqual", {wide, c.cast(c.constant(std::move(data)), compared)});
  c.give(c.add("ReduceSum", {c.cast(reached, DType::kInt32), c.integers_constant({-1})}, {{"keepdims", int64_t{0}}}));
}

/// Sizes that are stated where the run alone knew them; another one is an error of the run.
void ensure_shape(Conversion& c) {
  const ValueId input = c.tensor("input");
  const auto* listed = std::get_if<frontend::Arguments>(&c.argument("shape").is);
  if (!listed) return c.give(input);  // of any rank
  const std::vector<int64_t> stated = c.integers("shape");
  const Shape shape = c.shape_of(input);
  if (stated.size() != shape.size()) c.refuse("it has another number of axes than stated");
  std::vector<int64_t> sizes;
  bool told = false;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const auto known = shape[axis].as_constant();
    if (known && stated[axis] >= 0 && *known != stated[axis]) c.refuse("it has another size than stated");
    told = told || (!known && stated[axis] > 0);
    sizes.push_back(!known && stated[axis] > 0 ? stated[axis] : 0);  // 0: as it is
  }
  c.give(told ? c.add("Reshape", {input, c.integers_constant(sizes)}) : input);
}

void not_equal(Conversion& c) { c.give(c.add("Not", {c.add("Equal", {c.tensor("x"), c.tensor("y")})})); }

void clip(Conversion& c) {
  c.give(c.add("Max", {c.add("Min", {c.tensor("t"), c.tensor("clip_value_max")}), c.tensor("clip_value_min")}));
}

/// log(1 + x) without the digits that the sum loses (Goldberg, What Every Computer Scientist Should Know, theorem 4).
void log_1p(Conversion& c) {
  const ValueId x = c.tensor("x"), one = number(c, 1, x);
  const ValueId sum = c.add("Add", {x, one}), log = c.add("Log", {sum});
  const ValueId exact = c.add("Mul", {log, c.add("Div", {x, c.add("Sub", {sum, one})})});
  const ValueId large = c.add("Where", {c.add("Equal", {sum, x}), log, exact});
  c.give(c.add("Where", {c.add("Equal", {sum, one}), x, large}));
}

/// exp(x) - 1 in the same way (Kahan); what is infinite, and -1, are what they are.
void exp_m1(Conversion& c) {
  const ValueId x = c.tensor("x"), one = number(c, 1, x);
  const ValueId power = c.add("Exp", {x}), difference = c.add("Sub", {power, one});
  const ValueId exact = c.add("Mul", {difference, c.add("Div", {x, c.add("Log", {power})})});
  const ValueId at_end = c.add("Or", {c.add("IsInf", {power}), c.add("Equal", {difference, number(c, -1, x)})});
  const ValueId ends = c.add("Where", {at_end, difference, exact});
  c.give(c.add("Where", {c.add("Equal", {power, one}), x, ends}));
}

void erfc(Conversion& c) {
  const ValueId x = c.tensor("x");
  c.give(c.add("Sub", {number(c, 1, x), c.add("Erf", {x})}));
}

/// 0 where the divisor is 0.
void divide_no_nan(Conversion& c) {
  const ValueId y = c.tensor("y"), zero = number(c, 0, y);
  c.give(c.add("Where", {c.add("Equal", {y, zero}), zero, c.add("Div", {c.tensor("x"), y})}));
}

void add_all(Conversion& c) { c.give(c.add("Sum", c.tensors("inputs"))); }

void same(Conversion& c) { c.give(c.tensor("input")); }
void all_the_same(Conversion& c) { c.give(c.tensors("input")); }

void cast(Conversion& c) {
  const ValueId x = c.tensor("x");
  const DType to = c.type("DstT");
  if (kind_of(c.type_of(x)) == DTypeKind::kComplex || kind_of(to) == DTypeKind::kComplex) c.refuse("complex numbers");
  c.give(c.cast(x, to));
}

/// A condition of one axis chooses whole rows.
void select(Conversion& c) {
  const ValueId condition = c.tensor("condition"), then = c.tensor("t");
  if (c.rank_of(condition) != c.rank_of(then) && c.rank_of(condition) != 0) c.refuse("a condition that chooses rows");
  c.give(c.add("Where", {condition, then, c.tensor("e")}));
}

void select_v2(Conversion& c) { c.give(c.add("Where", {c.tensor("condition"), c.tensor("t"), c.tensor("e")})); }

Build filled_like(double element) {
  return [element](Conversion& c) {
    const ValueId x = c.tensor("x");
    c.give(c.add("Expand", {number(c, element, x), c.add("Shape", {x})}));
  };
}

/// Signatures that differ in the operator alone.
void add_rows(std::vector<Row>& rows, std::initializer_list<Row> more) { rows.insert(rows.end(), more); }

void add_binary_rows(std::vector<Row>& rows) {
  add_rows(rows, {
      {"Add(T x, T y)", binary("Add")},
      {"AddV2(T x, T y)", binary("Add")},
      {"Sub(T x, T y)", binary("Sub")},
      {"Mul(T x, T y)", binary("Mul")},
      {"Div(T x, T y)", binary("Div")},
      {"RealDiv(T x, T y)", binary("Div")},
      {"DivNoNan(T x, T y)", divide_no_nan},
      {"FloorDiv(T x, T y)", floor_divide},
      {"FloorMod(T x, T y)", floor_modulo},
      {"Maximum(T x, T y)", binary("Max")},
      {"Minimum(T x, T y)", binary("Min")},
      {"Pow(T x, T y)", binary("Pow")},
      {"SquaredDifference(T x, T y)", squared_difference},
      {"Greater(T x, T y)", binary("Greater")},
      {"GreaterEqual(T x, T y)", binary("GreaterOrEqual")},
      {"Less(T x, T y)", binary("Less")},
      {"LessEqual(T x, T y)", binary("LessOrEqual")},
      {"Equal(T x, T y)", binary("Equal")},
      {"NotEqual(T x, T y)", not_equal},
      {"LogicalAnd(bool x, bool y)", binary("And")},
      {"LogicalOr(bool x, bool y)", binary("Or")},
      {"AddN(N*T inputs)", add_all},
  });
}

void add_unary_rows(std::vector<Row>& rows) {
  add_rows(rows, {
      {"Abs(T x)", unary("Abs")},         {"Neg(T x)", unary("Neg")},         {"Exp(T x)", unary("Exp")},
      {"Log(T x)", unary("Log")},         {"Sqrt(T x)", unary("Sqrt")},       {"Rsqrt(T x)", rsqrt},
      {"Square(T x)", square},            {"Reciprocal(T x)", unary("Reciprocal")},
      {"Inv(T x)", unary("Reciprocal")},  {"Sin(T x)", unary("Sin")},         {"Cos(T x)", unary("Cos")},
      {"Tan(T x)", unary("Tan")},         {"Sinh(T x)", unary("Sinh")},       {"Cosh(T x)", unary("Cosh")},
      {"Asin(T x)", unary("Asin")},       {"Acos(T x)", unary("Acos")},       {"Atan(T x)", unary("Atan")},
      {"Asinh(T x)", unary("Asinh")},     {"Acosh(T x)", unary("Acosh")},     {"Atanh(T x)", unary("Atanh")},
      {"Ceil(T x)", unary("Ceil")},       {"Floor(T x)", unary("Floor")},     {"Round(T x)", unary("Round")},
      {"Rint(T x)", unary("Round")},      {"Sign(T x)", unary("Sign")},       {"Erf(T x)", unary("Erf")},
      {"IsNan(T x)", unary("IsNaN")},     {"IsInf(T x)", unary("IsInf")},     {"LogicalNot(bool x)", unary("Not")},
      {"Sigmoid(T x)", unary("Sigmoid")}, {"Tanh(T x)", unary("Tanh")},
      {"Log1p(T x)", log_1p},             {"Expm1(T x)", exp_m1},             {"Erfc(T x)", erfc},
      {"ZerosLike(T x)", filled_like(0)}, {"OnesLike(T x)", filled_like(1)},
  });
}

}  // namespace

std::vector<Row> elementwise_rows() {
  std::vector<Row> rows = {
      {"Relu(T features)", activation("Relu")},
      {"Relu6(T features)", relu6},
      {"LeakyRelu(T features, *, alpha=0.2)", leaky_relu},
      {"Elu(T features)", activation("Elu")},
      {"Selu(T features)", activation("Selu")},
      {"Softplus(T features)", activation("Softplus")},
      {"Softsign(T features)", activation("Softsign")},
      {"ClipByValue(T t, T clip_value_min, T clip_value_max)", clip},
      {"Cast(SrcT x, *, DstT)", cast},
      {"Select(bool condition, T t, T e)", select},
      {"SelectV2(bool condition, T t, T e)", select_v2},
      {"Bucketize(T input, *, boundaries)", bucketize},
      {"EnsureShape(T input, *, shape)", ensure_shape},
      {"PlaceholderWithDefault(dtype input, *, shape=None)", same},
      {"Identity(T input)", same},
      {"Snapshot(T input)", same},
      {"_CopyFromHostToGpu(T input)", same},
      {"StopGradient(T input)", same},
      {"PreventGradient(T input, *, message=\"\")", same},
      {"IdentityN(T* input)", all_the_same},
  };
  add_binary_rows(rows);
  add_unary_rows(rows);
  return rows;
}

}  // namespace graft::tensorflow
