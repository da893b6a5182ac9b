# SPDX-License-Identifier: Apache-2.0
"""Networks that write text: a decoder as of old, and an encoder of sound with a decoder that attends to it."""

import dataclasses
import math

import numpy as np

from activations import gelu
from convolution_blocks import conv
from network_builder import NetworkBuilder
from seeded_layers import (SHARPNESS, last_transposed, linear_layer, merge_heads, mlp, norm_layer, parameter,
                           random_array, scale_of_heads, scaled, small_array, split_heads)


@dataclasses.dataclass(frozen=True)
class GenerativeConfig:
    """The sizes of one network; the encoder's are those of sound."""

    words: int
    hidden: int
    layers: int
    heads: int
    positions: int
    bands: int = 0
    frames: int = 0


GPT2 = GenerativeConfig(50257, 768, 12, 12, 1024)
WHISPER_TINY = GenerativeConfig(51865, 384, 4, 6, 448, bands=80, frames=3000)


def gpt2(seed=0, shallow=False, config=GPT2):
    """GPT-2 (Radford et al. 2019): whole sequences, causal by a table of which positions a word sees."""
    config = dataclasses.replace(config, layers=2, words=4096) if shallow else config
    net = NetworkBuilder("gpt2", seed=seed)
    ids = net.input("input_ids", np.int64, ["batch", "length"])
    length = net.size(ids, 1)
    table = _table(net, "wte", config.words, config.hidden)
    x = net.op("Add", net.op("Gather", table, ids, axis=0), _first_rows(net, "wpe", length, config))
    seen = _seen_positions(net, length, config.positions)
    for index in range(config.layers):
        with net.scope(f"h.{index}"):
            x = net.op("Add", x, _joint_attention(net, norm_layer(net, x, config.hidden, "ln_1"), config, seen))
            y = _conv1d(net, norm_layer(net, x, config.hidden, "ln_2"), config.hidden, 4 * config.hidden, "c_fc")
            x = net.op("Add", x, _conv1d(net, _gelu_by_tanh(net, y), 4 * config.hidden, config.hidden, "c_proj"))
    return _words_out(net, norm_layer(net, x, config.hidden, "ln_f"), table, config)


