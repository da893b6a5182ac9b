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

void expand_fused_matmul(ContribCall& call) {
  const ValueId a =
      arranged(call, call.in(0), call.integer("transBatchA", 0) != 0, call.integer("transA", 0) != 0);
  const ValueId b =
      arranged(call, call.in(1), call.integer("transBatchB", 0) != 0, call.integer("transB", 0) != 0);
  const double alpha = call.real("alpha", 1);
  const ValueId product = call.emit("MatMul", {a, b});
  call.out(0, alpha == 1 ? product : call.emit("Mul", {product, call.scalar_like(alpha, product)}));
}

void expand_fused_conv(ContribCall& call) {
  ValueId y = call.emit("Conv", {call.in(0), call.in(1), call.maybe(2)}, convolution_attributes(call));
  if (call.has(3)) y = call.emit("Add", {y, call.in(3)});
  call.out(0, activated(call, y, call.text("activation", ""), call.reals("activation_params")));
}

/// Channels last in the input and the result; the weights as Conv has them.
void expand_nhwc_conv(ContribCall& call) {
  const int64_t rank = call.rank(call.in(0));
  if (rank < 3) call.reject("its input has too few axes");
  std::vector<int64_t> first = {0, rank - 1}, last = {0};
  for (int64_t a = 1; a + 1 < rank; ++a) first.push_back(a), last.push_back(a + 1);
  last.push_back(1);
  const ValueId x = call.transpose(call.in(0), first);
  const ValueId y = call.emit("Conv", {x, call.in(1), call.maybe(2)}, convolution_attributes(call));
  call.out(0, call.transpose(y, last));
}

void expand_fused_gemm(ContribCall& call) {
  const Attributes attributes = {{"alpha", call.real("alpha", 1)},
                                 {"beta", call.real("beta", 1)},
                                 {"transA", call.integer("transA", 0)},
                                 {"transB", call.integer("transB", 0)}};
  const ValueId y = call.emit("Gemm", {call.in(0), call.in(1), call.maybe(2)}, attributes);
  std::vector<double> parameters;
  for (const std::string_view name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (call.has(name)) parameters.push_back(call.real(name, 0));
  }
  call.out(0, activated(call, y, call.text("activation", ""), parameters));
}

/// x times the transposed weights, which are u2, u4 or u8 in blocks along k, each with a scale and a zero point.
void expand_matmul_nbits(ContribCall& call) {
  const int64_t k = call.integer("K", 0), n = call.integer("N", 0), bits = call.integer("bits", 4);
  const int64_t block = call.integer("block_size", 0);
  if (k < 1 || n < 1 || block < 1) call.reject("its attributes K, N and block_size should be positive");
  if (bits != 2 && bits != 4 && bits != 8) call.unsupported(fmt::format("weights of {} bits", bits));
  if (call.has(4)) call.unsupported("an order of groups (g_idx)");
  if (call.integer("weight_prepacked", 0) != 0) call.unsupported("weights that are packed for one machine");
  const DType type = bits == 2 ? DType::kUint2 : bits == 4 ? DType::kUint4 : DType::kUint8;
  const int64_t blocks = (k + block - 1) / block;
  const ValueId weights = call.reread_constant(call.in(1), type, {n, blocks * block});
  if (weights == kNoValue) call.unsupported("weights that are not known when compiling, or not of N rows of blocks");
  const ValueId scales = call.emit("Reshape", {call.in(2), call.integers({n, blocks})});
  const auto filled = [&](double value) {
    return call.emit("Expand", {call.scalar_like(value, scales), call.integers({n, blocks})});
  };
  ValueId zeros = kNoValue;
  if (call.has(3) && call.type(call.in(3)) == DType::kUint8) {
    const int64_t row = (blocks * bits + 7) / 8 * 8 / bits;  // rows of zero points start at whole bytes
    zeros = call.reread_constant(call.in(3), type, {n, row});
    if (zeros == kNoValue) call.unsupported("zero points that are not known when compiling");
    zeros = call.cast(zeros, DType::kUint8);
    if (row != blocks) {
      zeros = call.emit("Slice", {zeros, call.integers({0}), call.integers({blocks}), call.integers({1})});
    }
    zeros = call.cast(zeros, call.type(scales));
  } else {
    zeros = call.has(3) ? call.emit("Reshape", {call.in(3), call.integers({n, blocks})})
                        : filled(static_cast<double>(int64_t{1} << (bits - 1)));
  }
  const auto per_block = [&](ValueId x) { return call.emit("Reshape", {x, call.integers({n, blocks, 1})}); };
  const ValueId numbers =
      call.emit("Reshape", {call.cast(weights, call.type(scales)), call.integers({n, blocks, block})});
  const ValueId centred = call.emit("Sub", {numbers, per_block(zeros)});
  ValueId b = call.emit("Mul", {centred, per_block(scales)});
  b = call.emit("Reshape", {b, call.integers({n, blocks * block})});
  if (blocks * block != k) b = call.emit("Slice", {b, call.integers({0}), call.integers({k}), call.integers({1})});
  b = call.transpose(call.cast(b, call.type(call.in(0))), {1, 0});
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
          {"MatMulNBits", 3, {"K", "N", "accuracy_level", "bits", "block_size", "weight_prepacked"},
           expand_matmul_nbits, "A matrix product with weights of 2, 4 or 8 bits in blocks with scales."}};
}

}  // namespace graft
