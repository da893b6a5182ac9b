// SPDX-License-Identifier: Apache-2.0
// Normalizations of com.microsoft: of sums with a residual, of embeddings, of images with channels last.
#include "import/onnx/contrib_call.h"

namespace graft {
namespace {

/// 1 / sqrt(mean of squares + epsilon) over the axes from `axis` on, which stay with size 1.
ValueId inverse_root_mean_square(ContribCall& call, ValueId x, int64_t axis, double epsilon) {
  std::vector<int64_t> axes;
  const int64_t rank = call.rank(x);
  for (int64_t a = axis < 0 ? axis + rank : axis; a < rank; ++a) axes.push_back(a);
  const ValueId wide = call.cast(x, DType::kFloat32);
  const ValueId mean = call.emit("ReduceMean", {call.emit("Mul", {wide, wide}), call.integers(axes)});
  return call.emit("Reciprocal", {call.emit("Sqrt", {call.emit("Add", {mean, call.scalar_like(epsilon, mean)})})});
}

void layer_normalize(ContribCall& call, ValueId x, ValueId scale, ValueId bias, double epsilon) {
  const Attributes attributes = {{"axis", int64_t{-1}}, {"epsilon", epsilon}};
  const std::vector<ValueId> results = call.emit(call.wants(1) || call.wants(2) ? 3 : 1, "LayerNormalization",
                                                 {x, scale, bias}, attributes);
  for (size_t i = 0; i < results.size(); ++i) call.out(i, results[i]);
}

/// input + skip + bias; the skip may have fewer axes, or a batch of one.
ValueId residual(ContribCall& call, ValueId bias) {
  const ValueId sum = call.emit("Add", {call.in(0), call.in(1)});
  return bias == kNoValue ? sum : call.emit("Add", {sum, bias});
}

void expand_skip_layer_normalization(ContribCall& call) {
  const ValueId sum = residual(call, call.maybe(4));
  layer_normalize(call, sum, call.in(2), call.maybe(3), call.real("epsilon", 1e-12));
  call.out(3, sum);
}

void root_mean_square_normalize(ContribCall& call, ValueId x, ValueId scale, int64_t axis, double epsilon,
                                size_t inverse_output) {
  call.out(0, call.emit("RMSNormalization", {x, scale}, {{"axis", axis}, {"epsilon", epsilon}}));
  if (call.wants(inverse_output)) call.out(inverse_output, inverse_root_mean_square(call, x, axis, epsilon));
}

void expand_skip_simplified_layer_normalization(ContribCall& call) {
  const ValueId sum = residual(call, call.maybe(3));
  if (call.wants(1)) call.unsupported("the mean of a normalization that takes none");
  root_mean_square_normalize(call, sum, call.in(2), -1, call.real("epsilon", 1e-12), 2);
  call.out(3, sum);
}

void expand_simplified_layer_normalization(ContribCall& call) {
  root_mean_square_normalize(call, call.in(0), call.in(1), call.integer("axis", -1), call.real("epsilon", 1e-5), 1);
}

void expand_embed_layer_normalization(ContribCall& call) {
  const ValueId ids = call.in(0);
  const auto lookup = [&](size_t table, ValueId indices) {
    return call.emit("Gather", {call.in(table), indices}, {{"axis", int64_t{0}}});
  };
  ValueId positions = call.maybe(8);
  if (positions == kNoValue) {
    const ValueId length = call.squeeze(call.size_of(ids, 1), {0});
    positions = call.emit("Range", {call.integer(0), length, call.integer(1)});
  }
  ValueId sum = call.emit("Add", {lookup(2, ids), lookup(3, positions)});
  if (call.has(1) && call.has(4)) sum = call.emit("Add", {sum, lookup(4, call.in(1))});
  const Attributes attributes = {{"axis", int64_t{-1}}, {"epsilon", call.real("epsilon", 1e-12)}};
  call.out(0, call.emit("LayerNormalization", {sum, call.in(5), call.in(6)}, attributes));
  if (call.wants(1)) {
    const ValueId mask = call.has(7) ? call.cast(call.in(7), DType::kInt32) : kNoValue;
    const ValueId counted = mask != kNoValue ? call.cast(call.emit("Equal", {mask, call.scalar_like(1, mask)}),
                                                         DType::kInt32)
                                             : call.emit("Mul", {call.cast(ids, DType::kInt32),
                                                                 call.scalar_like(0, call.cast(ids, DType::kInt32))});
    call.out(1, call.emit("ReduceSum", {counted, call.integers({1})}, {{"keepdims", int64_t{0}}}));
  }
  call.out(2, sum);
}

/// GroupNormalization with channels last or first; the activation may be SiLU.
ValueId group_normalized(ContribCall& call, ValueId given) {
  const bool last = call.integer("channels_last", 1) != 0;
  const ValueId x = last ? call.transpose(given, {0, 3, 1, 2}) : given;
  const ValueId scale = call.cast(call.in(1), call.type(x)), bias = call.cast(call.in(2), call.type(x));
  ValueId y = call.emit("GroupNormalization", {x, scale, bias},
                        {{"num_groups", call.integer("groups", 32)}, {"epsilon", call.real("epsilon", 1e-5)}});
  if (call.integer("activation", 0) == 1) y = call.emit("Swish", {y});
  return last ? call.transpose(y, {0, 2, 3, 1}) : y;
}

void expand_group_norm(ContribCall& call) { call.out(0, group_normalized(call, call.in(0))); }

/// Of the sum with a residual, which may be one row of channels for each image, and a bias.
void expand_skip_group_norm(ContribCall& call) {
  ValueId skip = call.in(3);
  if (call.rank(skip) == 2) skip = call.unsqueeze(skip, {1, 2});
  ValueId sum = call.emit("Add", {call.in(0), skip});
  if (call.has(4)) sum = call.emit("Add", {sum, call.in(4)});
  call.out(0, group_normalized(call, sum));
  call.out(1, sum);
}

}  // namespace

std::vector<ContribOperator> contrib_normalizations() {
  return {{"SkipLayerNormalization", 3, {"epsilon"}, expand_skip_layer_normalization,
           "LayerNormalization of the sum of an input, a residual and a bias."},
          {"SkipSimplifiedLayerNormalization", 3, {"epsilon"}, expand_skip_simplified_layer_normalization,
           "RMSNormalization of the sum of an input, a residual and a bias."},
          {"SimplifiedLayerNormalization", 2, {"axis", "epsilon", "stash_type"}, expand_simplified_layer_normalization,
           "RMSNormalization, with the factor of each row."},
          {"EmbedLayerNormalization", 7, {"epsilon", "mask_index_type"}, expand_embed_layer_normalization,
           "LayerNormalization of the sum of embeddings of words, positions and segments."},
          {"GroupNorm", 3, {"activation", "channels_last", "epsilon", "groups"}, expand_group_norm,
           "GroupNormalization with channels last, and SiLU."},
          {"SkipGroupNorm", 4, {"activation", "channels_last", "epsilon", "groups"}, expand_skip_group_norm,
           "GroupNorm of the sum of images, a residual and a bias."}};
}

}  // namespace graft
