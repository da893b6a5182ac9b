# SPDX-License-Identifier: Apache-2.0
"""Activation functions as PyTorch's exporter writes them, and what they leave of a standard normal value."""

import math

# Mean and variance of f(z) for z ~ N(0, 1).
SILU_MEAN, SILU_VARIANCE = 0.207, 0.313
HARD_SWISH_MEAN, HARD_SWISH_VARIANCE = 0.166, 0.305
GELU_MEAN, GELU_VARIANCE = 0.282, 0.345


def relu(net, x):
    """max(x, 0)."""
    return net.op("Relu", x)


def relu6(net, x):
    """Clip to 0..6."""
    return net.op("Clip", x, net.constant(0.0), net.constant(6.0))


def silu(net, x):
    """x * sigmoid(x)."""
    return net.op("Mul", x, net.op("Sigmoid", x))


def hard_swish(net, x):
    """x * clip(x + 3, 0, 6) / 6."""
    return net.op("HardSwish", x)


def gelu(net, x, fused=False):
    """Exact GELU: one node, or x * (1 + erf(x / sqrt 2)) * 0.5."""
    if fused:
        return net.op("Gelu", x)
    error = net.op("Erf", net.op("Div", x, net.constant(math.sqrt(2.0))))
    product = net.op("Mul", x, net.op("Add", error, net.constant(1.0)))
    return net.op("Mul", product, net.constant(0.5))
