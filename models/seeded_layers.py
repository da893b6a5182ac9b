# SPDX-License-Identifier: Apache-2.0
"""Layers with seeded random weights that keep unit variance, as PyTorch's exporter writes them, and what architectures
do with axes: heads, images as tokens, windows' rolls."""

import math

import numpy as np

from activations import gelu
from transformer_blocks import layer_norm, linear

# Widens random queries and keys: attention scores then vary by about 4, so that each token looks
# at few others. With flat attention all tokens, and all inputs, would drift to one average.
SHARPNESS = 2.0


def random_array(net, name, shape, fan_in=None, gain=1.0):
    """Normal values of the stream that belongs to a weight of the current scope; variance gain^2 / fan_in."""
    fan_in = fan_in or int(np.prod(shape[1:]))
    normal = net.random(net.path(name)).standard_normal(shape, dtype=np.float32)
    return normal * np.float32(gain / np.sqrt(fan_in))


def small_array(net, name, shape, mean=0.0):
    """Values within about 0.1 of `mean`: biases and scales."""
    return np.float32(mean) + random_array(net, name, shape, fan_in=100)


def parameter(net, name, array):
    """A weight of the current scope."""
    return net.weight(name, np.asarray(array, np.float32))


def linear_layer(net, x, fan_in, fan_out, name, gain=1.0, bias=True):
    """nn.Linear: MatMul by the transposed weight and Add of the bias; `gain` may be one number for each result."""
    with net.scope(name):
        weight = random_array(net, "weight", (fan_out, fan_in)) * np.float32(gain if np.isscalar(gain)
                                                                             else np.reshape(gain, (-1, 1)))
        if not bias:
            return net.op("MatMul", x, net.weight("weight_transposed", weight.T))
        shift = small_array(net, "bias", fan_out)
    return linear(net, x, weight, shift, name)


def gemm_layer(net, x, fan_in, fan_out, name):
    """nn.Linear over a matrix: Gemm."""
    with net.scope(name):
        weight = parameter(net, "weight", random_array(net, "weight", (fan_out, fan_in)))
        return net.op("Gemm", x, weight, parameter(net, "bias", small_array(net, "bias", fan_out)), transB=1)


def norm_layer(net, x, channels, name, epsilon=1e-5):
    """nn.LayerNorm over the last axis: one node."""
    with net.scope(name):
        scale, shift = small_array(net, "weight", channels, 1.0), small_array(net, "bias", channels)
    return layer_norm(net, x, scale, shift, epsilon, name, True)


def rms_norm(net, x, channels, name, epsilon=1e-6):
    """x / sqrt(mean(x^2)) * weight."""
    with net.scope(name):
        squares = net.op("ReduceMean", net.op("Pow", x, net.constant(2.0)), net.constant([-1], np.int64), keepdims=1)
        root = net.op("Sqrt", net.op("Add", squares, net.constant(epsilon)))
        normal = net.op("Mul", x, net.op("Reciprocal", root))
        return net.op("Mul", parameter(net, "weight", small_array(net, "weight", channels, 1.0)), normal)


def channels_norm(net, x, channels, name, epsilon=1e-6):
    """LayerNorm over the channels of an image: it lies with channels last meanwhile."""
    x = norm_layer(net, net.op("Transpose", x, perm=[0, 2, 3, 1]), channels, name, epsilon)
    return net.op("Transpose", x, perm=[0, 3, 1, 2])


def group_norm(net, x, channels, groups, name, axes=2, epsilon=1e-5):
    """nn.GroupNorm as it is exported: InstanceNormalization of one row for each group, then scale and shift."""
    with net.scope(name):
        rows = net.op("Reshape", x, net.constant([0, groups, -1], np.int64))
        one, zero = parameter(net, "one", np.ones(groups)), parameter(net, "zero", np.zeros(groups))
        rows = net.op("InstanceNormalization", rows, one, zero, epsilon=epsilon)
        x = net.op("Reshape", rows, net.op("Shape", x))
        shape = (channels, *[1] * axes)
        scaled = net.op("Mul", x, parameter(net, "weight", small_array(net, "weight", shape, 1.0)))
        return net.op("Add", scaled, parameter(net, "bias", small_array(net, "bias", shape)))


