// SPDX-License-Identifier: Apache-2.0
// Layers of com.microsoft as quantisers write them: products, recurrences, choices and tables of quantized numbers.
#include <cmath>

#include "import/onnx/contrib_call.h"

namespace graft {
namespace {

/// The numbers that input `first` stands for, its scale and zero point following it.
ValueId numbers_of(ContribCall& call, size_t first) {
  return call.emit("DequantizeLinear", {call.in(first), call.in(first + 1), call.maybe(first + 2)});
}

/// States output 0: `y` by the scale at input `scale` and the zero point behind it.
void quantized_out(ContribCall& call, ValueId y, size_t scale, DType type) {
  Attributes attributes;
  if (!call.has(scale + 1)) attributes["output_dtype"] = int64_t{onnx_code(type)};
  call.out(0, call.emit("QuantizeLinear", {y, call.in(scale), call.maybe(scale + 1)}, attributes));
}

/// alpha times the product of quantized matrices and a bias in i32, whose scale is that of the product.
void expand_qgemm(ContribCall& call) {
  const auto turned = [&](size_t input, std::string_view attribute) {
    return call.integer(attribute, 0) ? call.transpose(call.in(input), {1, 0}) : call.in(input);
  };
  const ValueId a = turned(0, "transA"), b = turned(3, "transB");
  ValueId sum = call.emit("MatMulInteger", {a, b, call.maybe(2), call.maybe(5)});
  if (call.has(6)) sum = call.emit("Add", {sum, call.in(6)});
  ValueId scale = call.emit("Mul", {call.in(1), call.in(4)});
  const double alpha = call.real("alpha", 1);
  if (alpha != 1) scale = call.emit("Mul", {scale, call.scalar_like(alpha, scale)});
  const ValueId y = call.emit("Mul", {call.cast(sum, call.type(scale)), scale});
  if (call.has(7)) return quantized_out(call, y, 7, call.type(call.in(0)));
  call.out(0, y);
}

void expand_where(ContribCall& call) {
  const ValueId chosen = call.emit("Where", {call.in(0), numbers_of(call, 1), numbers_of(call, 4)});
  quantized_out(call, chosen, 7, call.type(call.in(1)));
}

void expand_reduce_mean(ContribCall& call) {
  const std::vector<int64_t> axes = call.integers("axes");
  const ValueId mean = call.emit("ReduceMean", {numbers_of(call, 0), axes.empty() ? kNoValue : call.integers(axes)},
                                 {{"keepdims", call.integer("keepdims", 1)}});
  quantized_out(call, mean, 3, call.type(call.in(0)));
}

/// QLinearConv with channels first or last.
void expand_conv(ContribCall& call) {
  const bool last = call.integer("channels_last", 0) != 0;
  const int64_t rank = call.rank(call.in(0));
  if (rank < 3) call.reject("its input has too few axes");
  std::vector<int64_t> first = {0, rank - 1}, back = {0};
  for (int64_t a = 1; a + 1 < rank; ++a) first.push_back(a), back.push_back(a + 1);
  back.push_back(1);
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < 9; ++i) inputs.push_back(call.maybe(i));
  if (last) inputs[0] = call.transpose(inputs[0], first);
  const ValueId y = call.emit("QLinearConv", inputs, convolution_attributes(call));
  call.out(0, last ? call.transpose(y, back) : y);
}

/// x rounded to the 256 steps of its own range, as a float again.
ValueId in_steps_of_its_range(ContribCall& call, ValueId x) {
  const std::vector<ValueId> parts = call.emit(3, "DynamicQuantizeLinear", {x});
  return call.emit("DequantizeLinear", {parts[0], parts[1], parts[2]});
}

/// Weights [directions, from, 4 hidden] of a recurrence as LSTM has them, [directions, 4 hidden, from], in floats.
/// There is one scale for each direction, or one for each of its columns.
ValueId recurrent_weights(ContribCall& call, size_t weights, size_t scale) {
  const auto spread = [&](ValueId x) {
    const int64_t rank = call.rank(x);
    if (rank == 1) return call.unsqueeze(x, {1, 2});
    return rank == 2 ? call.unsqueeze(x, {1}) : x;
  };
  const ValueId s = spread(call.in(scale));
  ValueId w = call.cast(call.in(weights), call.type(s));
  if (call.has(scale + 1)) w = call.emit("Sub", {w, spread(call.cast(call.in(scale + 1), call.type(s)))});
  return call.transpose(call.emit("Mul", {w, s}), {0, 2, 1});
}

/// The input is rounded to the steps of its range as ONNX Runtime does; the state between steps stays a float, which is
/// closer to the model before it was quantized.
void expand_lstm(ContribCall& call) {
  Attributes attributes = {{"hidden_size", call.integer("hidden_size", 0)}};
  for (const std::string_view name : {"activation_alpha", "activation_beta"}) {
    if (call.has(name)) attributes[std::string(name)] = call.reals(name);
  }
  if (call.has("activations")) attributes["activations"] = call.texts("activations");
  if (call.has("clip")) attributes["clip"] = call.real("clip", 0);
  if (call.has("direction")) attributes["direction"] = call.text("direction", "forward");
  if (call.has("input_forget")) attributes["input_forget"] = call.integer("input_forget", 0);
  const std::vector<ValueId> results =
      call.emit(3, "LSTM",
                {in_steps_of_its_range(call, call.in(0)), recurrent_weights(call, 1, 8), recurrent_weights(call, 2, 10),
                 call.maybe(3), call.maybe(4), call.maybe(5), call.maybe(6), call.maybe(7)},
                attributes);
  for (size_t i = 0; i < results.size(); ++i) call.out(i, results[i]);
}

/// Integers of `bits` that lie in bytes along the last axis, as a tensor of their own type.
ValueId unpacked_bytes(ContribCall& call, ValueId packed, int64_t bits) {
  if (bits == 8) return packed;
  std::vector<int64_t> sizes;
  for (int64_t a = 0; a < call.rank(packed); ++a) sizes.push_back(call.constant_size(packed, static_cast<int>(a)));
  if (sizes.empty()) call.reject("packed integers need an axis");
  sizes.back() *= 8 / bits;
  const ValueId read = call.reread_constant(packed, bits == 2 ? DType::kUint2 : DType::kUint4, sizes);
  if (read == kNoValue) call.unsupported("packed integers that are not known when compiling");
  return read;
}

/// Rows of a table of small integers in blocks, each with a scale and a zero point; only what is taken becomes floats.
void expand_gather_block_quantized(ContribCall& call) {
  const ValueId indices = call.in(1);
  ValueId data = call.in(0), scales = call.in(2), zeros = call.maybe(3);
  const int64_t bits = call.integer("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) call.unsupported("integers of " + std::to_string(bits) + " bits");
  const bool packed = call.type(data) == DType::kUint8;
  if (packed) {
    data = unpacked_bytes(call, data, bits);
    if (zeros != kNoValue) zeros = unpacked_bytes(call, zeros, bits);
  }
  const int64_t rank = call.rank(data);
  const auto axis_of = [&](std::string_view name, int64_t otherwise) {
    const int64_t axis = call.integer(name, otherwise);
    if (axis < -rank || axis >= rank) call.reject("its attribute '" + std::string(name) + "' is no axis of its data");
    return axis < 0 ? axis + rank : axis;
  };
  const int64_t taken = axis_of("gather_axis", 0), blocked = axis_of("quantize_axis", 1);
  if (zeros != kNoValue && packed) {  // rows of zero points end at whole bytes
    zeros = call.emit("Slice", {zeros, call.integers({0}), call.size_of(scales, rank - 1), call.integers({rank - 1})});
  }
  const auto gathered = [&](ValueId x) { return call.emit("Gather", {x, indices}, {{"axis", taken}}); };
  const auto dequantized = [&](int64_t axis) {
    ValueId offset = zeros == kNoValue ? kNoValue : call.cast(zeros, DType::kUint8);
    if (zeros == kNoValue && packed) {  // half of the range
      offset =
          call.emit("Expand", {call.constant("half", TensorData::from_values<uint8_t>(
                                                         DType::kUint8, {}, {static_cast<uint8_t>(1 << (bits - 1))})),
                               call.emit("Shape", {scales})});
    }
    const ValueId wide = packed ? call.cast(data, DType::kUint8) : data;
    return call.emit("DequantizeLinear", {wide, scales, packed ? offset : zeros},
                     {{"axis", axis}, {"block_size", call.integer("block_size", 128)}});
  };
  if (taken == blocked) return call.out(0, gathered(dequantized(blocked)));
  data = gathered(data), scales = gathered(scales);
  if (zeros != kNoValue) zeros = gathered(zeros);
  call.out(0, dequantized(blocked < taken ? blocked : blocked - 1 + call.rank(indices)));
}

/// What the 16 codes of bitsandbytes stand for: floats of 4 bits, or the quantiles of a normal distribution.
const std::vector<float>& bnb4_table(bool quantiles) {
  static const std::vector<float> floats = {
      0, 5.208333333e-03F,  0.66666667F,  1,  0.33333333F,  0.5F,  0.16666667F,  0.25F,
      0, -5.208333333e-03F, -0.66666667F, -1, -0.33333333F, -0.5F, -0.16666667F, -0.25F};
  static const std::vector<float> normal = {
      -1,         -0.6961928F, -0.52507305F, -0.3949175F, -0.28444138F, -0.18477343F, -0.091050036F, 0,
      0.0795803F, 0.1609302F,  0.2461123F,   0.33791524F, 0.44070983F,  0.562617F,    0.72295684F,   1};
  return quantiles ? normal : floats;
}

/// x times the transposed weights, which are codes of 4 bits, the first of a byte in its upper half, in blocks of the
/// flat matrix, each with its largest magnitude.
void expand_matmul_bnb4(ContribCall& call) {
  const int64_t k = call.integer("K", 0), n = call.integer("N", 0), block = call.integer("block_size", 0);
  const int64_t type = call.integer("quant_type", 0);
  if (k < 1 || n < 1 || block < 1) call.reject("its attributes K, N and block_size should be positive");
  if (type != 0 && type != 1) call.unsupported("another quant_type than 0 (FP4) and 1 (NF4)");
  const ValueId bytes = call.emit("Reshape", {call.in(1), call.integers({-1, 1})});
  const ValueId four = call.scalar_like(4, bytes), low_bits = call.scalar_like(15, bytes);
  const ValueId high = call.emit("BitShift", {bytes, four}, {{"direction", std::string("RIGHT")}});
  const ValueId low = call.emit("BitwiseAnd", {bytes, low_bits});
  const ValueId codes = call.emit("Concat", {high, low}, {{"axis", int64_t{1}}});
  const int64_t elements = n * k, blocks = (elements + block - 1) / block, missing = blocks * block - elements;
  ValueId flat = call.emit("Reshape", {codes, call.integers({-1})});
  flat = call.emit("Slice", {flat, call.integers({0}), call.integers({elements})});
  ValueId b = call.emit("Gather", {call.floats(bnb4_table(type == 1)), call.cast(flat, DType::kInt64)});
  if (missing > 0) b = call.emit("Pad", {b, call.integers({0, missing})});
  b = call.emit("Reshape", {b, call.integers({blocks, block})});
  b = call.emit("Mul", {b, call.unsqueeze(call.cast(call.in(2), DType::kFloat32), {1})});
  b = call.emit("Reshape", {b, call.integers({-1})});
  if (missing > 0) b = call.emit("Slice", {b, call.integers({0}), call.integers({elements})});
  const bool turned = call.integer("transB", 1) != 0;
  b = call.emit("Reshape", {b, call.integers(turned ? std::vector{n, k} : std::vector{k, n})});
  b = call.cast(b, call.type(call.in(0)));
  call.out(0, call.emit("MatMul", {call.in(0), turned ? call.transpose(b, {1, 0}) : b}));
}

}  // namespace

std::vector<ContribOperator> contrib_quantized_layers() {
  return {{"QGemm",
           6,
           {"alpha", "transA", "transB"},
           expand_qgemm,
           "Gemm of quantized matrices, as quantized numbers or as floats."},
          {"QLinearWhere", 8, {}, expand_where, "Where of quantized numbers of two scales."},
          {"QLinearReduceMean", 4, {"axes", "keepdims"}, expand_reduce_mean, "ReduceMean of quantized numbers."},
          {"QLinearConv",
           8,
           {"auto_pad", "channels_last", "dilations", "group", "kernel_shape", "pads", "strides"},
           expand_conv,
           "QLinearConv with channels first or last."},
          {"DynamicQuantizeLSTM",
           12,
           {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "input_forget"},
           expand_lstm,
           "LSTM of quantized weights, the input in steps of its range."},
          {"GatherBlockQuantized",
           3,
           {"bits", "block_size", "gather_axis", "quantize_axis"},
           expand_gather_block_quantized,
           "Slices of a table of integers in blocks, as floats."},
          {"MatMulBnb4",
           3,
           {"K", "N", "block_size", "quant_type", "training_mode", "transB"},
           expand_matmul_bnb4,
           "A matrix product with weights of bitsandbytes' 4 bits in blocks."}};
}

}  // namespace graft
