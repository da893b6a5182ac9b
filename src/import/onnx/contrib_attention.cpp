// SPDX-License-Identifier: Apache-2.0
// Attention of com.microsoft in its forms, and rotary positions, by ai.onnx's Attention and RotaryEmbedding.
#include <limits>

#include "import/onnx/contrib_call.h"

namespace graft {
namespace {

/// Operands of [batch, length, heads * size] (keys and values also of [batch, heads, length, size]), the cache, and
/// what is added to the scores.
struct Heads {
  ValueId q, k, v;
  int64_t q_heads = 0, kv_heads = 0;
  ValueId past_key = kNoValue, past_value = kNoValue;
  ValueId bias = kNoValue;
  bool causal = false;
};

/// y, and the keys and values with the cache in front of them when `caches`.
std::vector<ValueId> attend(ContribCall& call, const Heads& heads, bool caches) {
  Attributes attributes = {{"q_num_heads", heads.q_heads}, {"is_causal", int64_t{heads.causal}}};
  if (call.rank(heads.k) == 3) attributes["kv_num_heads"] = heads.kv_heads;
  if (call.real("scale", 0) != 0) attributes["scale"] = call.real("scale", 0);
  if (call.real("softcap", 0) != 0) attributes["softcap"] = call.real("softcap", 0);
  return call.emit(caches ? 3 : 1, "Attention",
                   {heads.q, heads.k, heads.v, heads.bias, heads.past_key, heads.past_value}, attributes);
}

int64_t head_count(ContribCall& call, std::string_view attribute) {
  const int64_t heads = call.integer(attribute, 0);
  if (heads < 1) call.reject("its attribute '" + std::string(attribute) + "' should be positive");
  return heads;
}

/// 0 .. length - 1, the length given as a list of one element.
ValueId positions(ContribCall& call, ValueId length) {
  return call.emit("Range", {call.integer(0), call.squeeze(length, {0}), call.integer(1)});
}

/// Which keys count, as [batch, 1, queries or 1, keys]; `keys` is their number, as a list.
ValueId kept_keys(ContribCall& call, ValueId mask, ValueId like, ValueId keys) {
  const int64_t rank = call.rank(mask);
  if (rank == 2 || rank == 3) {
    const ValueId chosen = call.emit("Greater", {mask, call.scalar_like(0, mask)});
    return call.unsqueeze(chosen, rank == 2 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1});
  }
  if (rank != 1) call.unsupported("a mask of four axes");
  const Size& batch = call.shape(like)[0];
  const Size& given = call.shape(mask)[0];
  const ValueId at = positions(call, keys);
  const auto column = [&](ValueId list) { return call.unsqueeze(call.cast(list, DType::kInt64), {1, 2, 3}); };
  // The numbers of keys; or these, and behind them the first of each row.
  if (!(given == batch * 2) || given == batch) return call.emit("Less", {at, column(mask)});
  const std::vector<ValueId> ends =
      call.emit(2, "Split", {mask}, {{"axis", int64_t{0}}, {"num_outputs", int64_t{2}}});
  return call.emit("And", {call.emit("Less", {at, column(ends[0])}),
                           call.emit("GreaterOrEqual", {at, column(ends[1])})});
}

/// What the masked keys' scores lose, and the bias of the scores.
ValueId score_bias(ContribCall& call, ValueId mask, ValueId bias, ValueId like, ValueId keys) {
  if (mask == kNoValue) return bias;
  const ValueId kept = kept_keys(call, mask, like, keys);
  const ValueId lost = call.scalar_like(call.real("mask_filter_value", -10000), like);
  const ValueId added = call.emit("Where", {kept, call.scalar_like(0, like), lost});
  return bias == kNoValue ? added : call.emit("Add", {added, bias});
}

ValueId sum_of_lengths(ContribCall& call, ValueId now, int64_t axis, ValueId past) {
  const ValueId length = call.size_of(now, axis);
  return past == kNoValue ? length : call.emit("Add", {length, call.size_of(past, 2)});
}

/// One of two along the first axis.
ValueId half_of(ContribCall& call, ValueId both, int64_t which) {
  return call.emit("Gather", {both, call.integer(which)}, {{"axis", int64_t{0}}});
}

/// The parts of the product of the input with the weights of queries, keys and values, after the bias.
std::vector<ValueId> projections(ContribCall& call, ValueId product) {
  const std::vector<int64_t> sizes = call.integers("qkv_hidden_sizes");
  if (sizes.size() == 3) return call.split(product, sizes, 2);
  if (!sizes.empty()) call.reject("its attribute 'qkv_hidden_sizes' should have three elements");
  return call.emit(3, "Split", {product}, {{"axis", int64_t{2}}, {"num_outputs", int64_t{3}}});
}

/// softmax(q k^T) v of projections, the cache as [2, batch, heads, length, size].
void attend_projected(ContribCall& call, ValueId product, ValueId mask, ValueId past, ValueId bias) {
  const std::vector<ValueId> parts = projections(call, product);
  Heads heads{.q = parts[0], .k = parts[1], .v = parts[2]};
  heads.q_heads = heads.kv_heads = head_count(call, "num_heads");
  if (past != kNoValue) heads.past_key = half_of(call, past, 0), heads.past_value = half_of(call, past, 1);
  const ValueId keys = sum_of_lengths(call, heads.k, 1, heads.past_key);
  heads.bias = score_bias(call, mask, bias, heads.q, keys);
  heads.causal = call.integer("unidirectional", 0) != 0;
  const std::vector<ValueId> results = attend(call, heads, call.wants(1));
  call.out(0, results[0]);
  if (!call.wants(1)) return;
  call.out(1, call.emit("Concat", {call.unsqueeze(results[1], {0}), call.unsqueeze(results[2], {0})},
                        {{"axis", int64_t{0}}}));
}

void refuse_shared_buffer(ContribCall& call) {
  if (call.integer("past_present_share_buffer", 0) != 0) call.unsupported("a cache that the result shares");
}

void expand_attention(ContribCall& call) {
  refuse_shared_buffer(call);
  if (call.integer("do_rotary", 0) != 0) call.unsupported("rotary positions inside; use RotaryEmbedding");
  ValueId product = call.emit("MatMul", {call.in(0), call.in(1)});
  if (call.has(2)) product = call.emit("Add", {product, call.in(2)});
  attend_projected(call, product, call.maybe(3), call.maybe(4), call.maybe(5));
}

void expand_q_attention(ContribCall& call) {
  refuse_shared_buffer(call);
  const ValueId zero_a = call.maybe(6), zero_b = call.maybe(7);
  const ValueId integers = call.emit("MatMulInteger", {call.in(0), call.in(1), zero_a, zero_b});
  const ValueId scale = call.emit("Mul", {call.in(3), call.in(4)});
  const ValueId product = call.emit("Mul", {call.cast(integers, call.type(scale)), scale});
  attend_projected(call, call.emit("Add", {product, call.in(2)}), call.maybe(5), call.maybe(8), kNoValue);
}

/// [batch, length, heads * size] of [batch, length, heads, size].
ValueId heads_joined(ContribCall& call, ValueId x) { return call.emit("Reshape", {x, call.integers({0, 0, -1})}); }

/// The parts of [batch, length, heads, count, size].
std::vector<ValueId> unpacked(ContribCall& call, ValueId packed, int64_t count) {
  std::vector<ValueId> parts = call.emit(static_cast<size_t>(count), "Split", {packed},
                                         {{"axis", int64_t{3}}, {"num_outputs", count}});
  for (ValueId& part : parts) part = heads_joined(call, call.squeeze(part, {3}));
  return parts;
}

/// Queries, keys and values of an operator that may have them packed, each plus its part of the bias.
Heads separate_operands(ContribCall& call) {
  Heads heads{.q = call.in(0), .k = call.maybe(1), .v = call.maybe(2)};
  if (call.rank(heads.q) == 5) {
    const std::vector<ValueId> parts = unpacked(call, heads.q, 3);
    heads.q = parts[0], heads.k = parts[1], heads.v = parts[2];
  } else if (heads.k == kNoValue) {
    call.reject("it has queries but no keys");
  } else if (call.rank(heads.k) == 5) {
    const std::vector<ValueId> parts = unpacked(call, heads.k, 2);
    heads.k = parts[0], heads.v = parts[1];
  } else if (heads.v == kNoValue) {
    call.reject("it has keys but no values");
  }
  if (!call.has(3)) return heads;
  const bool apart = call.rank(heads.k) == 4;  // keys that an encoder made have their bias
  const int64_t q = call.constant_size(heads.q, -1);
  const int64_t k = apart ? q : call.constant_size(heads.k, -1);
  const int64_t v = apart ? call.constant_size(call.in(3), 0) - q - k : call.constant_size(heads.v, -1);
  const std::vector<ValueId> biases = call.split(call.in(3), {q, k, v}, 0);
  heads.q = call.emit("Add", {heads.q, biases[0]});
  if (!apart) heads.k = call.emit("Add", {heads.k, biases[1]}), heads.v = call.emit("Add", {heads.v, biases[2]});
  return heads;
}

void expand_multi_head_attention(ContribCall& call) {
  if (call.has(8) || call.has(9)) call.unsupported("a cache that the result shares, and beams");
  if (call.wants(3)) call.unsupported("the scores as a result");
  Heads heads = separate_operands(call);
  heads.q_heads = heads.kv_heads = head_count(call, "num_heads");
  heads.past_key = call.maybe(6), heads.past_value = call.maybe(7);
  const ValueId keys = sum_of_lengths(call, heads.k, call.rank(heads.k) == 4 ? 2 : 1, heads.past_key);
  heads.bias = score_bias(call, call.maybe(4), call.maybe(5), heads.q, keys);
  heads.causal = call.integer("unidirectional", 0) != 0;
  const std::vector<ValueId> results = attend(call, heads, call.wants(1) || call.wants(2));
  for (size_t i = 0; i < results.size(); ++i) call.out(i, results[i]);
}

/// Positions given as one number for all, or one per query.
ValueId rotary_positions(ContribCall& call, ValueId given, ValueId x, int64_t length_axis) {
  if (call.rank(given) == 2) return given;
  const ValueId at = call.emit("Add", {positions(call, call.size_of(x, length_axis)), given});
  const ValueId shape = call.emit("Concat", {call.size_of(x, 0), call.size_of(x, length_axis)}, {{"axis", int64_t{0}}});
  return call.emit("Expand", {at, shape});
}

ValueId rotated(ContribCall& call, ValueId x, ValueId at, ValueId cosine, ValueId sine, int64_t heads,
                std::string_view interleaved, int64_t turned) {
  Attributes attributes = {{"interleaved", call.integer(interleaved, 0)}};
  if (call.rank(x) == 3) attributes["num_heads"] = heads;
  if (turned != 0) attributes["rotary_embedding_dim"] = turned;
  return call.emit("RotaryEmbedding", {x, cosine, sine, at}, attributes);
}

void expand_rotary_embedding(ContribCall& call) {
  if (call.integer("is_packed_batching", 0) != 0) call.unsupported("packed batches");
  const ValueId x = call.in(0);
  const int64_t rank = call.rank(x), turned = call.integer("rotary_embedding_dim", 0);
  int64_t heads = call.integer("num_heads", 0);
  if (rank == 3 && heads == 0) {  // heads are as wide as the caches turn
    heads = call.constant_size(x, 2) / (2 * call.constant_size(call.in(2), 1));
  }
  const ValueId at = rotary_positions(call, call.in(1), x, rank == 3 ? 1 : 2);
  call.out(0, rotated(call, x, at, call.in(2), call.in(3), heads, "interleaved", turned));
}

/// [batch, length, heads * size] -> [batch, heads, length, size]
ValueId heads_apart(ContribCall& call, ValueId x, int64_t heads) {
  return call.transpose(call.emit("Reshape", {x, call.integers({0, 0, heads, -1})}), {0, 2, 1, 3});
}

/// The cache with room for `length` keys, and the new ones written behind the `before` of each row.
ValueId extended_cache(ContribCall& call, ValueId past, ValueId now, ValueId before, ValueId length) {
  const ValueId room = call.emit("Mul", {now, call.scalar_like(0, now)});
  const ValueId wide = call.emit("Concat", {past, room}, {{"axis", int64_t{2}}});
  const ValueId written = call.emit("TensorScatter", {wide, now, before}, {{"axis", int64_t{-2}}});
  return call.emit("Slice", {written, call.integers({0}), length, call.integers({2})});
}

/// One more key and value, of zeros: its score is the sink's of each head, or 0. It takes part in the softmax alone.
void add_sink(ContribCall& call, Heads& heads) {
  const ValueId behind = call.integers({0, 0, 0, 0, 0, 0, 1, 0});
  const ValueId last = call.size_of(heads.k, 2);
  heads.k = call.emit("Pad", {heads.k, behind});
  heads.v = call.emit("Pad", {heads.v, behind});
  heads.bias = call.emit("Pad", {heads.bias, call.integers({0, 0, 0, 0, 0, 0, 0, 1})});
  const ValueId is_sink = call.emit("Equal", {positions(call, call.size_of(heads.k, 2)), last});
  const ValueId score = call.has(11) ? call.emit("Reshape", {call.in(11), call.integers({1, -1, 1, 1})})
                                     : call.scalar_like(0, heads.bias);
  heads.bias = call.emit("Where", {is_sink, call.cast(score, call.type(heads.bias)), heads.bias});
}

void expand_group_query_attention(ContribCall& call) {
  const int64_t q_heads = head_count(call, "num_heads"), kv_heads = head_count(call, "kv_num_heads");
  for (const std::string_view name : {"k_quant_type", "v_quant_type"}) {
    const std::string kind = call.text(name, "NONE");
    if (kind != "NONE") call.unsupported("a quantized cache");
  }
  if (call.wants(3) || call.integer("qk_output", 0) != 0) call.unsupported("the scores as a result");
  ValueId q = call.in(0), k = call.maybe(1), v = call.maybe(2);
  if (k == kNoValue) {
    const int64_t size = call.constant_size(q, 2) / (q_heads + 2 * kv_heads);
    const std::vector<ValueId> parts = call.split(q, {q_heads * size, kv_heads * size, kv_heads * size}, 2);
    q = parts[0], k = parts[1], v = parts[2];
  }
  // How many keys each row has, and how many of them lie before its first query: a prompt begins a row.
  const ValueId length = call.size_of(q, 1);
  const ValueId total = call.emit("Reshape", {call.cast(call.in(6), DType::kInt64), call.integers({1})});
  const ValueId valid = call.emit("Add", {call.cast(call.in(5), DType::kInt64), call.integer(1)});
  const ValueId behind = call.emit("Sub", {valid, length});
  const ValueId before = call.emit("Where", {call.emit("Equal", {length, total}), call.emit("Sub", {valid, valid}),
                                             call.emit("Max", {behind, call.integer(0)})});
  const ValueId rows = positions(call, length);
  const ValueId at = call.emit("Add", {call.unsqueeze(before, {1}), rows});
  if (call.integer("do_rotary", 0) != 0) {
    const ValueId turns = call.has(9) ? call.cast(call.in(9), DType::kInt64) : at;
    const int64_t turned = call.constant_size(call.in(7), 1) * 2;
    q = rotated(call, q, turns, call.in(7), call.in(8), q_heads, "rotary_interleaved", turned);
    k = rotated(call, k, turns, call.in(7), call.in(8), kv_heads, "rotary_interleaved", turned);
  }
  Heads heads{.q = q, .k = heads_apart(call, k, kv_heads), .v = heads_apart(call, v, kv_heads)};
  heads.q_heads = q_heads, heads.kv_heads = kv_heads;
  if (call.has(3) != call.has(4)) call.reject("it has a cache of keys or of values, but not both");
  if (call.has(3)) {
    const ValueId room = call.emit("Max", {call.size_of(call.in(3), 2), total});
    heads.k = extended_cache(call, call.in(3), heads.k, before, room);
    heads.v = extended_cache(call, call.in(4), heads.v, before, room);
  }
  // A query sees the keys up to its own, those of a window when there is one.
  const ValueId columns = positions(call, call.size_of(heads.k, 2));
  const ValueId last = call.unsqueeze(at, {1, 3});
  ValueId seen = call.emit("LessOrEqual", {columns, last});
  const int64_t window = call.integer("local_window_size", -1);
  if (window > 0) {
    const ValueId first = call.emit("Sub", {last, call.integer(window)});
    seen = call.emit("And", {seen, call.emit("Greater", {columns, first})});
  }
  const double infinity = std::numeric_limits<double>::infinity();
  heads.bias = call.emit("Where", {seen, call.scalar_like(0, q), call.scalar_like(-infinity, q)});
  if (call.has(10)) heads.bias = call.emit("Add", {heads.bias, call.in(10)});
  call.out(1, heads.k);
  call.out(2, heads.v);
  if (call.integer("smooth_softmax", 0) > 0 || call.has(11)) add_sink(call, heads);
  call.out(0, attend(call, heads, false)[0]);
}

}  // namespace

