// SPDX-License-Identifier: Apache-2.0
#include <map>

#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// One operand, one result of its type; MXNet takes roots of integers, which are left to it.
std::function<void(Conversion&)> unary(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId data = c.tensor("data");
    if (!is_float(c.type_of(data))) c.refuse("an operand of integers");
    c.give(c.add(op, {data}));
  };
}

/// The same for operators that keep integers what they are.
std::function<void(Conversion&)> plain(std::string_view op) {
  return [op](Conversion& c) { c.give(c.add(op, {c.tensor("data")})); };
}

void activation(Conversion& c) {
  static const std::map<std::string_view, std::string_view> operators = {
      {"relu", "Relu"}, {"sigmoid", "Sigmoid"}, {"tanh", "Tanh"}, {"softrelu", "Softplus"}, {"softsign", "Softsign"}};
  const std::string kind = word(c, "act_type");
  const auto found = operators.find(kind);
  if (found == operators.end()) c.refuse(fmt::format("the activation '{}'", kind));
  c.give(c.add(found->second, {c.tensor("data")}));
}

/// gamma is a slope for each channel, or one for all.
ValueId slopes(Conversion& c, ValueId data) {
  const ValueId gamma = c.tensor("gamma");
  if (gamma == kNoValue) c.refuse("it has no gamma");
  if (c.rank_of(gamma) != 1 || c.rank_of(data) < 2) c.refuse("slopes that are not one for each channel");
  std::vector<int64_t> shape(static_cast<size_t>(c.rank_of(data) - 1), 1);
  shape[0] = -1;
  return c.add("Reshape", {gamma, c.integers_constant(shape)});
}

void leaky_relu(Conversion& c) {
  const ValueId data = c.tensor("data");
  const std::string kind = word(c, "act_type");
  const double slope = real(c, "slope");
  if (kind == "leaky") return c.give(c.add("LeakyRelu", {data}, {{"alpha", slope}}));
  if (kind == "elu") return c.give(c.add("Elu", {data}, {{"alpha", slope}}));
  if (kind == "selu") return c.give(c.add("Selu", {data}));
  if (kind == "gelu") return c.give(c.add("Gelu", {data}));
  if (kind == "prelu") return c.give(c.add("PRelu", {data, slopes(c, data)}));
  if (kind != "rrelu") c.refuse(fmt::format("the activation '{}'", kind));
  const double middle = (real(c, "lower_bound") + real(c, "upper_bound")) / 2;  // in inference no slope is drawn
  c.give(c.add("LeakyRelu", {data}, {{"alpha", middle}}));
}

void rsqrt(Conversion& c) { c.give(c.add("Reciprocal", {c.add("Sqrt", {c.tensor("data")})})); }

void square(Conversion& c) {
  const ValueId data = c.tensor("data");
  c.give(c.add("Mul", {data, data}));
}

/// The logarithm to another base than e.
std::function<void(Conversion&)> logarithm(double natural_of_base) {
  return [natural_of_base](Conversion& c) {
    const ValueId natural = c.add("Log", {c.tensor("data")});
    c.give(c.add("Div", {natural, c.real_constant(natural_of_base, c.type_of(natural))}));
  };
}

void hard_sigmoid(Conversion& c) {
  c.give(c.add("HardSigmoid", {c.tensor("data")}, {{"alpha", real(c, "alpha")}, {"beta", real(c, "beta")}}));
}

void clip(Conversion& c) {
  const ValueId data = c.tensor("data");
  const DType type = c.type_of(data);
  if (!is_float(type)) c.refuse("an operand of integers");
  c.give(c.add("Clip", {data, c.real_constant(real(c, "a_min"), type), c.real_constant(real(c, "a_max"), type)}));
}

void same(Conversion& c) { c.give(c.tensor("data")); }

/// In inference nothing is dropped, unless it always is.
void dropout(Conversion& c) {
  if (word(c, "mode") != "training") c.refuse("dropout that is meant to go on in inference");
  c.give(c.tensor("data"));
}

void cast(Conversion& c) { c.give(c.cast(c.tensor("data"), type(c, "dtype"))); }

/// Converts among floats; other types pass through.
void amp_cast(Conversion& c) {
  const ValueId data = c.tensor("data");
  const DType wanted = type(c, "dtype");
  c.give(is_float(c.type_of(data)) && is_float(wanted) ? c.cast(data, wanted) : data);
}

