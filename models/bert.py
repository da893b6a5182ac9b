# SPDX-License-Identifier: Apache-2.0
"""The BERT encoder as an ONNX graph, for any sizes and any source of weights."""

import dataclasses

import numpy as np

from activations import gelu
from network_builder import NetworkBuilder
from transformer_blocks import attention_context, layer_norm, linear


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The sizes of one encoder, under the names that Hugging Face's config.json uses."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12


class BertGraph:
    """Builds the encoder into `net`; `weights(name)` gives arrays by Hugging Face's names."""

    def __init__(self, net, config, weights, fused=False):
        self.net_ = net
        self.config_ = config
        self.weights_ = weights
        self.fused_ = fused

    def inputs(self):
        """Declares the three int64 inputs with dynamic axes `batch` and `length`."""
        return tuple(self.net_.input(name, np.int64, ["batch", "length"])
                     for name in ("input_ids", "attention_mask", "token_type_ids"))

    def encode(self, input_ids, attention_mask, token_type_ids):
        """Returns last_hidden_state, (batch, length, hidden)."""
        with self.net_.scope("embeddings"):
            hidden = self._embeddings(input_ids, token_type_ids)
        mask = self._additive_mask(attention_mask)
        for index in range(self.config_.num_hidden_layers):
            with self.net_.scope("encoder"), self.net_.scope(f"layer.{index}"):
                hidden = self._layer(hidden, mask)
        return hidden

    def pool_first_token(self, hidden):
        """BERT's own pooler: tanh of a linear layer over the first token."""
        net = self.net_
        with net.scope("pooler"):
            first = net.op("Gather", hidden, net.constant(0, np.int64), axis=1)
            weight = net.weight("dense.weight", self._weight("dense.weight"))
            bias = net.weight("dense.bias", self._weight("dense.bias"))
            return net.op("Tanh", net.op("Gemm", first, weight, bias, transB=1))

    def _weight(self, name):
        return self.weights_(self.net_.path(name))

    def _embeddings(self, input_ids, token_type_ids):
        net = self.net_
        axis_zero = net.constant([0], np.int64)
        length = net.op("Unsqueeze", net.size(input_ids, 1), axis_zero)
        all_positions = np.arange(self.config_.max_position_embeddings, dtype=np.int64)[None]
        positions = net.op("Slice", net.weight("position_ids", all_positions), axis_zero, length,
                           net.constant([1], np.int64))
        words = self._embedding("word_embeddings.weight", input_ids)
        types = self._embedding("token_type_embeddings.weight", token_type_ids)
        places = self._embedding("position_embeddings.weight", positions)
        total = net.op("Add", net.op("Add", words, types), places)
        return self._layer_norm(total, "LayerNorm")

    def _embedding(self, name, indices):
        table = self.net_.weight(name, self._weight(name))
        return self.net_.op("Gather", table, indices, axis=0)

    def _additive_mask(self, attention_mask):
        """(batch, length) of 0 and 1 -> (batch, 1, 1, length) of lowest float and 0."""
        net = self.net_
        mask = net.op("Unsqueeze", attention_mask, net.constant([1], np.int64))
        mask = net.op("Unsqueeze", mask, net.constant([2], np.int64))
        mask = net.op("Cast", mask, to=1)
        absent = net.op("Sub", net.constant(1.0), mask)
        return net.op("Mul", absent, net.constant(np.finfo(np.float32).min))

    def _layer(self, hidden, mask):
        net = self.net_
        with net.scope("attention"):
            with net.scope("self"):
                context = self._self_attention(hidden, mask)
            with net.scope("output"):
                projected = self._linear(context, "dense")
                hidden = self._layer_norm(net.op("Add", projected, hidden), "LayerNorm")
        with net.scope("intermediate"):
            inner = gelu(net, self._linear(hidden, "dense"), self.fused_)
        with net.scope("output"):
            return self._layer_norm(net.op("Add", self._linear(inner, "dense"), hidden),
                                    "LayerNorm")

    def _self_attention(self, hidden, mask):
        net = self.net_
        heads = self.config_.num_attention_heads
        head_size = self.config_.hidden_size // heads
        query = self._heads(self._linear(hidden, "query"), heads, head_size, [0, 2, 1, 3])
        keys = self._heads(self._linear(hidden, "key"), heads, head_size, [0, 2, 3, 1])
        value = self._heads(self._linear(hidden, "value"), heads, head_size, [0, 2, 1, 3])
        context = attention_context(net, query, keys, value, head_size, mask)
        context = net.op("Transpose", context, perm=[0, 2, 1, 3])
        sizes = [net.size(context, 0), net.size(context, 1), self.config_.hidden_size]
        return net.reshape(context, sizes)

    def _heads(self, x, heads, head_size, order):
        """(batch, length, hidden) -> one matrix per head, its axes in the given order."""
        net = self.net_
        split = net.reshape(x, [net.size(x, 0), net.size(x, 1), heads, head_size])
        return net.op("Transpose", split, perm=order)

    def _linear(self, x, name):
        return linear(self.net_, x, self._weight(f"{name}.weight"), self._weight(f"{name}.bias"),
                      name)

    def _layer_norm(self, x, name):
        return layer_norm(self.net_, x, self._weight(f"{name}.weight"),
                          self._weight(f"{name}.bias"), self.config_.layer_norm_eps, name,
                          self.fused_)


# Widens random queries and keys: attention scores then vary by about 4, so that each token looks
# at few others. With flat attention all tokens, and all inputs, would drift to one average.
SHARPNESS = 2.0


def random_weights(net, config):
    """Gives seeded weights by name, scaled so that every layer keeps unit variance."""
    shapes = _weight_shapes(config)

    def weight(name):
        shape = next(shape for suffix, shape in shapes if name.endswith(suffix))
        normal = net.random(name).standard_normal(shape, dtype=np.float32)
        if name.endswith("LayerNorm.weight"):
            return 1 + np.float32(0.1) * normal
        if len(shape) == 1:
            return np.float32(0.1) * normal
        if "embeddings" in name:
            return normal
        gain = SHARPNESS if name.endswith(("query.weight", "key.weight")) else 1
        return normal * np.float32(gain / np.sqrt(shape[1]))

    return weight


def _weight_shapes(config):
    hidden, inner = config.hidden_size, config.intermediate_size
    return [
        ("word_embeddings.weight", (config.vocab_size, hidden)),
        ("position_embeddings.weight", (config.max_position_embeddings, hidden)),
        ("token_type_embeddings.weight", (config.type_vocab_size, hidden)),
        ("LayerNorm.weight", (hidden,)),
        ("intermediate.dense.weight", (inner, hidden)),
        ("intermediate.dense.bias", (inner,)),
        ("attention.output.dense.weight", (hidden, hidden)),
        ("pooler.dense.weight", (hidden, hidden)),
        ("output.dense.weight", (hidden, inner)),
        (".weight", (hidden, hidden)),
        (".bias", (hidden,)),
    ]


def bert(name="bert_base", config=BertConfig(), seed=0, fused=False):
    """Builds BERT with random weights; outputs last_hidden_state and pooler_output."""
    net = NetworkBuilder(name, seed=seed)
    graph = BertGraph(net, config, random_weights(net, config), fused)
    hidden = graph.encode(*graph.inputs())
    pooled = graph.pool_first_token(hidden)
    net.output("last_hidden_state", hidden, np.float32, ["batch", "length", config.hidden_size])
    net.output("pooler_output", pooled, np.float32, ["batch", config.hidden_size])
    return net.model()