std::vector<ContribOperator> contrib_attention() {
  return {{"Attention", 2,
           {"do_rotary", "mask_filter_value", "num_heads", "past_present_share_buffer", "qkv_hidden_sizes",
            "rotary_embedding_dim", "scale", "unidirectional"},
           expand_attention, "Attention of the projections of one input."},
          {"QAttention", 5,
           {"do_rotary", "mask_filter_value", "num_heads", "past_present_share_buffer", "scale", "unidirectional"},
           expand_q_attention, "Attention of the projections of one quantized input."},
          {"MultiHeadAttention", 1, {"mask_filter_value", "num_heads", "scale", "unidirectional"},
           expand_multi_head_attention, "Attention of queries, keys and values, packed or apart, with their bias."},
          {"GroupQueryAttention", 7,
           {"do_rotary", "kv_num_heads", "k_quant_type", "local_window_size", "num_heads", "qk_output",
            "rotary_interleaved", "scale", "smooth_softmax", "softcap", "v_quant_type"},
           expand_group_query_attention, "Causal attention in which groups of queries share keys, with a cache."},
          {"RotaryEmbedding", 4,
           {"interleaved", "is_packed_batching", "num_heads", "rotary_embedding_dim", "scale"},
           expand_rotary_embedding, "Pairs of elements turned by an angle of their position."}};
}

}  // namespace graft
