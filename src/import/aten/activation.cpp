// SPDX-License-Identifier: Apache-2.0
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

/// One operator with fixed attributes.
Build unary(std::string_view op, const Attributes& attributes = {}) {
  return [=](Conversion& c) { c.give(c.add(op, {c.tensor("self")}, Attributes(attributes))); };
}

/// One operator, whose attribute is one of torch's arguments.
Build with_real(std::string_view op, std::string_view attribute, std::string_view argument) {
  return [=](Conversion& c) {
    c.give(c.add(op, {c.tensor("self")}, {{std::string(attribute), c.real(argument)}}));
  };
}

void gelu(Conversion& c) {
  c.give(c.add("Gelu", {c.tensor("self")}, {{"approximate", c.text("approximate")}}));
}

void silu(Conversion& c) {
  const ValueId self = c.tensor("self");
  c.give(c.add("Mul", {self, c.add("Sigmoid", {self})}));
}

/// Scales in front and behind are torch's own.
void elu(Conversion& c) {
  const ValueId self = c.tensor("self");
  const double alpha = c.real("alpha"), scale = c.real("scale"), input_scale = c.real("input_scale");
  const auto times = [&](ValueId x, double factor) {
    return factor == 1 ? x : c.add("Mul", {x, number(c, factor, x)});
  };
  const ValueId below = c.add("Elu", {times(self, input_scale)}, {{"alpha", alpha}});
  const ValueId is_above = c.add("Greater", {self, number(c, 0, self)});
  if (input_scale == 1) return c.give(times(below, scale));
  c.give(c.add("Where", {is_above, times(self, scale), times(below, scale)}));
}

/// log(1 + e^(beta x)) / beta; x where beta x is above the threshold.
void softplus(Conversion& c) {
  const ValueId self = c.tensor("self");
  const double beta = c.real("beta");
  const ValueId scaled = beta == 1 ? self : c.add("Mul", {self, number(c, beta, self)});
  ValueId soft = c.add("Softplus", {scaled});
  if (beta != 1) soft = c.add("Div", {soft, number(c, beta, self)});
  c.give(
      c.add("Where", {c.add("Greater", {scaled, c.real_constant(c.real("threshold"), c.type_of(self))}), self, soft}));
}

void log_sigmoid(Conversion& c) {
  c.give(c.add("Neg", {c.add("Softplus", {c.add("Neg", {c.tensor("self")})})}));
}

void threshold(Conversion& c) {
  const ValueId self = c.tensor("self"), limit = number(c, c.real("threshold"), self);
  c.give(c.add("Where", {c.add("LessOrEqual", {self, limit}), number(c, c.real("value"), self), self}));
}

/// The slopes go with axis 1.
void prelu(Conversion& c) {
  const ValueId self = c.tensor("self");
  ValueId weight = c.tensor("weight");
  std::vector<int64_t> shape(static_cast<size_t>(std::max(c.rank_of(self) - 1, 1)), 1);
  shape[0] = -1;
  if (c.rank_of(weight) == 1) weight = c.add("Reshape", {weight, c.integers_constant(shape)});
  c.give(c.add("PRelu", {self, weight}));
}

/// One half of an axis, gated by the other.
void glu(Conversion& c) {
  const ValueId self = c.tensor("self");
  const int64_t axis = c.axis(c.integer("dim"), c.rank_of(self));
  const std::vector<ValueId> halves = c.add_several("Split", {self}, {{"axis", axis}, {"num_outputs", int64_t{2}}}, 2);
  c.give(c.add("Mul", {halves[0], c.add("Sigmoid", {halves[1]})}));
}

/// Between bounds of any shape; NaN stays.
void clamp_to(Conversion& c, std::string_view low, std::string_view high) {
  DType type = c.type_of(c.tensor("self"));
  for (const std::string_view bound : {low, high}) {
    if (bound.empty() || !c.has(bound)) continue;
    const DType with = result_type(c, "self", bound);
    if (is_float(with) && !is_float(type)) type = with;
    if (with != type && is_float(with) == is_float(type)) type = bit_width(with) > bit_width(type) ? with : type;
  }
  ValueId result = as_type(c, "self", type);
  if (!low.empty() && c.has(low)) result = c.add("Max", {result, as_type(c, low, type)});
  if (!high.empty() && c.has(high)) result = c.add("Min", {result, as_type(c, high, type)});
  c.give(result);
}

