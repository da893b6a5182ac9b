// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions of com.microsoft: with transpositions, factors, activations, and few-bit weights.
#include <algorithm>

#include <fmt/format.h>

#include "import/onnx/contrib_call.h"

namespace graft {
ValueId activated(ContribCall& call, ValueId x, const std::string& name, const std::vector<double>& parameters) {
  const auto parameter = [&](size_t n, double otherwise) { return n < parameters.size() ? parameters[n] : otherwise; };
  if (name.empty()) return x;
  if (name == "Relu" || name == "Sigmoid" || name == "Tanh") return call.emit(name, {x});
  if (name == "LeakyRelu") return call.emit(name, {x}, {{"alpha", parameter(0, 0.01)}});
  if (name == "HardSigmoid") {
    return call.emit(name, {x}, {{"alpha", parameter(0, 0.2)}, {"beta", parameter(1, 0.5)}});
  }
  if (name == "Clip") {
    return call.emit(name, {x, call.scalar_like(parameter(0, -3.402823e38), x),
                            call.scalar_like(parameter(1, 3.402823e38), x)});
  }
  call.unsupported(fmt::format("the activation '{}'", name));
}

Attributes convolution_attributes(const ContribCall& call) {
  Attributes attributes;
  for (const std::string_view name : {"dilations", "kernel_shape", "pads", "strides"}) {
    if (call.has(name)) attributes[std::string(name)] = call.integers(name);
  }
  if (call.has("group")) attributes["group"] = call.integer("group", 1);
  if (call.has("auto_pad")) attributes["auto_pad"] = call.text("auto_pad", "NOTSET");
  return attributes;
}

namespace {

/// The operand with its first axis behind the batch (`batch`), and its last two exchanged (`last`).
ValueId arranged(ContribCall& call, ValueId x, bool batch, bool last) {
  if (!batch && !last) return x;
  const int64_t rank = call.rank(x);
  if (rank < 2) return x;
  std::vector<int64_t> axes;
  for (int64_t a = 0; a < rank; ++a) axes.push_back(a);
  if (batch) std::rotate(axes.begin(), axes.begin() + 1, axes.end() - 1);
  if (last) std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return call.transpose(x, axes);
}

ValueId fused_product(ContribCall& call) {
  const ValueId a =
      arranged(call, call.in(0), call.integer("transBatchA", 0) != 0, call.integer("transA", 0) != 0);
  const ValueId b =
      arranged(call, call.in(1), call.integer("transBatchB", 0) != 0, call.integer("transB", 0) != 0);
  const double alpha = call.real("alpha", 1);
  const ValueId product = call.emit("MatMul", {a, b});
  return alpha == 1 ? product : call.emit("Mul", {product, call.scalar_like(alpha, product)});
}

void expand_fused_matmul(ContribCall& call) { call.out(0, fused_product(call)); }

/// The parameters of the activation that a fused product has, those that are there.
std::vector<double> activation_parameters(const ContribCall& call) {
  std::vector<double> parameters;
  for (const std::string_view name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (call.has(name)) parameters.push_back(call.real(name, 0));
  }
  return parameters;
}

void expand_fused_matmul_activation(ContribCall& call) {
  call.out(0, activated(call, fused_product(call), call.text("activation", ""), activation_parameters(call)));
}

void expand_gemm_fast_gelu(ContribCall& call) {
  ValueId y = call.emit("MatMul", {call.in(0), call.in(1)});
  if (call.has(2)) y = call.emit("Add", {y, call.in(2)});
  call.out(0, call.emit("Gelu", {y}, {{"approximate", std::string("tanh")}}));
}

void expand_fused_conv(ContribCall& call) {
  ValueId y = call.emit("Conv", {call.in(0), call.in(1), call.maybe(2)}, convolution_attributes(call));
  if (call.has(3)) y = call.emit("Add", {y, call.in(3)});
  call.out(0, activated(call, y, call.text("activation", ""), call.reals("activation_params")));
}

/// An operator on images whose channels lie last in what it reads and gives.
template <class Expand>
ValueId channels_last(ContribCall& call, const Expand& expand) {
  const int64_t rank = call.rank(call.in(0));
  if (rank < 3) call.reject("its input has too few axes");
  std::vector<int64_t> first = {0, rank - 1}, last = {0};
  for (int64_t a = 1; a + 1 < rank; ++a) first.push_back(a), last.push_back(a + 1);
  last.push_back(1);
  return call.transpose(expand(call.transpose(call.in(0), first), first), last);
}

/// Weights as Conv has them, of weights that may have their channels last too: where both fit, ONNX Runtime's tools put
/// those of NhwcConv last, and those of NhwcFusedConv not.
ValueId weights_channels_first(ContribCall& call, const std::vector<int64_t>& first) {
  const ValueId w = call.in(1);
  const auto places = static_cast<size_t>(call.rank(w) - 2);
  std::vector<int64_t> dims;
  for (size_t a = 0; a < places + 2; ++a) dims.push_back(call.constant_size(w, static_cast<int>(a)));
  const std::vector<int64_t> kernel = call.integers("kernel_shape");
  const auto fits = [&](size_t at, size_t channels) {
    if (!kernel.empty() && !std::equal(kernel.begin(), kernel.end(), dims.begin() + static_cast<std::ptrdiff_t>(at),
                                       dims.begin() + static_cast<std::ptrdiff_t>(at + places))) return false;
    return dims[channels] * call.integer("group", 1) == call.constant_size(call.in(0), -1);
  };
  const bool may_be_last = fits(1, places + 1), may_be_first = fits(2, 1);
  const bool last = may_be_last && (!may_be_first || call.op() == "NhwcConv");
  return last ? call.transpose(w, first) : w;
}

void expand_nhwc_conv(ContribCall& call) {
  call.out(0, channels_last(call, [&](ValueId x, const std::vector<int64_t>& first) {
    const ValueId w = weights_channels_first(call, first);
    ValueId y = call.emit("Conv", {x, w, call.maybe(2)}, convolution_attributes(call));
    if (call.has(3)) y = call.emit("Add", {y, call.transpose(call.in(3), first)});
    return activated(call, y, call.text("activation", ""), call.reals("activation_params"));
  }));
}

void expand_nhwc_max_pool(ContribCall& call) {
  Attributes attributes = convolution_attributes(call);
  if (call.has("ceil_mode")) attributes["ceil_mode"] = call.integer("ceil_mode", 0);
  call.out(0, channels_last(call, [&](ValueId x, const auto&) { return call.emit("MaxPool", {x}, attributes); }));
}

void expand_fused_gemm(ContribCall& call) {
  const Attributes attributes = {{"alpha", call.real("alpha", 1)},
                                 {"beta", call.real("beta", 1)},
                                 {"transA", call.integer("transA", 0)},
                                 {"transB", call.integer("transB", 0)}};
  const ValueId y = call.emit("Gemm", {call.in(0), call.in(1), call.maybe(2)}, attributes);
  call.out(0, activated(call, y, call.text("activation", ""), activation_parameters(call)));
}

/// The weights of MatMulNBits: [n, k] codes of u2, u4 or u8 in blocks along k, each with a scale and a zero point.
struct BlockedWeights {
  int64_t k = 0, n = 0, bits = 4, block = 0, blocks = 0;
  DType type = DType::kUint4;
  int64_t half() const { return int64_t{1} << (bits - 1); }
};

BlockedWeights blocked_weights(ContribCall& call) {
  BlockedWeights w{.k = call.integer("K", 0), .n = call.integer("N", 0), .bits = call.integer("bits", 4),
                   .block = call.integer("block_size", 0)};
  constexpr int64_t kMost = int64_t{1} << 31;
  const auto fits = [](int64_t size) { return size >= 1 && size <= kMost; };
  if (!fits(w.k) || !fits(w.n) || !fits(w.block)) {
    call.reject("its attributes K, N and block_size should be positive, and at most 2^31");
  }
  if (w.bits != 2 && w.bits != 4 && w.bits != 8) call.unsupported(fmt::format("weights of {} bits", w.bits));
  if (call.integer("weight_prepacked", 0) != 0) call.unsupported("weights that are packed for one machine");
  w.type = w.bits == 2 ? DType::kUint2 : w.bits == 4 ? DType::kUint4 : DType::kUint8;
  w.blocks = (w.k + w.block - 1) / w.block;
  return w;
}

/// [n, blocks]; rows of those that are packed start at whole bytes.
ValueId zero_points(ContribCall& call, const BlockedWeights& w) {
  if (!call.has(3)) {
    TensorData half = TensorData::zeros(w.type, {w.n, w.blocks});
    const auto of_byte = static_cast<unsigned char>(w.bits == 2 ? 0xAA : w.bits == 4 ? 0x88 : 0x80);
    std::ranges::fill(half.mutable_bytes(), std::byte{of_byte});
    return call.constant("zero_points", std::move(half));
  }
  if (call.type(call.in(3)) != DType::kUint8) {
    return call.emit("Reshape", {call.in(3), call.integers({w.n, w.blocks})});
  }
  const int64_t row = (w.blocks * w.bits + 7) / 8 * 8 / w.bits;
  const ValueId zeros = call.reread_constant(call.in(3), w.type, {w.n, row}, w.blocks);
  if (zeros == kNoValue) call.unsupported("zero points that are not known when compiling");
  return zeros;
}

/// The weights as floats of the scales' type, [n, k].
ValueId dequantized(ContribCall& call, const BlockedWeights& w) {
  const ValueId codes = call.reread_constant(call.in(1), w.type, {w.n, w.blocks * w.block}, w.k);
  if (codes == kNoValue) call.unsupported("weights that are not known when compiling, or not of N rows of blocks");
  const ValueId known = call.reread_constant(call.in(2), call.type(call.in(2)), {w.n, w.blocks});
  const ValueId scales =
      known != kNoValue ? known : call.emit("Reshape", {call.in(2), call.integers({w.n, w.blocks})});
  const ValueId zeros = zero_points(call, w);
  const bool counted = !call.has(4);
  if (counted && call.type(zeros) == w.type) {
    return call.emit("DequantizeLinear", {codes, scales, zeros}, {{"axis", int64_t{1}}, {"block_size", w.block}});
  }
  // The block of each column is told, or zero points lie between the codes.
  const ValueId block_of =
      counted ? call.constant("block_of", TensorData::from_values<int64_t>(DType::kInt64, {w.k}, [&] {
        std::vector<int64_t> blocks(static_cast<size_t>(w.k));
        for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int64_t>(i) / w.block;
        return blocks;
      }()))
              : call.in(4);
  const auto of_columns = [&](ValueId x) { return call.emit("Gather", {x, block_of}, {{"axis", int64_t{1}}}); };
  const DType type = call.type(scales);
  return call.emit("Mul", {call.emit("Sub", {call.cast(codes, type), of_columns(call.cast(zeros, type))}),
                           of_columns(scales)});
}

/// x times the transposed weights.
void expand_matmul_nbits(ContribCall& call) {
  const ValueId weights = dequantized(call, blocked_weights(call));
  const ValueId b = call.transpose(call.cast(weights, call.type(call.in(0))), {1, 0});
  const ValueId product = call.emit("MatMul", {call.in(0), b});
  call.out(0, call.has(5) ? call.emit("Add", {product, call.in(5)}) : product);
}

}  // namespace

std::vector<ContribOperator> contrib_products() {
  return {{"FusedMatMul", 2, {"alpha", "transA", "transB", "transBatchA", "transBatchB"}, expand_fused_matmul,
           "alpha times the matrix product of operands that may be transposed."},
          {"TransposeMatMul", 2, {"alpha", "transA", "transB", "transBatchA", "transBatchB"}, expand_fused_matmul,
           "The former name of FusedMatMul."},
          {"FusedGemm", 2,
           {"activation", "activation_alpha", "activation_beta", "activation_gamma", "alpha", "beta", "transA",
            "transB"},
           expand_fused_gemm, "Gemm with an activation."},
          {"FusedConv", 2,
           {"activation", "activation_params", "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"},
           expand_fused_conv, "Conv with a residual and an activation."},
          {"NhwcConv", 2, {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}, expand_nhwc_conv,
           "Conv with channels last."},
          {"NhwcFusedConv", 2,
           {"activation", "activation_params", "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"},
           expand_nhwc_conv, "FusedConv with channels last."},
          {"NhwcMaxPool", 1, {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"},
           expand_nhwc_max_pool, "MaxPool with channels last."},
          {"FusedMatMulActivation", 2,
           {"activation", "activation_alpha", "activation_axis", "activation_beta", "activation_gamma", "alpha",
            "transA", "transB", "transBatchA", "transBatchB"},
           expand_fused_matmul_activation, "FusedMatMul with an activation."},
          {"GemmFastGelu", 2, {}, expand_gemm_fast_gelu, "FastGelu of a product plus a bias."},
          {"MatMulNBits", 3, {"K", "N", "accuracy_level", "bits", "block_size", "weight_prepacked"},
           expand_matmul_nbits, "A matrix product with weights of 2, 4 or 8 bits in blocks with scales."}};
}

}  // namespace graft