def mlp(net, x, channels, inner, name="mlp", activation=gelu):
    """Two linear layers with an activation between."""
    with net.scope(name):
        return linear_layer(net, activation(net, linear_layer(net, x, channels, inner, "fc1")), inner, channels, "fc2")


def layer_scale(net, x, channels, name, shape=None):
    """A factor for each channel, small enough that a deep sum of branches stays tame."""
    return net.op("Mul", parameter(net, name, small_array(net, name, shape or channels, 0.5)), x)


def joint_heads(net, x, channels, heads, name="qkv", parts=3, order=(2, 0, 3, 1, 4), sharpness=SHARPNESS):
    """One product gives queries, keys and values; (batch, length, channels) -> each of (batch, heads, length, size)."""
    gains = np.repeat([sharpness] * min(2, parts - 1) + [1.0] * (parts - min(2, parts - 1)), channels)
    joint = linear_layer(net, x, channels, parts * channels, name, gains)
    joint = net.reshape(joint, [net.size(joint, 0), net.size(joint, 1), parts, heads, channels // heads])
    joint = net.op("Transpose", joint, perm=list(order))
    return [net.op("Gather", joint, net.constant(part, np.int64), axis=0) for part in range(parts)]


def split_heads(net, x, heads, size, order=(0, 2, 1, 3)):
    """(batch, length, heads * size) -> one matrix for each head."""
    split = net.reshape(x, [net.size(x, 0), net.size(x, 1), heads, size])
    return net.op("Transpose", split, perm=list(order))


def merge_heads(net, x, channels):
    """(batch, heads, length, size) -> (batch, length, channels)."""
    x = net.op("Transpose", x, perm=[0, 2, 1, 3])
    return net.reshape(x, [net.size(x, 0), net.size(x, 1), channels])


def last_transposed(net, x):
    """Keys as the second operand of a product: the last two of four axes change places."""
    return net.op("Transpose", x, perm=[0, 1, 3, 2])


def scaled(net, x, factor):
    """x times a number."""
    return net.op("Mul", x, net.constant(factor))


def unit_length(net, x, axis=-1):
    """F.normalize: x / max(|x|, 1e-12)."""
    length = net.op("ReduceL2", x, net.constant([axis], np.int64), keepdims=1)
    length = net.op("Clip", length, net.constant(1e-12))
    return net.op("Div", x, net.op("Expand", length, net.op("Shape", x)))


def tokens_of(net, image, channels):
    """(batch, channels, height, width) -> (batch, height * width, channels)."""
    rows = net.reshape(image, [net.size(image, 0), channels, -1])
    return net.op("Transpose", rows, perm=[0, 2, 1])


def image_of(net, tokens, channels, height, width):
    """The way back of tokens_of."""
    rows = net.op("Transpose", tokens, perm=[0, 2, 1])
    return net.reshape(rows, [net.size(tokens, 0), channels, height, width])


def sliced(net, x, axis, start, end, step=1):
    """x[start:end:step] along one axis."""
    parts = [net.constant([value], np.int64) for value in (start, end, axis, step)]
    return net.op("Slice", x, *parts)


def roll(net, x, shift, axes):
    """torch.roll: two slices of each axis in exchanged order."""
    for axis in axes:
        x = net.op("Concat", sliced(net, x, axis, -shift, np.iinfo(np.int64).max), sliced(net, x, axis, 0, -shift),
                   axis=axis)
    return x


def prepend_token(net, x, channels, name="cls_token"):
    """A learnt token before all others."""
    token = parameter(net, name, small_array(net, name, (1, 1, channels)))
    sizes = [net.op("Unsqueeze", net.size(x, 0), net.constant([0], np.int64)),
             net.constant([1], np.int64), net.constant([channels], np.int64)]
    return net.op("Concat", net.op("Expand", token, net.op("Concat", *sizes, axis=0)), x, axis=1)


def first_token(net, x):
    """The token that stands for the whole."""
    return net.op("Gather", x, net.constant(0, np.int64), axis=1)


def scale_of_heads(size):
    """What products of queries and keys are multiplied by."""
    return 1.0 / math.sqrt(size)


def image_input(net, side):
    """Input `input`: (batch, 3, side, side)."""
    return net.input("input", np.float32, ["batch", 3, side, side])


def class_output(net, x, classes=1000):
    """Output `output`: (batch, classes)."""
    net.output("output", x, np.float32, ["batch", classes])
    return net.model()
