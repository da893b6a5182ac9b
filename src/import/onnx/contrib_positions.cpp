// SPDX-License-Identifier: Apache-2.0
// What attention of com.microsoft adds by position, and attention to a cache of a fixed length.
#include <cmath>

#include "import/onnx/contrib_call.h"

namespace graft {
namespace {

/// 0 .. length - 1 of a length in one element.
ValueId numbers_below(ContribCall& call, ValueId length) {
  const ValueId one = call.emit("Reshape", {call.cast(length, DType::kInt64), call.integers({1})});
  return call.emit("Range", {call.integer(0), call.squeeze(one, {0}), call.integer(1)});
}

/// The row of the table for a distance: small ones have their own, larger ones share by their logarithm (T5).
ValueId bucket_of(ContribCall& call, ValueId distance, int64_t buckets, double farthest) {
  const int64_t own = buckets / 2;
  const ValueId wide = call.cast(distance, DType::kFloat32);
  const double scale = static_cast<double>(buckets - own) / std::log(farthest / static_cast<double>(own));
  const ValueId share = call.emit(
      "Div", {call.emit("Max", {wide, call.scalar_like(1, wide)}), call.scalar_like(static_cast<double>(own), wide)});
  const ValueId steps = call.emit("Mul", {call.emit("Log", {share}), call.scalar_like(scale, wide)});
  const ValueId far = call.emit(
      "Min", {call.emit("Add", {call.cast(steps, DType::kInt64), call.integer(own)}), call.integer(buckets - 1)});
  return call.emit("Where", {call.emit("Less", {distance, call.integer(own)}), distance, far});
}

/// [1, heads, queries, keys] of a table [buckets, heads].
void expand_relative_position_bias(ContribCall& call) {
  const ValueId queries = call.unsqueeze(numbers_below(call, call.in(1)), {1});
  const ValueId offset = call.emit("Sub", {numbers_below(call, call.in(2)), queries});
  int64_t buckets = call.constant_size(call.in(0), 0);
  const double farthest = static_cast<double>(call.integer("max_distance", 128));
  const bool both = call.integer("is_bidirectional", 0) != 0;
  if (both) buckets /= 2;
  if (buckets < 2 || farthest <= static_cast<double>(buckets / 2)) call.reject("its table has too few rows");
  const ValueId distance =
      both ? call.emit("Abs", {offset}) : call.emit("Max", {call.emit("Neg", {offset}), call.integer(0)});
  ValueId row = bucket_of(call, distance, buckets, farthest);
  if (both) {
    const ValueId ahead = call.cast(call.emit("Greater", {offset, call.integer(0)}), DType::kInt64);
    row = call.emit("Add", {row, call.emit("Mul", {ahead, call.integer(buckets)})});
  }
  const ValueId bias = call.emit("Gather", {call.in(0), row}, {{"axis", int64_t{0}}});
  call.out(0, call.unsqueeze(call.transpose(bias, {2, 0, 1}), {0}));
}

/// The bias of positions times a gate that each query makes of itself.
void expand_gated_relative_position_bias(ContribCall& call) {
  if (call.has(6)) call.unsupported("rows without padding (token_offset)");
  const int64_t heads = call.integer("num_heads", 0);
  if (heads < 1) call.reject("its attribute 'num_heads' should be positive");
  const ValueId sum = call.emit("Add", {call.in(0), call.in(1)});
  const ValueId q = call.transpose(call.emit("Reshape", {sum, call.integers({0, 0, heads, -1})}), {0, 2, 1, 3});
  const ValueId made = call.emit("Add", {call.emit("MatMul", {q, call.in(3)}), call.in(4)});
  const ValueId pairs = call.emit("Reshape", {made, call.integers({0, 0, 0, 2, -1})});
  const ValueId gates =
      call.emit("Sigmoid", {call.emit("ReduceSum", {pairs, call.integers({4})}, {{"keepdims", int64_t{0}}})});
  const std::vector<ValueId> parts = call.split(gates, {1, 1}, 3);
  const ValueId one = call.scalar_like(1, gates), two = call.scalar_like(2, gates);
  const ValueId reset = call.emit("Sub", {call.emit("Mul", {parts[1], call.in(5)}), one});
  const ValueId gate = call.emit("Add", {call.emit("Mul", {parts[0], reset}), two});
  call.out(0, call.emit("Mul", {gate, call.in(2)}));
}

/// [batch, length, heads * size] -> [batch, heads, length, size]
ValueId heads_apart(ContribCall& call, ValueId x, int64_t heads) {
  return call.transpose(call.emit("Reshape", {x, call.integers({0, 0, heads, -1})}), {0, 2, 1, 3});
}

/// A mask or bias whose last axis has one element for each key that counts, as long as a cache with room for more: what
/// stands behind is hidden anyway.
ValueId as_long_as_cache(ContribCall& call, ValueId mask, ValueId keys) {
  const ValueId missing = call.emit("Sub", {call.size_of(keys, 2), call.size_of(mask, -1)});
  const ValueId pads = call.emit("Concat", {call.integers({0}), missing}, {{"axis", int64_t{0}}});
  return call.emit("Pad", {mask, pads, call.scalar_like(0, mask), call.integers({-1})});
}

/// One new key for each row, behind the keys of the cache that count; the cache may have room for more, and what comes
/// out is the cache with the new one written into it.
void expand_decoder_masked_attention(ContribCall& call) {
  if (call.has(8) || call.has(9)) call.unsupported("beams (beam_width, cache_indirection)");
  if (call.wants(3) || call.integer("output_qk", 0) != 0) call.unsupported("the scores as a result");
  const int64_t heads = call.integer("num_heads", 0);
  if (heads < 1) call.reject("its attribute 'num_heads' should be positive");
  if (!call.has(1) || !call.has(2)) call.unsupported("queries, keys and values packed into one");
  ValueId q = call.in(0), k = call.in(1), v = call.in(2);
  const bool made = call.rank(k) == 4;  // keys of an encoder, which stay as they are
  if (call.has(10)) {
    const int64_t width = call.constant_size(q, -1);
    const int64_t values = call.constant_size(call.in(10), 0) - 2 * width;
    const std::vector<ValueId> biases = call.split(call.in(10), {width, width, values}, 0);
    q = call.emit("Add", {q, biases[0]});
    if (!made) k = call.emit("Add", {k, biases[1]}), v = call.emit("Add", {v, biases[2]});
  }
  if (!made) k = heads_apart(call, k, heads), v = heads_apart(call, v, heads);
  ValueId bias = call.maybe(4);
  const bool shares = call.integer("past_present_share_buffer", 0) != 0;
  if (call.has(5) && shares) {
    const ValueId before = call.emit("Reshape", {call.cast(call.in(7), DType::kInt64), call.integers({1})});
    const ValueId rows = call.emit("Expand", {before, call.size_of(q, 0)});
    k = call.emit("TensorScatter", {call.in(5), k, rows}, {{"axis", int64_t{-2}}});
    v = call.emit("TensorScatter", {call.in(6), v, rows}, {{"axis", int64_t{-2}}});
    const ValueId seen = call.emit("LessOrEqual", {numbers_below(call, call.size_of(k, 2)), before});
    const double lowest = call.real("mask_filter_value", -10000);
    const ValueId hidden =
        call.emit("Where", {seen, call.scalar_like(0, q), call.scalar_like(std::min(lowest, -1e9), q)});
    bias = bias == kNoValue ? hidden : call.emit("Add", {as_long_as_cache(call, bias, k), hidden});
  } else if (call.has(5)) {
    k = call.emit("Concat", {call.in(5), k}, {{"axis", int64_t{2}}});
    v = call.emit("Concat", {call.in(6), v}, {{"axis", int64_t{2}}});
  }
  if (call.has(3)) {  // keys that count, [batch, keys]
    const ValueId counts = call.has(5) && shares ? as_long_as_cache(call, call.in(3), k) : call.in(3);
    const ValueId kept = call.unsqueeze(call.emit("Greater", {counts, call.scalar_like(0, counts)}), {1, 2});
    const ValueId lost = call.scalar_like(call.real("mask_filter_value", -10000), q);
    const ValueId masked = call.emit("Where", {kept, call.scalar_like(0, q), lost});
    bias = bias == kNoValue ? masked : call.emit("Add", {bias, masked});
  }
  Attributes attributes;
  if (call.real("scale", 0) != 0) attributes["scale"] = call.real("scale", 0);
  const ValueId queries = heads_apart(call, q, heads);
  const ValueId y = call.emit("Attention", {queries, k, v, bias}, attributes);
  call.out(0, call.emit("Reshape", {call.transpose(y, {0, 2, 1, 3}), call.integers({0, 0, -1})}));
  call.out(1, k);
  call.out(2, v);
}

}  // namespace

std::vector<ContribOperator> contrib_positions() {
  return {{"RelativePositionBias",
           3,
           {"is_bidirectional", "max_distance"},
           expand_relative_position_bias,
           "What is added to scores by the distance of query and key, from a table (T5)."},
          {"GatedRelativePositionBias",
           6,
           {"num_heads"},
           expand_gated_relative_position_bias,
           "A bias of positions times a gate of each query."},
          {"DecoderMaskedMultiHeadAttention",
           1,
           {"mask_filter_value", "num_heads", "output_qk", "past_present_share_buffer", "scale"},
           expand_decoder_masked_attention,
           "Attention of one new query for each row, with a cache."}};
}

}  // namespace graft
