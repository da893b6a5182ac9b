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


def conv(net, x, shape, name, stride=1, groups=1, padding=None, input_variance=RELU_VARIANCE,
         dilation=1, bias=True):
    """A convolution of equal sides, with bias; `shape` is (out, in per group, k, k), or (out, in per group, k)."""
    with net.scope(name):
        weight = _filters(net, shape, input_variance)
        shift = _random(net, "bias", shape[0], 0, 0.1) if bias else None
        return _conv_node(net, x, weight, stride, groups, padding, shift, dilation)


def transposed_conv(net, x, shape, name, stride, padding=0, input_variance=RELU_VARIANCE, bias=True):
    """A transposed convolution of equal sides; `shape` is (in, out, k, k), or (in, out, k)."""
    with net.scope(name):
        # Each result sums the inputs of a window as large as its stride allows.
        turned = (shape[1], shape[0], *shape[2:])
        gain = np.float32(np.sqrt(stride ** (len(shape) - 2)))
        weight = np.ascontiguousarray(_filters(net, turned, input_variance).swapaxes(0, 1)) * gain
        tensors = [net.weight("weight", weight)]
        if bias:
            tensors.append(net.weight("bias", _random(net, "bias", shape[1], 0, 0.1)))
        axes = len(shape) - 2
        return net.op("ConvTranspose", x, *tensors, kernel_shape=list(shape[2:]), group=1,
                      strides=[stride] * axes, pads=[padding] * (2 * axes), dilations=[1] * axes)


def conv_batch_norm(net, x, shape, name, stride=1, groups=1, fold=False, gain=1.0,
                    input_variance=RELU_VARIANCE, input_mean=RELU_MEAN, dilation=1):
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
            return _conv_node(net, x, weight, stride, groups, None, shift - mean * factor, dilation)
        result = _conv_node(net, x, weight, stride, groups, None, dilation=dilation)
        return _batch_norm_node(net, result, scale, shift, mean, variance)


def batch_norm(net, x, channels, name, gain=1.0, mean=0.0):
    """BatchNormalization of what has variance one and the mean given."""
    with net.scope(name):
        return _batch_norm_node(net, x, _random(net, "scale", channels, gain, 0.1 * gain),
                                _random(net, "bias", channels, 0, 0.1),
                                _random(net, "mean", channels, mean, 0.1),
                                np.exp(_random(net, "variance", channels, 0, 0.1)))


def classifier(net, x, channels, classes):
    """Global average, then a linear layer as Gemm: the head of every image network here."""
    pooled = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    with net.scope("fc"):
        weight = _filters(net, (classes, channels), RELU_VARIANCE)
        bias = _random(net, "bias", classes, 0, 0.1)
        return net.op("Gemm", pooled, net.weight("weight", weight), net.weight("bias", bias),
                      transB=1)


def _batch_norm_node(net, x, scale, shift, mean, variance):
    with net.scope("bn"):
        values = [net.weight("weight", scale), net.weight("bias", shift),
                  net.weight("running_mean", mean), net.weight("running_var", variance)]
        return net.op("BatchNormalization", x, *values, epsilon=BATCH_NORM_EPSILON, momentum=0.9)


def _conv_node(net, x, weight, stride, groups, padding, bias=None, dilation=1):
    kernel, axes = weight.shape[2], weight.ndim - 2
    padding = dilation * (kernel - 1) // 2 if padding is None else padding
    tensors = [net.weight("weight", weight)]
    if bias is not None:
        tensors.append(net.weight("bias", bias))
    return net.op("Conv", x, *tensors, kernel_shape=[kernel] * axes, strides=[stride] * axes,
                  pads=[padding] * (2 * axes), dilations=[dilation] * axes, group=groups)


def _filters(net, shape, input_variance):
    return scaled_filters(net.random(net.path("weight")), shape, input_variance)


def _random(net, name, size, mean, deviation):
    normal = net.random(net.path(name)).standard_normal(size, dtype=np.float32)
    return np.float32(mean) + np.float32(deviation) * normal
