# SPDX-License-Identifier: Apache-2.0
"""The pieces that transformer encoders share, in the patterns PyTorch's exporter emits."""

import math

import numpy as np


def linear(net, x, weight, bias, name):
    """MatMul by the transposed weight, then Add of the bias, as nn.Linear is exported."""
    with net.scope(name):
        product = net.op("MatMul", x, net.weight("weight_transposed", weight.T))
        return net.op("Add", net.weight("bias", bias), product)


def layer_norm(net, x, weight, bias, epsilon, name, fused):
    """LayerNorm over the last axis: one node, or mean, variance and scaling spelled out."""
    with net.scope(name):
        scale, shift = net.weight("weight", weight), net.weight("bias", bias)
        if fused:
            return net.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=epsilon)
        axes = net.constant([-1], np.int64)
        centered = net.op("Sub", x, net.op("ReduceMean", x, axes, keepdims=1))
        squares = net.op("Pow", centered, net.constant(2.0))
        variance = net.op("ReduceMean", squares, axes, keepdims=1)
        deviation = net.op("Sqrt", net.op("Add", variance, net.constant(epsilon)))
        normalized = net.op("Div", centered, deviation)
        return net.op("Add", net.op("Mul", normalized, scale), shift)


def attention_context(net, query, keys_transposed, value, head_size, mask=None):
    """Softmax(Q K^T / sqrt d + mask) V over (batch, head, length, head size)."""
    scores = net.op("MatMul", query, keys_transposed)
    scores = net.op("Div", scores, net.constant(math.sqrt(head_size)))
    if mask is not None:
        scores = net.op("Add", scores, mask)
    return net.op("MatMul", net.op("Softmax", scores, axis=-1), value)
