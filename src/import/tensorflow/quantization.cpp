// SPDX-License-Identifier: Apache-2.0
// Operators that round to so many steps and stay floats, as training for quantisation leaves them: what TensorFlow's
// own kernels compute, steps and all.
#include <algorithm>
#include <cmath>
#include <limits>

#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;

int64_t known_bits(Conversion& c) {
  const int64_t bits = c.integer("num_bits");
  if (bits < 2 || bits > 16) c.refuse("steps of other than 2 to 16 bits");
  return bits;
}

ValueId number(Conversion& c, float element) { return c.real_constant(element, DType::kFloat32); }

/// A range that was moved so that 0 is a step (core/kernels/fake_quant_ops_functor.h).
struct Steps {
  float low = 0, high = 0, step = 0;
};

Steps moved(Conversion& c, float least, float most) {
  if (!(least <= 0 && most >= 0 && least < most)) c.refuse("a range without 0");
  const auto first = static_cast<float>(c.flag("narrow_range") ? 1 : 0);
  const auto last = static_cast<float>((int64_t{1} << known_bits(c)) - 1);
  const float step = (most - least) / (last - first), zero = first - least / step;
  const float moved_zero = zero < first ? first : zero > last ? last : std::round(zero);
  return {(first - moved_zero) * step, (last - moved_zero) * step, step};
}

/// FakeQuantWithMinMaxVarsPerChannel: of the last axis.
void fake_quantize_channels(Conversion& c) {
  const ValueId inputs = c.tensor("inputs");
  c.describe(0, inputs);
  const TensorData least = c.given(c.tensor("min")).constant, most = c.given(c.tensor("max")).constant;
  if (!least || !most) c.refuse("a range that is no constant");
  std::vector<float> low, high, step, inverse;
  for (int64_t i = 0; i < least.element_count(); ++i) {
    const Steps steps = moved(c, static_cast<float>(least.read_double(i)), static_cast<float>(most.read_double(i)));
    low.push_back(steps.low), high.push_back(steps.high), step.push_back(steps.step);
    inverse.push_back(1.0F / steps.step);
  }
  const auto list = [&](const std::vector<float>& numbers) {
    return c.constant(TensorData::from_values<float>(DType::kFloat32, {static_cast<int64_t>(numbers.size())}, numbers));
  };
  const ValueId clamped = c.add("Min", {c.add("Max", {inputs, list(low)}), list(high)});
  const ValueId from_low = c.add("Sub", {clamped, list(low)});
  const ValueId steps = c.add("Add", {c.add("Mul", {from_low, list(inverse)}), number(c, 0.5F)});
  c.give(c.add("Add", {c.add("Mul", {c.add("Floor", {steps}), list(step)}), list(low)}));
}

/// FakeQuantWithMinMaxArgs and FakeQuantWithMinMaxVars.
void fake_quantize(Conversion& c) {
  c.describe(0, c.tensor("inputs"));
  const auto [low, high, step] = moved(c, static_cast<float>(c.real("min")), static_cast<float>(c.real("max")));
  const ValueId clamped = c.add("Clip", {c.tensor("inputs"), number(c, low), number(c, high)});
  const ValueId from_low = c.add("Sub", {clamped, number(c, low)});
  const ValueId steps = c.add("Add", {c.add("Mul", {from_low, number(c, 1.0F / step)}), number(c, 0.5F)});
  c.give(c.add("Add", {c.add("Mul", {c.add("Floor", {steps}), number(c, step)}), number(c, low)}));
}

/// QuantizeAndDequantize by a range that is given (core/kernels/quantize_and_dequantize_op.h): the side that needs the
/// larger step decides for both.
void quantize_and_dequantize(Conversion& c) {
  c.describe(0, c.tensor("input"));
  if (!c.flag("range_given")) c.refuse("a range that follows from the tensor");
  if (c.integer("axis") != -1) c.refuse("a range for each channel");
  float least = static_cast<float>(c.real("input_min")), most = static_cast<float>(c.real("input_max"));
  if (!(least < most)) c.refuse("a range without numbers");
  const int64_t bits = known_bits(c);
  const bool has_sign = c.flag("signed_input");
  const int64_t half = int64_t{1} << (bits - 1);
  const auto first = static_cast<float>(has_sign ? (c.flag("narrow_range") ? 1 - half : -half) : 0);
  const auto last = static_cast<float>(has_sign ? half - 1 : 2 * half - 1);
  constexpr float kNone = std::numeric_limits<float>::max();
  const float by_least = first * least > 0 ? first / least : kNone;
  const float by_most = last * most > 0 ? last / most : kNone;
  const float scale = std::min(by_least, by_most);
  const float step = by_least < by_most ? least / first : most / last;
  (by_least < by_most ? most : least) = (by_least < by_most ? last : first) * step;
  const ValueId clamped = c.add("Clip", {c.tensor("input"), number(c, least), number(c, most)});
  const ValueId scaled = c.add("Mul", {clamped, number(c, scale)});
  const bool to_even = c.text("round_mode") == "HALF_TO_EVEN";
  const ValueId rounded = to_even ? c.add("Round", {scaled})
                                  : c.add("Floor", {c.add("Add", {scaled, number(c, 0.5F)})});
  c.give(c.add("Mul", {rounded, number(c, step)}));
}

}  // namespace

std::vector<frontend::Row> quantization_rows() {
  const std::string attributes = "signed_input=True, range_given=False, narrow_range=False, axis=-1, "
                                 "round_mode=\"HALF_TO_EVEN\"";
  return {
      {"FakeQuantWithMinMaxArgs(float inputs, *, min=-6.0, max=6.0, num_bits=8, narrow_range=False)", fake_quantize},
      {"FakeQuantWithMinMaxVars(float inputs, float:0 min, float:0 max, *, num_bits=8, narrow_range=False)",
       fake_quantize},
      {"FakeQuantWithMinMaxVarsPerChannel(float inputs, float:1 min, float:1 max, *, num_bits=8, narrow_range=False)",
       fake_quantize_channels},
      {"QuantizeAndDequantizeV2(float input, float input_min, float input_max, *, num_bits=8, " + attributes + ")",
       quantize_and_dequantize},
      {"QuantizeAndDequantizeV4(float input, float input_min, float input_max, *, num_bits=8, " + attributes + ")",
       quantize_and_dequantize},
      {"QuantizeAndDequantizeV3(float input, float input_min, float input_max, int32 num_bits, *, signed_input=True, "
       "range_given=True, narrow_range=False, axis=-1, round_mode=\"HALF_TO_EVEN\")", quantize_and_dequantize},
  };
}

}  // namespace graft::tensorflow
