# SPDX-License-Identifier: Apache-2.0
"""Networks of depthwise convolutions: MobileNetV3 with hard-swish and gates, ShuffleNetV2 with channel shuffles."""

import dataclasses

import numpy as np

from activations import HARD_SWISH_MEAN, HARD_SWISH_VARIANCE, hard_swish, relu
from convolution_blocks import RELU_MEAN, RELU_VARIANCE, conv, conv_batch_norm
from network_builder import NetworkBuilder
from seeded_layers import class_output, gemm_layer, image_input

# Mean square of hard sigmoid's gates, which lie about 1/2.
GATE_SQUARE = 0.26
RESIDUAL_GAIN = 0.5
MOMENTS = {relu: (RELU_MEAN, RELU_VARIANCE), hard_swish: (HARD_SWISH_MEAN, HARD_SWISH_VARIANCE)}


@dataclasses.dataclass(frozen=True)
class Bottleneck:
    """One row of MobileNetV3's table."""

    kernel: int
    inner: int
    channels: int
    squeezes: bool
    activation: object
    stride: int


MOBILENET_V3_LARGE = tuple(Bottleneck(*row) for row in (
    (3, 16, 16, False, relu, 1), (3, 64, 24, False, relu, 2), (3, 72, 24, False, relu, 1),
    (5, 72, 40, True, relu, 2), (5, 120, 40, True, relu, 1), (5, 120, 40, True, relu, 1),
    (3, 240, 80, False, hard_swish, 2), (3, 200, 80, False, hard_swish, 1), (3, 184, 80, False, hard_swish, 1),
    (3, 184, 80, False, hard_swish, 1), (3, 480, 112, True, hard_swish, 1), (3, 672, 112, True, hard_swish, 1),
    (5, 672, 160, True, hard_swish, 2), (5, 960, 160, True, hard_swish, 1), (5, 960, 160, True, hard_swish, 1)))


def mobilenet_v3_large(seed=0, shallow=False, image=224):
    """MobileNetV3-Large (Howard et al. 2019, arXiv:1905.02244)."""
    net = NetworkBuilder("mobilenet_v3_large", seed=seed)
    x = conv_batch_norm(net, image_input(net, image), (16, 3, 3, 3), "stem", 2, input_variance=1.0)
    x, channels, variance = hard_swish(net, x), 16, HARD_SWISH_VARIANCE
    for index, row in enumerate(MOBILENET_V3_LARGE):
        if shallow and index and row == MOBILENET_V3_LARGE[index - 1]:
            continue
        with net.scope(f"features.{index + 1}"):
            residual = row.stride == 1 and channels == row.channels
            x = _bottleneck(net, x, channels, row, residual, variance)
        variance = variance + RESIDUAL_GAIN ** 2 if residual else 1.0
        channels = row.channels
    x = hard_swish(net, conv_batch_norm(net, x, (960, channels, 1, 1), "head", input_variance=variance))
    x = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    x = hard_swish(net, gemm_layer(net, x, 960, 1280, "classifier.0"))
    return class_output(net, gemm_layer(net, x, 1280, 1000, "classifier.3"))


def _bottleneck(net, x, channels, row, residual, variance):
    """Widen 1x1 -> depthwise -> (gates) -> narrow 1x1."""
    shortcut, (mean, kept) = x, MOMENTS[row.activation]
    if row.inner != channels:
        x = conv_batch_norm(net, x, (row.inner, channels, 1, 1), "expand", input_variance=variance)
        x, variance = row.activation(net, x), kept
    x = conv_batch_norm(net, x, (row.inner, 1, row.kernel, row.kernel), "depthwise", row.stride, row.inner,
                        input_variance=variance, input_mean=mean)
    x, variance = row.activation(net, x), kept
    if row.squeezes:
        squeezed = max(8, (row.inner // 4 + 4) // 8 * 8)
        squeezed += 8 if squeezed < 0.9 * (row.inner // 4) else 0
        x, variance = _gates(net, x, row.inner, squeezed), variance * GATE_SQUARE
    x = conv_batch_norm(net, x, (row.channels, row.inner, 1, 1), "project", input_variance=variance,
                        gain=RESIDUAL_GAIN if residual else 1.0)
    return net.op("Add", shortcut, x) if residual else x


def _gates(net, x, channels, squeezed):
    """Squeeze and excitation by ReLU and hard sigmoid."""
    with net.scope("squeeze"):
        gates = relu(net, conv(net, net.op("GlobalAveragePool", x), (squeezed, channels, 1, 1), "fc1"))
        gates = conv(net, gates, (channels, squeezed, 1, 1), "fc2")
        return net.op("Mul", net.op("HardSigmoid", gates, alpha=1 / 6, beta=0.5), x)


def shufflenet_v2(seed=0, shallow=False, image=224):
    """ShuffleNetV2 x1.0 (Ma et al. 2018, arXiv:1807.11164)."""
    net = NetworkBuilder("shufflenet_v2", seed=seed)
    x = conv_batch_norm(net, image_input(net, image), (24, 3, 3, 3), "conv1", 2, input_variance=1.0)
    x = net.op("MaxPool", relu(net, x), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 24
    for stage, (outer, count) in enumerate(((116, 4), (232, 8), (464, 4)), 2):
        for index in range(2 if shallow else count):
            with net.scope(f"stage{stage}"), net.scope(str(index)):
                x = _shuffled_unit(net, x, channels, outer, 1 if index else 2)
            channels = outer
    x = relu(net, conv_batch_norm(net, x, (1024, channels, 1, 1), "conv5"))
    x = net.op("ReduceMean", x, net.constant([2, 3], np.int64), keepdims=0)
    return class_output(net, gemm_layer(net, x, 1024, 1000, "fc"))


def _shuffled_unit(net, x, channels, outer, stride):
    """Half of the channels passes by (or through a branch of its own), then both halves are interleaved."""
    half = outer // 2
    if stride == 1:
        first, x = net.op("Split", x, outputs=2, axis=1, num_outputs=2)
        inner = half
    else:
        inner = channels
        first = conv_batch_norm(net, x, (channels, 1, 3, 3), "branch1.0", stride, channels)
        first = relu(net, conv_batch_norm(net, first, (half, channels, 1, 1), "branch1.2", input_variance=1.0,
                                          input_mean=0.0))
    x = relu(net, conv_batch_norm(net, x, (half, inner, 1, 1), "branch2.0"))
    x = conv_batch_norm(net, x, (half, 1, 3, 3), "branch2.3", stride, half)
    x = relu(net, conv_batch_norm(net, x, (half, half, 1, 1), "branch2.5", input_variance=1.0, input_mean=0.0))
    return channel_shuffle(net, net.op("Concat", first, x, axis=1), outer, 2)


def channel_shuffle(net, x, channels, groups):
    """(groups, channels / groups) of channels change places."""
    height, width = net.size(x, 2), net.size(x, 3)
    x = net.reshape(x, [net.size(x, 0), groups, channels // groups, height, width])
    x = net.op("Transpose", x, perm=[0, 2, 1, 3, 4])
    return net.reshape(x, [net.size(x, 0), channels, height, width])
