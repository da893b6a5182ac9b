# SPDX-License-Identifier: Apache-2.0
"""Networks over sound: one-dimensional convolutions, strided, dilated, grouped and transposed."""

import numpy as np

from activations import GELU_VARIANCE, gelu
from convolution_blocks import conv, transposed_conv
from network_builder import NetworkBuilder
from seeded_layers import (SHARPNESS, group_norm, last_transposed, linear_layer, merge_heads, mlp, norm_layer,
                           parameter, scale_of_heads, scaled, sliced, small_array, split_heads)


def wav2vec2_base(seed=0, shallow=False, samples=16000):
    """wav2vec 2.0 Base: seven convolutions over samples, then a transformer (Baevski 2020, arXiv:2006.11477)."""
    net, channels, hidden, heads = NetworkBuilder("wav2vec2_base", seed=seed), 512, 768, 12
    x = net.input("input", np.float32, ["batch", samples])
    x = net.op("Unsqueeze", x, net.constant([1], np.int64))
    before, frames = 1, samples
    for index, (kernel, stride) in enumerate(((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))):
        with net.scope(f"feature_extractor.{index}"):
            x = conv(net, x, (channels, before, kernel), "conv", stride, padding=0, bias=False,
                     input_variance=GELU_VARIANCE if index else 1.0)
            x = group_norm(net, x, channels, channels, "layer_norm", axes=1) if index == 0 else x
            x, before, frames = gelu(net, x), channels, (frames - kernel) // stride + 1
    x = norm_layer(net, net.op("Transpose", x, perm=[0, 2, 1]), channels, "feature_projection.norm")
    x = linear_layer(net, x, channels, hidden, "feature_projection")
    y = conv(net, net.op("Transpose", x, perm=[0, 2, 1]), (hidden, hidden // 16, 128), "pos_conv_embed", groups=16,
             padding=64, input_variance=1.0)
    y = gelu(net, sliced(net, y, 2, 0, -1))
    x = norm_layer(net, net.op("Add", x, net.op("Transpose", y, perm=[0, 2, 1])), hidden, "encoder.norm")
    for index in range(2 if shallow else 12):
        with net.scope(f"encoder.layers.{index}"):
            x = norm_layer(net, net.op("Add", x, _attention(net, x, hidden, heads)), hidden, "layer_norm")
            x = norm_layer(net, net.op("Add", x, mlp(net, x, hidden, 4 * hidden)), hidden, "final_layer_norm")
    net.output("output", x, np.float32, ["batch", frames, hidden])
    return net.model()


def _attention(net, x, hidden, heads):
    """Self-attention with three products and scaled queries."""
    size = hidden // heads
    query = scaled(net, linear_layer(net, x, hidden, hidden, "q_proj", SHARPNESS), scale_of_heads(size))
    query = split_heads(net, query, heads, size)
    keys = split_heads(net, linear_layer(net, x, hidden, hidden, "k_proj", SHARPNESS), heads, size)
    value = split_heads(net, linear_layer(net, x, hidden, hidden, "v_proj"), heads, size)
    weights = net.op("Softmax", net.op("MatMul", query, last_transposed(net, keys)), axis=-1)
    context = merge_heads(net, net.op("MatMul", weights, value), hidden)
    return linear_layer(net, context, hidden, hidden, "out_proj")


def conv_tasnet(seed=0, shallow=False, samples=16000):
    """Conv-TasNet, which separates two speakers: dilated depthwise convolutions (Luo 2019, arXiv:1809.07454)."""
    net, filters, bottleneck, hidden, speakers = NetworkBuilder("conv_tasnet", seed=seed), 512, 128, 512, 2
    x = net.input("input", np.float32, ["batch", 1, samples])
    encoded = net.op("Relu", conv(net, x, (filters, 1, 16), "encoder", 8, padding=0, bias=False, input_variance=1.0))
    with net.scope("masker"):
        x = _global_norm(net, encoded, filters, "norm")
        x = conv(net, x, (bottleneck, filters, 1), "input", input_variance=1.0)
        total = None
        for repeat in range(1 if shallow else 3):
            for index in range(8):
                with net.scope(f"blocks.{repeat}.{index}"):
                    residual, skipped = _dilated_block(net, x, bottleneck, hidden, 1 << index)
                x = net.op("Add", x, residual)
                total = skipped if total is None else net.op("Add", total, skipped)
        masks = conv(net, _prelu(net, total, "prelu"), (speakers * filters, bottleneck, 1), "output",
                     input_variance=2.0 if shallow else 6.0)
        masks = net.op("Sigmoid", masks)
    frames = (samples - 16) // 8 + 1
    masks = net.reshape(masks, [-1, speakers, filters, frames])
    x = net.op("Mul", net.op("Unsqueeze", encoded, net.constant([1], np.int64)), masks)
    x = transposed_conv(net, net.reshape(x, [-1, filters, frames]), (filters, 1, 16), "decoder", 8, bias=False)
    x = net.reshape(x, [-1, speakers, samples])
    net.output("output", x, np.float32, ["batch", speakers, samples])
    return net.model()


def _dilated_block(net, x, channels, hidden, dilation):
    """1x1, PReLU, normalisation, dilated depthwise, PReLU, normalisation, and two 1x1 results."""
    y = conv(net, x, (hidden, channels, 1), "conv1x1", input_variance=1.0)
    y = _global_norm(net, _prelu(net, y, "prelu1"), hidden, "norm1")
    y = conv(net, y, (hidden, 1, 3), "depthwise", groups=hidden, dilation=dilation, input_variance=1.0)
    y = _global_norm(net, _prelu(net, y, "prelu2"), hidden, "norm2")
    return (conv(net, y, (channels, hidden, 1), "residual", input_variance=4.0),
            conv(net, y, (channels, hidden, 1), "skip", input_variance=4.0))


def _prelu(net, x, name):
    return net.op("PRelu", x, net.weight(name, np.full((1, 1), 0.25, np.float32)))


def _global_norm(net, x, channels, name):
    """Normalisation over channels and time, spelled out."""
    with net.scope(name):
        axes = net.constant([1, 2], np.int64)
        centered = net.op("Sub", x, net.op("ReduceMean", x, axes, keepdims=1))
        variance = net.op("ReduceMean", net.op("Pow", centered, net.constant(2.0)), axes, keepdims=1)
        normal = net.op("Div", centered, net.op("Sqrt", net.op("Add", variance, net.constant(1e-8))))
        scale = parameter(net, "weight", small_array(net, "weight", (1, channels, 1), 1.0))
        return net.op("Add", net.op("Mul", scale, normal),
                      parameter(net, "bias", small_array(net, "bias", (1, channels, 1))))