/// The same for numbers, in one operator.
void clip(Conversion& c, std::string_view low, std::string_view high) {
  const ValueId self = c.tensor("self");
  const auto whole = [&](std::string_view name) {
    return name.empty() || !c.has(name) || std::holds_alternative<int64_t>(c.argument(name).is);
  };
  const auto fixed = [&](std::string_view name) {
    return whole(name) || std::holds_alternative<double>(c.argument(name).is);
  };
  const bool simple = is_float(c.type_of(self)) ? fixed(low) && fixed(high) : whole(low) && whole(high);
  if (!simple || c.type_of(self) == DType::kBool) return clamp_to(c, low, high);
  const auto bound = [&](std::string_view name) {
    return name.empty() || !c.has(name) ? kNoValue : as_type(c, name, c.type_of(self));
  };
  c.give(c.add("Clip", {self, bound(low), bound(high)}));
}

Build clamp(std::string_view low, std::string_view high) {
  return [=](Conversion& c) { clip(c, low, high); };
}

void relu6(Conversion& c) {
  const ValueId self = c.tensor("self");
  c.give(c.add("Clip", {self, number(c, 0, self), number(c, 6, self)}));
}

}  // namespace

std::vector<Row> activation_rows() {
  return {
      {"aten::relu relu_(Tensor self) -> Tensor", unary("Relu")},
      {"aten::relu6 relu6_(Tensor self) -> Tensor", relu6},
      {"aten::gelu gelu_(Tensor self, *, str approximate=\"none\") -> Tensor", gelu},
      {"aten::silu silu_(Tensor self) -> Tensor", silu},
      {"aten::mish mish_(Tensor self) -> Tensor", unary("Mish")},
      {"aten::hardswish hardswish_(Tensor self) -> Tensor", unary("HardSwish")},
      {"aten::hardsigmoid hardsigmoid_(Tensor self) -> Tensor",
       unary("HardSigmoid", {{"alpha", 1.0 / 6}, {"beta", 0.5}})},
      {"aten::selu selu_(Tensor self) -> Tensor",
       unary("Selu", {{"alpha", 1.6732632423543772848}, {"gamma", 1.0507009873554804934}})},
      {"aten::elu elu_(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", elu},
      {"aten::celu celu_(Tensor self, Scalar alpha=1.0) -> Tensor", with_real("Celu", "alpha", "alpha")},
      {"aten::leaky_relu leaky_relu_(Tensor self, Scalar negative_slope=0.01) -> Tensor",
       with_real("LeakyRelu", "alpha", "negative_slope")},
      {"aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", with_real("Shrink", "lambd", "lambd")},
      {"aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
       [](Conversion& c) {
         const double bound = c.real("lambd");
         c.give(c.add("Shrink", {c.tensor("self")}, {{"lambd", bound}, {"bias", bound}}));
       }},
      {"aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", softplus},
      {"aten::log_sigmoid(Tensor self) -> Tensor", log_sigmoid},
      {"aten::threshold threshold_(Tensor self, Scalar threshold, Scalar value) -> Tensor", threshold},
      {"aten::prelu _prelu_kernel(Tensor self, Tensor weight) -> Tensor", prelu},
      {"aten::glu(Tensor self, int dim=-1) -> Tensor", glu},
      {"aten::clamp clamp_ clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", clamp("min", "max")},
      {"aten::clamp.Tensor clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
       [](Conversion& c) { clamp_to(c, "min", "max"); }},
      {"aten::clamp_min clamp_min_(Tensor self, Scalar min) -> Tensor", clamp("min", "")},
      {"aten::clamp_max clamp_max_(Tensor self, Scalar max) -> Tensor", clamp("", "max")},
      {"aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", [](Conversion& c) { clamp_to(c, "min", ""); }},
      {"aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", [](Conversion& c) { clamp_to(c, "", "max"); }},
      {"aten::hardtanh hardtanh_(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
       clamp("min_val", "max_val")},
  };
}

}  // namespace graft::aten
