// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts of com.microsoft: each row goes through the experts that its router prefers. All experts are
// computed as batches of one product, and those that were not chosen count nothing.
#include <array>

#include "import/onnx/contrib_call.h"

namespace graft {
namespace {

/// The share of each expert, [rows, experts]: softmax of what the router says, of the chosen ones alone or of all.
ValueId shares(ContribCall& call, ValueId router) {
  if (call.integer("use_sparse_mixer", 0) != 0) call.unsupported("a sparse mixer");
  const int64_t chosen = call.integer("k", 1);
  const ValueId logits = call.cast(router, DType::kFloat32);
  const bool renormalized = call.integer("normalize_routing_weights", 0) != 0;
  const ValueId scores = renormalized ? logits : call.emit("Softmax", {logits}, {{"axis", int64_t{-1}}});
  const std::vector<ValueId> best = call.emit(2, "TopK", {scores, call.integers({chosen})}, {{"axis", int64_t{-1}}});
  const ValueId weights = renormalized ? call.emit("Softmax", {best[0]}, {{"axis", int64_t{-1}}}) : best[0];
  const ValueId none = call.emit("Expand", {call.scalar_like(0, scores), call.emit("Shape", {scores})});
  return call.emit("ScatterElements", {none, best[1], weights}, {{"axis", int64_t{1}}});
}

/// x sigmoid(alpha x) times (beta + a linear part), both bounded, of [experts, rows, 2 inner]: the parts of a pair lie
/// side by side, or one half behind the other.
ValueId swiglu(ContribCall& call, ValueId x, bool side_by_side) {
  const int64_t inner = call.constant_size(x, -1) / 2;
  std::array<ValueId, 2> parts{};
  if (side_by_side) {
    const ValueId pairs = call.emit("Reshape", {x, call.integers({0, 0, inner, 2})});
    for (int64_t p = 0; p < 2; ++p) {
      parts[static_cast<size_t>(p)] = call.emit("Gather", {pairs, call.integer(p)}, {{"axis", int64_t{3}}});
    }
  } else {
    const std::vector<ValueId> halves = call.split(x, {inner, inner}, 2);
    parts = {halves[0], halves[1]};
  }
  auto [gate, linear] = parts;
  if (call.has("swiglu_limit")) {
    const ValueId limit = call.scalar_like(call.real("swiglu_limit", 0), x);
    gate = call.emit("Min", {gate, limit});
    linear = call.emit("Clip", {linear, call.emit("Neg", {limit}), limit});
  }
  const ValueId open = call.emit("Swish", {gate}, {{"alpha", call.real("activation_alpha", 1)}});
  const double beta = call.real("activation_beta", 0);
  return call.emit("Mul", {open, beta == 0 ? linear : call.emit("Add", {linear, call.scalar_like(beta, x)})});
}

ValueId activated_rows(ContribCall& call, ValueId x) {
  const std::string name = call.text("activation_type", "relu");
  if (name == "relu") return call.emit("Relu", {x});
  if (name == "gelu") return call.emit("Gelu", {x}, {{"approximate", std::string("tanh")}});
  if (name == "silu") return call.emit("Swish", {x});
  if (name == "identity") return x;
  if (name != "swiglu") call.unsupported("the activation '" + name + "'");
  const int64_t fusion = call.integer("swiglu_fusion", 0);
  if (fusion == 0) call.unsupported("a swiglu whose parts are products of their own");
  return swiglu(call, x, fusion == 1);
}

/// Weights of one product of the experts, [experts, results, columns], and its bias.
struct Layer {
  ValueId weights = kNoValue, bias = kNoValue;
};

/// x [rows, columns] or [experts, rows, columns] times the weights of each expert.
ValueId multiplied(ContribCall& call, ValueId x, const Layer& layer) {
  const ValueId w = call.transpose(call.cast(layer.weights, call.type(x)), {0, 2, 1});
  const ValueId y = call.emit("MatMul", {x, w});
  return layer.bias == kNoValue ? y : call.emit("Add", {y, call.unsqueeze(layer.bias, {1})});
}

void mix_experts(ContribCall& call, const Layer& first, const Layer& second, const Layer& third) {
  const ValueId x = call.in(0);
  const int64_t width = call.constant_size(x, -1);
  const ValueId rows = call.emit("Reshape", {x, call.integers({1, -1, width})});
  ValueId inner = activated_rows(call, multiplied(call, rows, first));
  if (third.weights != kNoValue) inner = call.emit("Mul", {inner, multiplied(call, rows, third)});
  const ValueId outer = call.cast(multiplied(call, inner, second), DType::kFloat32);
  const ValueId weights = call.unsqueeze(call.transpose(shares(call, call.in(1)), {1, 0}), {2});
  const ValueId mixed =
      call.emit("ReduceSum", {call.emit("Mul", {outer, weights}), call.integers({0})}, {{"keepdims", int64_t{0}}});
  call.out(0, call.emit("Reshape", {call.cast(mixed, call.type(x)), call.emit("Shape", {x})}));
}

void expand_moe(ContribCall& call) {
  mix_experts(call, {call.in(2), call.maybe(3)}, {call.in(4), call.maybe(5)}, {call.maybe(6), call.maybe(7)});
}

/// Weights of 4 or 8 bits, [experts, results, columns / (8 / bits)], with a scale for each row or each block of it; the
/// middle of the range stands for 0 where no zero points are given.
ValueId expert_weights(ContribCall& call, size_t weights, size_t scales, size_t zeros) {
  const int64_t bits = call.integer("expert_weight_bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) call.unsupported("weights of " + std::to_string(bits) + " bits");
  const auto integers = [&](ValueId packed) {
    std::vector<int64_t> dims;
    for (int axis = 0; axis < 3; ++axis) dims.push_back(call.constant_size(packed, axis));
    dims[2] *= 8 / bits;
    const DType type = bits == 2 ? DType::kUint2 : bits == 4 ? DType::kUint4 : DType::kUint8;
    const ValueId read = bits == 8 ? packed : call.reread_constant(packed, type, dims);
    if (read == kNoValue) call.unsupported("weights that are not known when compiling");
    return std::pair(call.cast(read, DType::kFloat32), dims);
  };
  const auto [w, dims] = integers(call.in(weights));
  ValueId scale = call.cast(call.in(scales), DType::kFloat32);
  if (call.rank(scale) == 2) scale = call.unsqueeze(scale, {2});
  const int64_t blocks = call.constant_size(scale, 2);
  if (blocks < 1 || dims[2] % blocks != 0) call.unsupported("blocks that do not divide the rows of its weights");
  const ValueId blocked = call.emit("Reshape", {w, call.integers({dims[0], dims[1], blocks, dims[2] / blocks})});
  ValueId zero = call.scalar_like(static_cast<double>(int64_t{1} << (bits - 1)), blocked);
  if (call.has(zeros)) {
    ValueId given = call.in(zeros);
    if (call.rank(given) == 2) given = call.unsqueeze(given, {2});
    const ValueId read = integers(given).first;
    zero = call.unsqueeze(call.emit("Slice", {read, call.integers({0}), call.integers({blocks}), call.integers({2})}),
                          {3});
  }
  const ValueId numbers = call.emit("Mul", {call.emit("Sub", {blocked, zero}), call.unsqueeze(scale, {3})});
  return call.emit("Reshape", {numbers, call.integers(dims)});
}

void expand_qmoe(ContribCall& call) {
  if (call.text("quant_type", "int") != "int") call.unsupported("weights that are no integers");
  Layer third;
  if (call.has(8)) third = {expert_weights(call, 8, 9, 13), call.maybe(10)};
  mix_experts(call, {expert_weights(call, 2, 3, 11), call.maybe(4)}, {expert_weights(call, 5, 6, 12), call.maybe(7)},
              third);
}

}  // namespace

std::vector<ContribOperator> contrib_experts() {
  return {{"MoE",
           5,
           {"activation_alpha", "activation_beta", "activation_type", "k", "normalize_routing_weights", "swiglu_fusion",
            "swiglu_limit", "use_sparse_mixer"},
           expand_moe,
           "A mixture of experts of two products with an activation between."},
          {"QMoE",
           7,
           {"activation_alpha", "activation_beta", "activation_type", "block_size", "expert_weight_bits", "k",
            "normalize_routing_weights", "quant_type", "swiglu_fusion", "swiglu_limit", "use_sparse_mixer"},
           expand_qmoe,
           "A mixture of experts with weights of 2, 4 or 8 bits."}};
}

}  // namespace graft
