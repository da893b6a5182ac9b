# SPDX-License-Identifier: Apache-2.0
"""Vision transformers whose attention is another than softmax(Q K^T) V: talking heads, cross-covariance, biases per
head with values wider than keys."""

import itertools

import numpy as np

from activations import HARD_SWISH_VARIANCE, gelu, hard_swish
from convolution_blocks import batch_norm, conv, conv_batch_norm
from network_builder import NetworkBuilder
from seeded_layers import (SHARPNESS, class_output, first_token, gemm_layer, image_input, image_of, joint_heads,
                           last_transposed, layer_scale, linear_layer, merge_heads, mlp, norm_layer, parameter,
                           prepend_token, random_array, scale_of_heads, scaled, sliced, small_array, split_heads,
                           tokens_of, unit_length)


def patches(net, image, channels, patch, name="patch_embed"):
    """Square patches as tokens."""
    with net.scope(name):
        return tokens_of(net, conv(net, image, (channels, 3, patch, patch), "proj", patch, padding=0,
                                   input_variance=1.0), channels)


def class_attention(net, token, rest, channels, heads):
    """The class token alone asks; all tokens answer."""
    size = channels // heads
    joint = net.op("Concat", token, rest, axis=1)
    query = split_heads(net, linear_layer(net, token, channels, channels, "q", SHARPNESS), heads, size)
    keys = split_heads(net, linear_layer(net, joint, channels, channels, "k", SHARPNESS), heads, size, (0, 2, 3, 1))
    value = split_heads(net, linear_layer(net, joint, channels, channels, "v"), heads, size)
    scores = net.op("MatMul", scaled(net, query, scale_of_heads(size)), keys)
    context = net.op("MatMul", net.op("Softmax", scores, axis=-1), value)
    return linear_layer(net, merge_heads(net, context, channels), channels, channels, "proj")


