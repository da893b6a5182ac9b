// SPDX-License-Identifier: Apache-2.0
// Quantized operators of com.microsoft: numbers with a scale and a zero point go through the operator on floats.
#include "import/onnx/contrib_call.h"

namespace graft {
namespace {

/// The numbers that input `first` stands for, its scale and zero point following it.
ValueId numbers_of(ContribCall& call, size_t first) {
  return call.emit("DequantizeLinear", {call.in(first), call.in(first + 1), call.maybe(first + 2)});
}

/// States output 0: `y` by the scale at input `scale` and the zero point behind it.
void quantized_out(ContribCall& call, ValueId y, size_t scale) {
  Attributes attributes;
  if (!call.has(scale + 1)) attributes["output_dtype"] = int64_t{onnx_code(call.type(call.in(0)))};
  call.out(0, call.emit("QuantizeLinear", {y, call.in(scale), call.maybe(scale + 1)}, attributes));
}

void expand_pair(ContribCall& call, std::string_view op) {
  quantized_out(call, call.emit(op, {numbers_of(call, 0), numbers_of(call, 3)}), 6);
}
void expand_add(ContribCall& call) { expand_pair(call, "Add"); }
void expand_mul(ContribCall& call) { expand_pair(call, "Mul"); }

void expand_sigmoid(ContribCall& call) { quantized_out(call, call.emit("Sigmoid", {numbers_of(call, 0)}), 3); }

void expand_leaky_relu(ContribCall& call) {
  const Attributes attributes = {{"alpha", call.real("alpha", 0.01)}};
  quantized_out(call, call.emit("LeakyRelu", {numbers_of(call, 0)}, attributes), 3);
}

void expand_softmax(ContribCall& call) {
  const ValueId x = numbers_of(call, 0);
  const int64_t rank = call.rank(x), axis = call.integer("axis", -1);
  const bool all_behind = call.integer("opset", 13) < 13 && axis != -1 && axis != rank - 1;
  if (!all_behind) return quantized_out(call, call.emit("Softmax", {x}, {{"axis", axis}}), 3);
  const ValueId flat = call.emit("Softmax", {call.emit("Flatten", {x}, {{"axis", axis}})}, {{"axis", int64_t{1}}});
  quantized_out(call, call.emit("Reshape", {flat, call.emit("Shape", {x})}, {{"allowzero", int64_t{1}}}), 3);
}

/// Channels last -> first, or as they are.
ValueId channels_moved(ContribCall& call, ValueId x, bool first) {
  if (call.integer("channels_last", 0) == 0) return x;
  const int64_t rank = call.rank(x);
  std::vector<int64_t> axes = {0};
  if (first) axes.push_back(rank - 1);
  for (int64_t a = first ? 1 : 2; a < (first ? rank - 1 : rank); ++a) axes.push_back(a);
  if (!first) axes.push_back(1);
  return call.transpose(x, axes);
}

void expand_average_pool(ContribCall& call) {
  Attributes attributes;
  for (const std::string_view name : {"kernel_shape", "pads", "strides"}) {
    if (call.has(name)) attributes[std::string(name)] = call.integers(name);
  }
  for (const std::string_view name : {"ceil_mode", "count_include_pad"}) {
    attributes[std::string(name)] = call.integer(name, 0);
  }
  if (call.has("auto_pad")) attributes["auto_pad"] = call.text("auto_pad", "NOTSET");
  const ValueId x = channels_moved(call, numbers_of(call, 0), true);
  quantized_out(call, channels_moved(call, call.emit("AveragePool", {x}, attributes), false), 3);
}

void expand_global_average_pool(ContribCall& call) {
  const ValueId x = channels_moved(call, numbers_of(call, 0), true);
  quantized_out(call, channels_moved(call, call.emit("GlobalAveragePool", {x}), false), 3);
}

/// The result's scale and zero point come first, then three inputs for each part.
void expand_concat(ContribCall& call) {
  std::vector<ValueId> parts;
  for (size_t first = 2; first < call.input_count(); first += 3) parts.push_back(numbers_of(call, first));
  const ValueId joined = call.emit("Concat", parts, {{"axis", call.integer("axis", 0)}});
  call.out(0, call.emit("QuantizeLinear", {joined, call.in(0), call.in(1)}));
}

/// An integer product times the scales of its operands, plus a bias.
void scaled_product_out(ContribCall& call, ValueId product, ValueId a_scale, ValueId b_scale, ValueId bias) {
  const ValueId y = call.emit("Mul", {call.cast(product, call.type(b_scale)), call.emit("Mul", {a_scale, b_scale})});
  call.out(0, bias == kNoValue ? y : call.emit("Add", {y, bias}));
}

void expand_matmul_integer_to_float(ContribCall& call) {
  const ValueId product = call.emit("MatMulInteger", {call.in(0), call.in(1), call.maybe(4), call.maybe(5)});
  scaled_product_out(call, product, call.in(2), call.in(3), call.maybe(6));
}

void expand_dynamic_quantize_matmul(ContribCall& call) {
  const std::vector<ValueId> a = call.emit(3, "DynamicQuantizeLinear", {call.in(0)});
  const ValueId product = call.emit("MatMulInteger", {a[0], call.in(1), a[2], call.maybe(3)});
  scaled_product_out(call, product, a[1], call.in(2), call.maybe(4));
}

Attributes kept_axis(ContribCall& call) {
  Attributes attributes = {{"axis", call.integer("axis", 1)}};
  if (call.has("block_size")) attributes["block_size"] = call.integer("block_size", 0);
  return attributes;
}
void expand_quantize(ContribCall& call) {
  call.out(0, call.emit("QuantizeLinear", {call.in(0), call.in(1), call.maybe(2)}, kept_axis(call)));
}
void expand_dequantize(ContribCall& call) {
  call.out(0, call.emit("DequantizeLinear", {call.in(0), call.in(1), call.maybe(2)}, kept_axis(call)));
}

}  // namespace

std::vector<ContribOperator> contrib_quantization() {
  return {{"QLinearAdd", 7, {}, expand_add, "Add of quantized numbers."},
          {"QLinearMul", 7, {}, expand_mul, "Mul of quantized numbers."},
          {"QLinearSigmoid", 4, {}, expand_sigmoid, "Sigmoid of quantized numbers."},
          {"QLinearLeakyRelu", 4, {"alpha"}, expand_leaky_relu, "LeakyRelu of quantized numbers."},
          {"QLinearSoftmax", 4, {"axis", "opset"}, expand_softmax, "Softmax of quantized numbers."},
          {"QLinearAveragePool", 4,
           {"auto_pad", "ceil_mode", "channels_last", "count_include_pad", "kernel_shape", "pads", "strides"},
           expand_average_pool, "AveragePool of quantized numbers."},
          {"QLinearGlobalAveragePool", 4, {"channels_last"}, expand_global_average_pool,
           "GlobalAveragePool of quantized numbers."},
          {"QLinearConcat", 5, {"axis"}, expand_concat, "Concat of quantized numbers of several scales."},
          {"MatMulIntegerToFloat", 4, {}, expand_matmul_integer_to_float,
           "The product of quantized matrices, as floats, plus a bias."},
          {"DynamicQuantizeMatMul", 3, {}, expand_dynamic_quantize_matmul,
           "The product of a matrix that is quantized by its own range and a quantized one, as floats."},
          {"QuantizeLinear", 2, {"axis", "block_size"}, expand_quantize, "As in ai.onnx."},
          {"DequantizeLinear", 2, {"axis", "block_size"}, expand_dequantize, "As in ai.onnx."}};
}

}  // namespace graft
