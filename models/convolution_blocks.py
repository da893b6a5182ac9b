# SPDX-License-Identifier: Apache-2.0
"""Convolution with BatchNorm and random weights under which different images stay different.

Each filter is drawn with mean zero over its inputs and a variance that keeps the activations'.
Without the first, the positive mean that ReLU leaves behind would grow with depth until the
output hardly depends on the image; without the second, activations would vanish or explode.
"""

import numpy as np

# Var(relu(z)) for z ~ N(0, 1) is 1/2 - 1/(2 pi): what a mean-free filter sees of a ReLU's output.
RELU_VARIANCE = 0.5 - 0.5 / np.pi
RELU_MEAN = np.sqrt(0.5 / np.pi)
BATCH_NORM_EPSILON = 1e-5


def scaled_filters(generator, shape, input_variance=RELU_VARIANCE):
    """Draws (out, in, ...) filters, each of mean zero, that keep the variance of their input.

    A depthwise filter keeps its mean, or it would pass edges only; BatchNorm removes what it adds.
    """
    filters = generator.standard_normal(shape, dtype=np.float32)
    axes = tuple(range(1, len(shape)))
    fan_in = int(np.prod(shape[1:]))
    if shape[1] == 1:
        return filters / np.float32(np.sqrt(fan_in * input_variance))
    filters -= filters.mean(axes, keepdims=True)
    return filters / np.float32(np.sqrt((fan_in - 1) * input_variance))


def conv(net, x, shape, name, stride=1, groups=1, padding=None, input_variance=RELU_VARIANCE):
    """A square convolution with bias; `shape` is (out, in per group, k, k)."""
    with net.scope(name):
        weight, bias = _filters(net, shape, input_variance), _random(net, "bias", shape[0], 0, 0.1)
        return _conv_node(net, x, weight, stride, groups, padding, bias)


def conv_batch_norm(net, x, shape, name, stride=1, groups=1, fold=False, gain=1.0,
                    input_variance=RELU_VARIANCE, input_mean=RELU_MEAN):
    """Conv without bias, then BatchNormalization; `fold` merges the second into the first.

    `gain` scales the result: below 1 for the last one of a residual branch, so that a deep sum of
    branches does not amplify rounding errors.
    """
    with net.scope(name):
        weight = _filters(net, shape, input_variance)
        scale = _random(net, "scale", shape[0], gain, 0.1 * gain)
        shift = _random(net, "bias", shape[0], 0, 0.1)
        mean = _random(net, "mean", shape[0], 0, 0.1)
        mean += weight.sum((1, 2, 3)) * np.float32(input_mean)
        variance = np.exp(_random(net, "variance", shape[0], 0, 0.1))
        if fold:
            factor = scale / np.sqrt(variance + np.float32(BATCH_NORM_EPSILON))
            weight = weight * factor[:, None, None, None]
            return _conv_node(net, x, weight, stride, groups, None, shift - mean * factor)
        result = _conv_node(net, x, weight, stride, groups, None)
        with net.scope("bn"):
            values = [net.weight("weight", scale), net.weight("bias", shift),
                      net.weight("running_mean", mean), net.weight("running_var", variance)]
            return net.op("BatchNormalization", result, *values, epsilon=BATCH_NORM_EPSILON,
                          momentum=0.9)


def classifier(net, x, channels, classes):
    """Global average, then a linear layer as Gemm: the head of every image network here."""
    pooled = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    with net.scope("fc"):
        weight = _filters(net, (classes, channels), RELU_VARIANCE)
        bias = _random(net, "bias", classes, 0, 0.1)
        return net.op("Gemm", pooled, net.weight("weight", weight), net.weight("bias", bias),
                      transB=1)


def _conv_node(net, x, weight, stride, groups, padding, bias=None):
    kernel = weight.shape[2]
    padding = (kernel - 1) // 2 if padding is None else padding
    tensors = [net.weight("weight", weight)]
    if bias is not None:
        tensors.append(net.weight("bias", bias))
    return net.op("Conv", x, *tensors, kernel_shape=[kernel, kernel], strides=[stride, stride],
                  pads=[padding] * 4, dilations=[1, 1], group=groups)


def _filters(net, shape, input_variance):
    return scaled_filters(net.random(net.path("weight")), shape, input_variance)


def _random(net, name, size, mean, deviation):
    normal = net.random(net.path(name)).standard_normal(size, dtype=np.float32)
    return np.float32(mean) + np.float32(deviation) * normal