def whisper_tiny(seed=0, shallow=False, config=WHISPER_TINY, frames=None):
    """Whisper tiny (Radford et al. 2022, arXiv:2212.04356): sound and the words so far in, the next words out."""
    frames = frames or config.frames
    config = dataclasses.replace(config, layers=1, words=4096) if shallow else config
    net = NetworkBuilder("whisper_tiny", seed=seed)
    ids = net.input("input_ids", np.int64, ["batch", "length"])
    sound = net.input("input_features", np.float32, ["batch", config.bands, frames])
    with net.scope("encoder"):
        sound = _encoded_sound(net, sound, config, frames // 2)
    length = net.size(ids, 1)
    with net.scope("decoder"):
        table = _table(net, "embed_tokens", config.words, config.hidden)
        x = net.op("Add", net.op("Gather", table, ids, axis=0), _first_rows(net, "embed_positions", length, config))
        seen = _seen_positions(net, length, config.positions)
        for index in range(config.layers):
            with net.scope(f"layers.{index}"):
                x = _with_attention(net, x, None, config, "self_attn", seen)
                x = _with_attention(net, x, sound, config, "encoder_attn")
                y = norm_layer(net, x, config.hidden, "final_layer_norm")
                x = net.op("Add", x, mlp(net, y, config.hidden, 4 * config.hidden))
        x = norm_layer(net, x, config.hidden, "layer_norm")
    return _words_out(net, x, table, config)


def speech_inputs(vocabulary, frames, bands=80, batch=1, seed=0, length=128):
    """Random tokens, and the logarithms of energies in bands of sound."""
    generator = np.random.default_rng(seed)
    return {"input_ids": generator.integers(0, vocabulary, (batch, length)),
            "input_features": generator.standard_normal((batch, bands, frames), dtype=np.float32)}


def _table(net, name, rows, hidden):
    return parameter(net, name, random_array(net, name, (rows, hidden), fan_in=1))


def _first_rows(net, name, length, config):
    """The positions' part of the sum of embeddings: Range, and a row of a table for each."""
    places = net.op("Range", net.constant(0, np.int64), length, net.constant(1, np.int64))
    table = parameter(net, name, small_array(net, name, (config.positions, config.hidden)))
    return net.op("Gather", table, net.op("Unsqueeze", places, net.constant([0], np.int64)), axis=0)


def _seen_positions(net, length, positions):
    """(1, 1, length, length) of a triangle that the model keeps."""
    triangle = net.weight("causal", np.tril(np.ones((1, 1, positions, positions), bool)))
    end, start = net.op("Unsqueeze", length, net.constant([0], np.int64)), net.constant([0], np.int64)
    for axis in (2, 3):
        triangle = net.op("Slice", triangle, start, end, net.constant([axis], np.int64))
    return triangle


def _conv1d(net, x, fan_in, fan_out, name, gain=1.0):
    """GPT-2's linear layer: Gemm of all words as rows, with weights that are not transposed."""
    with net.scope(name):
        weight = random_array(net, "weight", (fan_in, fan_out), fan_in=fan_in) * np.float32(gain)
        rows = net.op("Gemm", net.reshape(x, [-1, fan_in]), parameter(net, "weight", weight),
                      parameter(net, "bias", small_array(net, "bias", fan_out)))
        return net.reshape(rows, [net.size(x, 0), net.size(x, 1), fan_out])


def _joint_attention(net, x, config, seen):
    """Causal attention of queries, keys and values that one product gives."""
    hidden, heads = config.hidden, config.heads
    with net.scope("attn"):
        gains = np.repeat([SHARPNESS, SHARPNESS, 1.0], hidden)
        parts = net.op("Split", _conv1d(net, x, hidden, 3 * hidden, "c_attn", gains),
                       net.constant([hidden] * 3, np.int64), outputs=3, axis=2)
        query, keys, value = (split_heads(net, part, heads, hidden // heads) for part in parts)
        scores = net.op("MatMul", query, last_transposed(net, keys))
        scores = net.op("Div", scores, net.constant(math.sqrt(hidden // heads)))
        scores = net.op("Where", seen, scores, net.constant(np.finfo(np.float32).min))
        context = merge_heads(net, net.op("MatMul", net.op("Softmax", scores, axis=-1), value), hidden)
        return _conv1d(net, context, hidden, hidden, "c_proj")


def _gelu_by_tanh(net, x):
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    cube = net.op("Mul", net.op("Pow", x, net.constant(3.0)), net.constant(0.044715))
    inner = net.op("Mul", net.op("Add", x, cube), net.constant(math.sqrt(2 / math.pi)))
    return net.op("Mul", net.op("Mul", x, net.constant(0.5)),
                  net.op("Add", net.op("Tanh", inner), net.constant(1.0)))


def _encoded_sound(net, sound, config, places):
    hidden = config.hidden
    sound = gelu(net, conv(net, sound, (hidden, config.bands, 3), "conv1", padding=1, input_variance=1.0))
    sound = gelu(net, conv(net, sound, (hidden, hidden, 3), "conv2", 2, padding=1, input_variance=1.0))
    sound = net.op("Transpose", sound, perm=[0, 2, 1])
    table = parameter(net, "embed_positions", small_array(net, "embed_positions", (places, hidden)))
    sound = net.op("Add", sound, table)
    for index in range(config.layers):
        with net.scope(f"layers.{index}"):
            sound = _with_attention(net, sound, None, config, "self_attn")
            y = norm_layer(net, sound, hidden, "final_layer_norm")
            sound = net.op("Add", sound, mlp(net, y, hidden, 4 * hidden))
    return norm_layer(net, sound, hidden, "layer_norm")


def _with_attention(net, x, memory, config, name, seen=None):
    """x plus the attention of its normalisation to itself or to `memory`; keys have no bias."""
    hidden, size = config.hidden, config.hidden // config.heads
    y = norm_layer(net, x, hidden, f"{name}_layer_norm")
    memory = y if memory is None else memory
    with net.scope(name):
        query = scaled(net, linear_layer(net, y, hidden, hidden, "q_proj", SHARPNESS), scale_of_heads(size))
        query = split_heads(net, query, config.heads, size)
        keys = split_heads(net, linear_layer(net, memory, hidden, hidden, "k_proj", SHARPNESS, False), config.heads,
                           size)
        value = split_heads(net, linear_layer(net, memory, hidden, hidden, "v_proj"), config.heads, size)
        scores = net.op("MatMul", query, last_transposed(net, keys))
        if seen is not None:
            unseen = net.op("Where", seen, net.constant(0.0), net.constant(np.finfo(np.float32).min))
            scores = net.op("Add", scores, unseen)
        context = merge_heads(net, net.op("MatMul", net.op("Softmax", scores, axis=-1), value), hidden)
        return net.op("Add", x, linear_layer(net, context, hidden, hidden, "out_proj"))


def _words_out(net, x, table, config):
    """Output `logits`, by the table that words are read from."""
    x = scaled(net, x, 1 / math.sqrt(config.hidden))
    logits = net.op("MatMul", x, net.op("Transpose", table, perm=[1, 0]))
    net.output("logits", logits, np.float32, ["batch", "length", config.words])
    return net.model()