/// Floats in the widest type of theirs, or in the narrowest; other types pass through.
void amp_multicast(Conversion& c) {
  const std::vector<ValueId> inputs = c.inputs();
  const bool narrow = flag(c, "cast_narrow");
  DType common = DType::kUndefined;
  for (const ValueId input : inputs) {
    const DType type = c.type_of(input);
    if (!is_float(type)) continue;
    const bool first = common == DType::kUndefined;
    const bool wider = !first && bit_width(type) > bit_width(common);
    if (!first && type != common && bit_width(type) == bit_width(common)) c.refuse("f16 beside bf16");
    if (first || (type != common && wider != narrow)) common = type;
  }
  std::vector<ValueId> results;
  for (const ValueId input : inputs) results.push_back(is_float(c.type_of(input)) ? c.cast(input, common) : input);
  c.give(std::move(results));
}

}  // namespace

std::vector<Row> activation_rows() {
  return {
      {"Activation", "data, act_type=relu", activation},
      {"LeakyReLU", "data, gamma=None, act_type=leaky, slope=0.25, lower_bound=0.125, upper_bound=0.334", leaky_relu},
      {"relu _npx_relu", "data", plain("Relu")},
      {"sigmoid _npx_sigmoid", "data", unary("Sigmoid")},
      {"softsign", "data", unary("Softsign")},
      {"hard_sigmoid", "data, alpha=0.2, beta=0.5", hard_sigmoid},
      {"erf _npx_erf", "data", unary("Erf")},
      {"exp _npi_exp", "data", unary("Exp")},
      {"log _npi_log", "data", unary("Log")},
      {"log2 _npi_log2", "data", logarithm(0.6931471805599453)},
      {"log10 _npi_log10", "data", logarithm(2.302585092994046)},
      {"sqrt _npi_sqrt", "data", unary("Sqrt")},
      {"rsqrt", "data", rsqrt},
      {"reciprocal _npi_reciprocal", "data", unary("Reciprocal")},
      {"square _npi_square", "data", square},
      {"abs _npi_abs _npi_absolute", "data", plain("Abs")},
      {"negative _npi_negative", "data", plain("Neg")},
      {"sign _npi_sign", "data", plain("Sign")},
      {"ceil _npi_ceil", "data", unary("Ceil")},
      {"floor _npi_floor", "data", unary("Floor")},
      {"sin _npi_sin", "data", unary("Sin")},
      {"cos _npi_cos", "data", unary("Cos")},
      {"tan _npi_tan", "data", unary("Tan")},
      {"arcsin _npi_arcsin", "data", unary("Asin")},
      {"arccos _npi_arccos", "data", unary("Acos")},
      {"arctan _npi_arctan", "data", unary("Atan")},
      {"sinh _npi_sinh", "data", unary("Sinh")},
      {"cosh _npi_cosh", "data", unary("Cosh")},
      {"tanh _npi_tanh", "data", unary("Tanh")},
      {"arcsinh _npi_arcsinh", "data", unary("Asinh")},
      {"arccosh _npi_arccosh", "data", unary("Acosh")},
      {"arctanh _npi_arctanh", "data", unary("Atanh")},
      {"clip", "data, a_min, a_max", clip},
      {"Dropout", "data, p=0.5, mode=training, axes=(), cudnn_off=False", dropout},
      {"_copy identity _np_copy", "data", same},
      {"BlockGrad stop_gradient make_loss", "data", same},
      {"_contrib_gradientmultiplier", "data, scalar=1, is_int=True", same},
      {"SVMOutput", "data, label=None, margin=1, regularization_coefficient=1, use_linear=False", same},
      {"MakeLoss", "data, grad_scale=1, valid_thresh=0, normalization=null", same},
      {"LinearRegressionOutput MAERegressionOutput", "data, label=None, grad_scale=1", same},
      {"LogisticRegressionOutput", "data, label=None, grad_scale=1", plain("Sigmoid")},
      {"Cast cast", "data, dtype", cast},
      {"amp_cast", "data, dtype", amp_cast},
      {"amp_multicast", "... data, num_outputs, cast_narrow=False", amp_multicast},
  };
}

}  // namespace graft::mxnet
