// SPDX-License-Identifier: Apache-2.0
#include "import/aten/matmul.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;

/// softmax(q k^T * scale + mask) v. Batches and heads are the first two axes; what is left out of them is 1.
std::function<void(Conversion&)> attention(std::string_view mask_name) {
  return [=](Conversion& c) {
    ValueId query = c.tensor("query"), key = c.tensor("key"), value = c.tensor("value"), mask = kNoValue;
    if (!mask_name.empty()) mask = c.tensor(mask_name);
    if (c.real("dropout_p") != 0) c.refuse("dropout of a module in training mode: call eval() before");
    const int rank = c.rank_of(query);
    if (c.rank_of(key) != rank || c.rank_of(value) != rank) c.refuse("operands of different ranks");
    if (rank < 2 || rank > 4) c.refuse("operands of more than four axes");
    const auto with_axes = [&](ValueId x, int missing) {
      for (; missing > 0; --missing) x = c.add("Unsqueeze", {x, c.integers_constant({0})});
      return x;
    };
    // Of three axes the first is the batch: heads stand behind it.
    const auto as_heads = [&](ValueId x) {
      return rank == 3 ? c.add("Unsqueeze", {x, c.integers_constant({1})}) : with_axes(x, 4 - rank);
    };
    query = as_heads(query), key = as_heads(key), value = as_heads(value);
    if (mask != kNoValue && rank == 3 && c.rank_of(mask) == 3)
      mask = c.add("Unsqueeze", {mask, c.integers_constant({1})});
    Attributes attributes = {{"is_causal", int64_t{c.flag("is_causal")}}};
    if (c.has("scale")) attributes["scale"] = c.real("scale");
    ValueId result = c.add("Attention", {query, key, value, mask}, std::move(attributes));
    if (rank == 3) result = c.add("Squeeze", {result, c.integers_constant({1})});
    if (rank == 2) result = c.add("Squeeze", {result, c.integers_constant({0, 1})});
    c.give(result);
  };
}

/// Part `index` of three along the first axis of the joined weights or biases.
ValueId third(Conversion& c, ValueId joined, int64_t index, int64_t size) {
  return c.add("Slice", {joined, c.integers_constant({index * size}), c.integers_constant({(index + 1) * size}),
                         c.integers_constant({0})});
}

/// Where attention may look: torch's mask names what it may not. Of positions, of keys, or of both for each head.
ValueId where_to_look(Conversion& c) {
  const ValueId mask = c.tensor("mask");
  if (mask == kNoValue) return kNoValue;
  if (!c.has("mask_type")) c.refuse("a mask without its type");
  const ValueId looks = c.add("Not", {c.cast(mask, DType::kBool)});
  constexpr int64_t kOfKeys = 1;
  return c.integer("mask_type") == kOfKeys ? c.add("Unsqueeze", {looks, c.integers_constant({1, 2})}) : looks;
}

/// What torch runs for nn.MultiheadAttention in inference: projections, attention, projection.
ValueId multi_head(Conversion& c, ValueId query, ValueId key, ValueId value, std::string_view heads_name) {
  const int64_t size = c.integer("embed_dim"), heads = c.integer(heads_name);
  if (c.rank_of(query) != 3) c.refuse("operands without a batch");
  const ValueId weight = c.tensor("qkv_weight"), bias = c.tensor("qkv_bias");
  std::vector<ValueId> projected;
  for (const ValueId x : {query, key, value}) {
    const auto index = static_cast<int64_t>(projected.size());
    projected.push_back(linear(c, x, third(c, weight, index, size), third(c, bias, index, size)));
  }
  projected.push_back(where_to_look(c));
  const ValueId attended = c.add("Attention", projected, {{"q_num_heads", heads}, {"kv_num_heads", heads}});
  return linear(c, attended, c.tensor("proj_weight"), c.tensor("proj_bias"));
}

void multi_head_attention(Conversion& c) {
  c.give(multi_head(c, c.tensor("query"), c.tensor("key"), c.tensor("value"), "num_head"));
}

/// What torch runs for nn.TransformerEncoderLayer in inference.
void encoder_layer(Conversion& c) {
  const auto normalised = [&](ValueId x, std::string_view weight, std::string_view bias) {
    return c.add("LayerNormalization", {x, c.tensor(weight), c.tensor(bias)},
                 {{"axis", int64_t{-1}}, {"epsilon", c.real("eps")}});
  };
  const auto first = [&](ValueId x) { return normalised(x, "norm_weight_1", "norm_bias_1"); };
  const auto second = [&](ValueId x) { return normalised(x, "norm_weight_2", "norm_bias_2"); };
  const bool before = c.flag("norm_first");
  const ValueId source = c.tensor("src"), x = before ? first(source) : source;
  ValueId attended = c.add("Add", {multi_head(c, x, x, x, "num_heads"), source});
  if (!before) attended = first(attended);
  const ValueId narrow = before ? second(attended) : attended;
  const ValueId wide = linear(c, narrow, c.tensor("ffn_weight_1"), c.tensor("ffn_bias_1"));
  const ValueId activated = c.add(c.flag("use_gelu") ? "Gelu" : "Relu", {wide});
  const ValueId back = linear(c, activated, c.tensor("ffn_weight_2"), c.tensor("ffn_bias_2"));
  const ValueId result = c.add("Add", {back, attended});
  c.give(before ? result : second(result));
}

}  // namespace

std::vector<Row> attention_rows() {
  return {
      {"aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
       "float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
       attention("attn_mask")},
      // What torch chooses for it, by the device. Engines give the first result.
      {"aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, "
       "bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
       attention("attn_mask")},
      {"aten::_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, "
       "bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, "
       "Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor unused, "
       "Tensor debug_attn_mask)", attention("")},
      {"aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, "
       "bool compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, *, float? scale=None) -> (Tensor output, "
       "Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)", attention("attn_bias")},
      {"aten::_scaled_dot_product_cudnn_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, "
       "bool compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, bool return_debug_mask=False, *, "
       "float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, "
       "SymInt max_k, Tensor philox_seed, Tensor philox_offset, Tensor debug_attn_mask)", attention("attn_bias")},
      {"aten::_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, "
       "Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, "
       "bool need_weights=True, bool average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)",
       multi_head_attention},
      {"aten::_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, "
       "Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, bool use_gelu, bool norm_first, float eps, "
       "Tensor norm_weight_1, Tensor norm_bias_1, Tensor norm_weight_2, Tensor norm_bias_2, Tensor ffn_weight_1, "
       "Tensor ffn_bias_1, Tensor ffn_weight_2, Tensor ffn_bias_2, Tensor? mask=None, int? mask_type=None) -> Tensor",
       encoder_layer},
  };
}

}  // namespace graft::aten