def cait_xxs24(seed=0, shallow=False, image=224):
    """CaiT-XXS-24: heads that talk before and after the softmax, class attention (Touvron 2021, arXiv:2103.17239)."""
    net, channels, heads = NetworkBuilder("cait_xxs24", seed=seed), 192, 4
    x = patches(net, image_input(net, image), channels, 16)
    x = net.op("Add", x, parameter(net, "pos_embed", random_array(
        net, "pos_embed", (1, (image // 16) ** 2, channels), fan_in=4)))
    for index in range(2 if shallow else 24):
        with net.scope(f"blocks.{index}"):
            with net.scope("attn"):
                y = _talking_attention(net, norm_layer(net, x, channels, "norm1"), channels, heads)
            x = net.op("Add", x, layer_scale(net, y, channels, "gamma_1"))
            y = mlp(net, norm_layer(net, x, channels, "norm2"), channels, 4 * channels)
            x = net.op("Add", x, layer_scale(net, y, channels, "gamma_2"))
    token = net.op("Expand", parameter(net, "cls_token", small_array(net, "cls_token", (1, 1, channels))),
                   net.op("Concat", net.op("Unsqueeze", net.size(x, 0), net.constant([0], np.int64)),
                          net.constant([1, channels], np.int64), axis=0))
    for index in range(1 if shallow else 2):
        with net.scope(f"blocks_token_only.{index}"):
            joint = norm_layer(net, net.op("Concat", token, x, axis=1), channels, "norm1")
            with net.scope("attn"):
                rest = sliced(net, joint, 1, 1, np.iinfo(np.int64).max)
                y = class_attention(net, sliced(net, joint, 1, 0, 1), rest, channels, heads)
            token = net.op("Add", token, layer_scale(net, y, channels, "gamma_1"))
            y = mlp(net, norm_layer(net, token, channels, "norm2"), channels, 4 * channels)
            token = net.op("Add", token, layer_scale(net, y, channels, "gamma_2"))
    x = norm_layer(net, net.op("Concat", token, x, axis=1), channels, "norm")
    return class_output(net, gemm_layer(net, first_token(net, x), channels, 1000, "head"))


def _talking_attention(net, x, channels, heads):
    """Scores and weights of all heads are mixed by linear layers over the heads."""
    query, keys, value = joint_heads(net, x, channels, heads)
    scores = net.op("MatMul", scaled(net, query, scale_of_heads(channels // heads)), last_transposed(net, keys))
    scores = _over_heads(net, scores, heads, "proj_l")
    weights = _over_heads(net, net.op("Softmax", scores, axis=-1), heads, "proj_w")
    context = net.op("MatMul", weights, value)
    return linear_layer(net, merge_heads(net, context, channels), channels, channels, "proj")


def _over_heads(net, x, heads, name):
    """A linear layer over the axis of heads, which comes last meanwhile."""
    x = linear_layer(net, net.op("Transpose", x, perm=[0, 2, 3, 1]), heads, heads, name)
    return net.op("Transpose", x, perm=[0, 3, 1, 2])


def xcit_tiny12(seed=0, shallow=False, image=224):
    """XCiT-Tiny-12/16: attention between channels, local patch interaction (El-Nouby 2021, arXiv:2106.09681)."""
    net, channels, heads, side = NetworkBuilder("xcit_tiny12", seed=seed), 192, 4, image // 16
    x, width = image_input(net, image), 3
    with net.scope("patch_embed"):
        for index in range(4):
            outer = channels >> (3 - index)
            x = conv_batch_norm(net, x, (outer, width, 3, 3), f"proj.{index}", 2, input_variance=1.0)
            x, width = gelu(net, x) if index < 3 else x, outer
    x = tokens_of(net, x, channels)
    places = parameter(net, "positions", _fourier_positions(32, side))
    places = conv(net, places, (channels, 64, 1, 1), "pos_embed", input_variance=8.0)
    places = net.op("Transpose", net.op("Reshape", places, net.constant([1, channels, side * side], np.int64)),
                    perm=[0, 2, 1])
    x = net.op("Add", x, places)
    for index in range(2 if shallow else 12):
        with net.scope(f"blocks.{index}"):
            with net.scope("attn"):
                y = cross_covariance_attention(net, norm_layer(net, x, channels, "norm1"), channels, heads)
            x = net.op("Add", x, layer_scale(net, y, channels, "gamma1"))
            y = _local_interaction(net, norm_layer(net, x, channels, "norm3"), channels, side)
            x = net.op("Add", x, layer_scale(net, y, channels, "gamma3"))
            y = mlp(net, norm_layer(net, x, channels, "norm2"), channels, 4 * channels)
            x = net.op("Add", x, layer_scale(net, y, channels, "gamma2"))
    x = prepend_token(net, x, channels)
    for index in range(1 if shallow else 2):
        with net.scope(f"cls_attn_blocks.{index}"):
            normal = norm_layer(net, x, channels, "norm1")
            rest = sliced(net, normal, 1, 1, np.iinfo(np.int64).max)
            with net.scope("attn"):
                token = class_attention(net, sliced(net, normal, 1, 0, 1), rest, channels, heads)
            x = net.op("Add", x, layer_scale(net, net.op("Concat", token, rest, axis=1), channels, "gamma1"))
            x = norm_layer(net, x, channels, "norm2")
            token, rest = sliced(net, x, 1, 0, 1), sliced(net, x, 1, 1, np.iinfo(np.int64).max)
            y = layer_scale(net, mlp(net, token, channels, 4 * channels), channels, "gamma2")
            x = net.op("Add", x, net.op("Concat", y, rest, axis=1))
    x = first_token(net, norm_layer(net, x, channels, "norm"))
    return class_output(net, gemm_layer(net, x, channels, 1000, "head"))


def cross_covariance_attention(net, x, channels, heads):
    """Channels attend to channels: both sides of length one, a temperature for each head."""
    query, keys, value = joint_heads(net, x, channels, heads, order=(2, 0, 3, 4, 1))
    query, keys = unit_length(net, query), unit_length(net, keys)
    scores = net.op("MatMul", query, last_transposed(net, keys))
    scores = net.op("Mul", scores, parameter(net, "temperature", 4 + small_array(net, "temperature", (heads, 1, 1))))
    context = net.op("MatMul", net.op("Softmax", scores, axis=-1), value)
    context = net.op("Transpose", context, perm=[0, 3, 1, 2])
    context = net.reshape(context, [net.size(context, 0), net.size(context, 1), channels])
    return linear_layer(net, context, channels, channels, "proj")


def _local_interaction(net, x, channels, side):
    """Two depthwise convolutions over the tokens as an image."""
    with net.scope("local_mp"):
        x = image_of(net, x, channels, side, side)
        x = gelu(net, conv(net, x, (channels, 1, 3, 3), "conv1", groups=channels, input_variance=1.0))
        x = conv(net, batch_norm(net, x, channels, "norm"), (channels, 1, 3, 3), "conv2", groups=channels)
        return tokens_of(net, x, channels)


def _fourier_positions(size, side):
    """Sines and cosines of both coordinates: (1, 2 * size, side, side)."""
    places = (np.arange(side, dtype=np.float32) + 1) / side * 2 * np.pi
    angles = places[:, None] / 10000 ** (2 * (np.arange(size) // 2) / size)
    waves = np.stack([np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])], -1).reshape(side, size)
    rows, columns = np.broadcast_to(waves[:, None], (side, side, size)), np.broadcast_to(waves, (side, side, size))
    return np.concatenate([rows, columns], -1).transpose(2, 0, 1)[None]


def levit_128s(seed=0, shallow=False, image=224):
    """LeViT-128S: a bias per head, values twice as wide as keys of 16 (Graham 2021, arXiv:2104.01136)."""
    net, channels = NetworkBuilder("levit_128s", seed=seed), (128, 256, 384)
    x, width = image_input(net, image), 3
    with net.scope("stem"):
        for index, outer in enumerate((16, 32, 64, 128)):
            x = conv_batch_norm(net, x, (outer, width, 3, 3), str(index), 2,
                                input_variance=HARD_SWISH_VARIANCE if index else 1.0)
            x, width = hard_swish(net, x) if index < 3 else x, outer
    x, side, key = tokens_of(net, x, 128), image // 16, 16
    for stage, (heads, depth) in enumerate(((4, 2), (6, 3), (8, 4))):
        with net.scope(f"stages.{stage}"):
            if stage:
                small = (side - 1) // 2 + 1
                with net.scope("downsample"):
                    before, width = channels[stage - 1], channels[stage]
                    x = _biased_attention(net, x, before, width, before // key, key, 4, side, 2)
                    x, side = net.op("Add", x, _hard_mlp(net, x, width)), small
            for index in range(2 if shallow else depth):
                with net.scope(f"blocks.{index}"):
                    width = channels[stage]
                    x = net.op("Add", x, _biased_attention(net, x, width, width, heads, key, 2, side, 1))
                    x = net.op("Add", x, _hard_mlp(net, x, width))
    x = net.op("ReduceMean", x, net.constant([1], np.int64), keepdims=0)
    return class_output(net, gemm_layer(net, batch_norm(net, x, 384, "head.bn"), 384, 1000, "head.linear"))


def _linear_batch_norm(net, x, fan_in, fan_out, name, gain=1.0):
    """A linear layer, and BatchNormalization of its rows."""
    with net.scope(name):
        x = linear_layer(net, x, fan_in, fan_out, "linear", bias=False)
        rows = batch_norm(net, net.reshape(x, [-1, fan_out]), fan_out, "bn", gain)
        return net.op("Reshape", rows, net.op("Shape", x))


def _hard_mlp(net, x, channels):
    with net.scope("mlp"):
        x = hard_swish(net, _linear_batch_norm(net, x, channels, 2 * channels, "ln1"))
        return _linear_batch_norm(net, x, 2 * channels, channels, "ln2", 0.3 / HARD_SWISH_VARIANCE ** 0.5)


def _biased_attention(net, x, channels, outer, heads, key, ratio, side, stride):
    """Attention with a bias for each head and distance; with a stride only some positions ask."""
    with net.scope("attn"):
        value = ratio * key
        asking = (side - 1) // stride + 1
        parts = [key, key, value] if stride == 1 else [key, value]
        joint = _linear_batch_norm(net, x, channels, heads * sum(parts), "qkv")
        joint = net.reshape(joint, [net.size(joint, 0), side * side, heads, sum(parts)])
        *query, keys, values = net.op("Split", joint, net.constant(parts, np.int64), outputs=len(parts), axis=3)
        if stride > 1:
            rows = net.reshape(x, [net.size(x, 0), side, side, channels])
            rows = sliced(net, sliced(net, rows, 1, 0, side, stride), 2, 0, side, stride)
            rows = net.reshape(rows, [net.size(rows, 0), asking * asking, channels])
            rows = _linear_batch_norm(net, rows, channels, heads * key, "q")
            query = [net.reshape(rows, [net.size(rows, 0), asking * asking, heads, key])]
        query = net.op("Transpose", query[0], perm=[0, 2, 1, 3])
        keys = net.op("Transpose", keys, perm=[0, 2, 3, 1])
        values = net.op("Transpose", values, perm=[0, 2, 1, 3])
        table = random_array(net, "attention_biases", (heads, side * side), fan_in=1)
        table = parameter(net, "attention_biases", table)
        bias = net.op("Gather", table, net.weight("attention_bias_idxs", _distances(side, stride)), axis=1)
        scores = net.op("Add", scaled(net, net.op("MatMul", query, keys), SHARPNESS ** 2 * scale_of_heads(key)), bias)
        context = net.op("MatMul", net.op("Softmax", scores, axis=-1), values)
        context = hard_swish(net, merge_heads(net, context, heads * value))
        return _linear_batch_norm(net, context, heads * value, outer, "proj", 1.0 if stride > 1 else 0.5)


def _distances(side, stride):
    """The column of the table of biases for each pair of positions: one for each distance."""
    asking = list(itertools.product(range(0, side, stride), repeat=2))
    answering = list(itertools.product(range(side), repeat=2))
    columns = {}
    index = [columns.setdefault((abs(a[0] - b[0]), abs(a[1] - b[1])), len(columns)) for a in asking for b in answering]
    return np.array(index, np.int64).reshape(len(asking), len(answering))
