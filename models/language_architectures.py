# SPDX-License-Identifier: Apache-2.0
"""Networks over words: rotary and grouped-query attention, relative position bias, mixtures of experts, recurrence."""

import dataclasses
import math

import numpy as np

from activations import relu, silu
from network_builder import NetworkBuilder
from seeded_layers import (SHARPNESS, linear_layer, merge_heads, parameter, random_array, rms_norm, scale_of_heads,
                           scaled, sliced, small_array, split_heads, last_transposed)


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
    """The sizes of a Llama-like decoder; with experts, `inner` is that of each."""

    words: int
    hidden: int
    layers: int
    heads: int
    key_heads: int
    inner: int
    experts: int = 0
    chosen: int = 2


SMOLLM_135M = DecoderConfig(49152, 576, 30, 9, 3, 1536)
# Mixtral's layers at a small size: the published one has 47 billion weights.
MIXTRAL_SMALL = DecoderConfig(8192, 512, 4, 8, 4, 1024, experts=8)


class DecoderGraph:
    """A decoder over whole sequences: tokens in, logits out."""

    def __init__(self, name, config, seed):
        self.net_ = NetworkBuilder(name, seed=seed)
        self.config_ = config

    def model(self):
        """Input `input_ids` (batch, length), output `logits` (batch, length, words)."""
        net, config = self.net_, self.config_
        ids = net.input("input_ids", np.int64, ["batch", "length"])
        table = parameter(net, "embed_tokens", random_array(net, "embed_tokens", (config.words, config.hidden),
                                                            fan_in=1))
        x = net.op("Gather", table, ids, axis=0)
        length = net.size(ids, 1)
        cosine, sine = self._rotations(length)
        mask = self._causal_mask(length)
        for index in range(config.layers):
            with net.scope(f"layers.{index}"):
                with net.scope("self_attn"):
                    y = self._attention(rms_norm(net, x, config.hidden, "input_layernorm"), cosine, sine, mask)
                x = net.op("Add", x, y)
                y = rms_norm(net, x, config.hidden, "post_attention_layernorm")
                with net.scope("mlp"):
                    x = net.op("Add", x, self._experts(y) if config.experts else self._gated(y))
        x = scaled(net, rms_norm(net, x, config.hidden, "norm"), 1 / math.sqrt(config.hidden))
        logits = net.op("MatMul", x, net.op("Transpose", table, perm=[1, 0]))
        net.output("logits", logits, np.float32, ["batch", "length", config.words])
        return net.model()

    def _rotations(self, length):
        """Cosines and sines of each position's angles: (1, 1, length, head size)."""
        net, size = self.net_, self.config_.hidden // self.config_.heads
        places = net.op("Range", net.constant(0, np.int64), length, net.constant(1, np.int64))
        places = net.op("Unsqueeze", net.op("Cast", places, to=1), net.constant([1], np.int64))
        turns = parameter(net, "inv_freq", 10000.0 ** (-np.arange(0, size, 2, dtype=np.float32) / size)[None])
        angles = net.op("MatMul", places, turns)
        angles = net.op("Unsqueeze", net.op("Concat", angles, angles, axis=-1), net.constant([0, 1], np.int64))
        return net.op("Cos", angles), net.op("Sin", angles)

    def _causal_mask(self, length):
        """0 where a token may look, the lowest float elsewhere: (length, length)."""
        net = self.net_
        places = net.op("Range", net.constant(0, np.int64), length, net.constant(1, np.int64))
        rows = net.op("Unsqueeze", places, net.constant([1], np.int64))
        later = net.op("Less", rows, net.op("Unsqueeze", places, net.constant([0], np.int64)))
        return net.op("Where", later, net.constant(np.finfo(np.float32).min), net.constant(0.0))

    def _attention(self, x, cosine, sine, mask):
        """Heads in groups that share keys and values."""
        net, config = self.net_, self.config_
        size = config.hidden // config.heads
        query = split_heads(net, linear_layer(net, x, config.hidden, config.hidden, "q_proj", SHARPNESS, False),
                            config.heads, size)
        width = config.key_heads * size
        keys = split_heads(net, linear_layer(net, x, config.hidden, width, "k_proj", SHARPNESS, False),
                           config.key_heads, size)
        value = split_heads(net, linear_layer(net, x, config.hidden, width, "v_proj", bias=False), config.key_heads,
                            size)
        query, keys = (self._rotated(part, cosine, sine, size) for part in (query, keys))
        keys, value = self._repeated(keys, size), self._repeated(value, size)
        scores = scaled(net, net.op("MatMul", query, last_transposed(net, keys)), scale_of_heads(size))
        weights = net.op("Softmax", net.op("Add", scores, mask), axis=-1)
        context = merge_heads(net, net.op("MatMul", weights, value), config.hidden)
        return linear_layer(net, context, config.hidden, config.hidden, "o_proj", bias=False)

    def _rotated(self, x, cosine, sine, size):
        """x * cos + (-second half, first half) * sin."""
        net = self.net_
        first, second = sliced(net, x, 3, 0, size // 2), sliced(net, x, 3, size // 2, np.iinfo(np.int64).max)
        turned = net.op("Concat", net.op("Neg", second), first, axis=-1)
        return net.op("Add", net.op("Mul", x, cosine), net.op("Mul", turned, sine))

    def _repeated(self, x, size):
        """Each head of keys or values for all queries of its group: Unsqueeze, Expand, Reshape."""
        net, config = self.net_, self.config_
        groups = config.heads // config.key_heads
        batch, length = net.size(x, 0), net.size(x, 2)
        sizes = [net.op("Unsqueeze", batch, net.constant([0], np.int64)),
                 net.constant([config.key_heads, groups], np.int64),
                 net.op("Unsqueeze", length, net.constant([0], np.int64)), net.constant([size], np.int64)]
        x = net.op("Expand", net.op("Unsqueeze", x, net.constant([2], np.int64)), net.op("Concat", *sizes, axis=0))
        return net.reshape(x, [batch, config.heads, length, size])

    def _gated(self, x):
        """down(silu(gate(x)) * up(x))."""
        net, config = self.net_, self.config_
        gate = silu(net, linear_layer(net, x, config.hidden, config.inner, "gate_proj", bias=False))
        up = linear_layer(net, x, config.hidden, config.inner, "up_proj", bias=False)
        return linear_layer(net, net.op("Mul", gate, up), config.inner, config.hidden, "down_proj", bias=False)

    def _experts(self, x):
        """All experts as one batch of products, weighted by a router that keeps the best two of each token."""
        net, config = self.net_, self.config_
        rows = net.reshape(x, [-1, config.hidden])
        router = linear_layer(net, rows, config.hidden, config.experts, "gate", bias=False)
        best, index = net.op("TopK", router, net.constant([config.chosen], np.int64), outputs=2, axis=-1)
        zeros = net.op("Mul", router, net.constant(0.0))
        gates = net.op("ScatterElements", zeros, index, net.op("Softmax", best, axis=-1), axis=1)
        gates = net.op("Unsqueeze", net.op("Transpose", gates, perm=[1, 0]), net.constant([2], np.int64))
        rows = net.op("Unsqueeze", rows, net.constant([0], np.int64))
        inner = net.op("Mul", silu(net, self._each(rows, config.hidden, config.inner, "w1")),
                       self._each(rows, config.hidden, config.inner, "w3"))
        outer = net.op("Mul", self._each(inner, config.inner, config.hidden, "w2"), gates)
        total = net.op("ReduceSum", outer, net.constant([0], np.int64), keepdims=0)
        return net.op("Reshape", total, net.op("Shape", x))

    def _each(self, x, fan_in, fan_out, name):
        """A product of each expert's own weights."""
        shape = (self.config_.experts, fan_in, fan_out)
        weight = random_array(self.net_, name, shape, fan_in=fan_in)
        return self.net_.op("MatMul", x, parameter(self.net_, name, weight))


def smollm_135m(seed=0, shallow=False):
    """SmolLM-135M (Allal et al. 2024), Llama's layers (Touvron 2023, arXiv:2307.09288) with grouped queries."""
    config = dataclasses.replace(SMOLLM_135M, layers=2, words=4096) if shallow else SMOLLM_135M
    return DecoderGraph("smollm_135m", config, seed).model()


def mixtral_small(seed=0, shallow=False):
    """Mixtral's mixture of experts (Jiang et al. 2024, arXiv:2401.04088), dispatched densely, at a small size."""
    config = dataclasses.replace(MIXTRAL_SMALL, layers=2) if shallow else MIXTRAL_SMALL
    return DecoderGraph("mixtral_small", config, seed).model()


def t5_small_encoder(seed=0, shallow=False):
    """T5-small's encoder: a bias by buckets of distance, no scaling (Raffel et al. 2020, arXiv:1910.10683)."""
    net, hidden, heads, inner = NetworkBuilder("t5_small_encoder", seed=seed), 512, 8, 2048
    words = 4096 if shallow else 32128
    ids = net.input("input_ids", np.int64, ["batch", "length"])
    x = net.op("Gather", parameter(net, "shared", random_array(net, "shared", (words, hidden), fan_in=1)), ids, axis=0)
    bias = _bucket_bias(net, net.size(ids, 1), heads)
    for index in range(2 if shallow else 6):
        with net.scope(f"block.{index}"):
            with net.scope("layer.0"):
                y = rms_norm(net, x, hidden, "layer_norm")
                x = net.op("Add", x, _unscaled_attention(net, y, hidden, heads, bias))
            with net.scope("layer.1"):
                y = rms_norm(net, x, hidden, "layer_norm")
                y = relu(net, linear_layer(net, y, hidden, inner, "wi", bias=False))
                x = net.op("Add", x, linear_layer(net, y, inner, hidden, "wo", bias=False))
    net.output("last_hidden_state", rms_norm(net, x, hidden, "final_layer_norm"), np.float32,
               ["batch", "length", hidden])
    return net.model()


def _bucket_bias(net, length, heads, buckets=32, most=128):
    """(1, heads, length, length): a row of a table by the bucket of the distance, computed in the graph."""
    places = net.op("Range", net.constant(0, np.int64), length, net.constant(1, np.int64))
    apart = net.op("Sub", net.op("Unsqueeze", places, net.constant([0], np.int64)),
                   net.op("Unsqueeze", places, net.constant([1], np.int64)))
    half, exact = buckets // 2, buckets // 4
    behind = net.op("Mul", net.op("Cast", net.op("Greater", apart, net.constant(0, np.int64)), to=7),
                    net.constant(half, np.int64))
    apart = net.op("Abs", apart)
    ratio = net.op("Log", net.op("Div", net.op("Cast", apart, to=1), net.constant(float(exact))))
    steps = net.op("Mul", net.op("Div", ratio, net.constant(math.log(most / exact))), net.constant(float(half - exact)))
    far = net.op("Add", net.op("Cast", steps, to=7), net.constant(exact, np.int64))
    far = net.op("Min", far, net.constant(half - 1, np.int64))
    near = net.op("Less", apart, net.constant(exact, np.int64))
    bucket = net.op("Add", behind, net.op("Where", near, apart, far))
    table = parameter(net, "relative_attention_bias", random_array(net, "relative_attention_bias", (buckets, heads),
                                                                   fan_in=1))
    bias = net.op("Transpose", net.op("Gather", table, bucket, axis=0), perm=[2, 0, 1])
    return net.op("Unsqueeze", bias, net.constant([0], np.int64))


def _unscaled_attention(net, x, hidden, heads, bias):
    size = hidden // heads
    gain = SHARPNESS * size ** -0.25  # the products are not divided by the root of the head's size
    query = split_heads(net, linear_layer(net, x, hidden, hidden, "q", gain, False), heads, size)
    keys = split_heads(net, linear_layer(net, x, hidden, hidden, "k", gain, False), heads, size, (0, 2, 3, 1))
    value = split_heads(net, linear_layer(net, x, hidden, hidden, "v", bias=False), heads, size)
    scores = net.op("Add", net.op("MatMul", query, keys), bias)
    context = merge_heads(net, net.op("MatMul", net.op("Softmax", scores, axis=-1), value), hidden)
    return linear_layer(net, context, hidden, hidden, "o", bias=False)


def bilstm_tagger(seed=0, shallow=False):
    """A tagger of two bidirectional LSTMs (Huang et al. 2015, arXiv:1508.01991)."""
    net, words, width, hidden, tags = NetworkBuilder("bilstm_tagger", seed=seed), 20000, 100, 256, 17
    ids = net.input("input_ids", np.int64, ["batch", "length"])
    table = parameter(net, "embedding", random_array(net, "embedding", (words, width), fan_in=1))
    x = net.op("Transpose", net.op("Gather", table, ids, axis=0), perm=[1, 0, 2])
    for index in range(2):
        with net.scope(f"lstm{index}"):
            x = _bidirectional_lstm(net, x, width if index == 0 else 2 * hidden, hidden)
    x = linear_layer(net, net.op("Transpose", x, perm=[1, 0, 2]), 2 * hidden, tags, "tags", 3.0)
    net.output("output", x, np.float32, ["batch", "length", tags])
    return net.model()


def _bidirectional_lstm(net, x, width, hidden):
    """(length, batch, width) -> (length, batch, 2 * hidden), from states of zeros."""
    weight = parameter(net, "W", random_array(net, "W", (2, 4 * hidden, width), fan_in=width))
    again = parameter(net, "R", random_array(net, "R", (2, 4 * hidden, hidden), fan_in=hidden))
    bias = parameter(net, "B", small_array(net, "B", (2, 8 * hidden)))
    batch = net.op("Unsqueeze", net.size(x, 1), net.constant([0], np.int64))
    sizes = net.op("Concat", net.constant([2], np.int64), batch, net.constant([hidden], np.int64), axis=0)
    zeros = net.op("Expand", net.constant(0.0), sizes)
    result, _, _ = net.op("LSTM", x, weight, again, bias, "", zeros, zeros, outputs=3, hidden_size=hidden,
                          direction="bidirectional")
    result = net.op("Transpose", result, perm=[0, 2, 1, 3])
    return net.reshape(result, [net.size(result, 0), net.size(result, 1), 2 * hidden])
