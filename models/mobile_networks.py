# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 and EfficientNet-B0: depthwise convolutions between pointwise ones."""

import dataclasses

import numpy as np

from activations import SILU_MEAN, SILU_VARIANCE, relu6, silu
from convolution_blocks import RELU_MEAN, RELU_VARIANCE, classifier, conv, conv_batch_norm
from network_builder import NetworkBuilder

# Mean square of the gates of squeeze and excitation, which lie about 1/2.
GATE_SQUARE = 0.26
RESIDUAL_GAIN = 0.5


@dataclasses.dataclass(frozen=True)
class Stage:
    """Repeated blocks: widening of the inner channels, outer channels, count, first stride."""

    expansion: int
    channels: int
    count: int
    stride: int
    kernel: int = 3


MOBILENET_V2 = (Stage(1, 16, 1, 1), Stage(6, 24, 2, 2), Stage(6, 32, 3, 2), Stage(6, 64, 4, 2),
                Stage(6, 96, 3, 1), Stage(6, 160, 3, 2), Stage(6, 320, 1, 1))
EFFICIENTNET_B0 = (Stage(1, 16, 1, 1), Stage(6, 24, 2, 2), Stage(6, 40, 2, 2, 5),
                   Stage(6, 80, 3, 2), Stage(6, 112, 3, 1, 5), Stage(6, 192, 4, 2, 5),
                   Stage(6, 320, 1, 1))


class InvertedResidualNetwork:
    """Builds a network of inverted residual blocks, with or without squeeze and excitation."""

    def __init__(self, name, stages, activation, mean, variance, squeeze, seed, fold):
        self.net_ = NetworkBuilder(name, seed=seed)
        self.stages_ = stages
        self.activation_ = activation
        self.mean_ = mean
        self.variance_ = variance
        self.squeeze_ = squeeze
        self.fold_ = fold

    def model(self, image=224):
        """Input `input` (batch, 3, image, image), output `output` (batch, 1000)."""
        net = self.net_
        x = net.input("input", np.float32, ["batch", 3, image, image])
        x = self._conv(x, (32, 3, 3, 3), "stem", stride=2, input_variance=1.0)
        x, channels, variance = self.activation_(net, x), 32, self.variance_
        for index, stage in enumerate(self.stages_):
            for repeat in range(stage.count):
                with net.scope(f"stage{index}"), net.scope(str(repeat)):
                    x = self._block(x, channels, stage, 1 if repeat else stage.stride, variance)
                channels = stage.channels
                variance = variance + RESIDUAL_GAIN ** 2 if repeat else 1.0
        x = self._conv(x, (1280, channels, 1, 1), "head", input_variance=variance)
        output = classifier(net, self.activation_(net, x), 1280, 1000)
        net.output("output", output, np.float32, ["batch", 1000])
        return net.model()

    def _block(self, x, channels, stage, stride, variance):
        """Widen 1x1 -> depthwise -> (gates) -> narrow 1x1, plus the identity where it fits."""
        net, shortcut, inner = self.net_, x, channels * stage.expansion
        if stage.expansion != 1:
            x = self._conv(x, (inner, channels, 1, 1), "expand", input_variance=variance)
            x = self.activation_(net, x)
        x = self._conv(x, (inner, 1, stage.kernel, stage.kernel), "depthwise", stride, inner,
                       input_variance=self.variance_, input_mean=self.mean_)
        x = self.activation_(net, x)
        variance = self.variance_
        if self.squeeze_:
            x, variance = self._gates(x, inner, max(1, channels // 4)), variance * GATE_SQUARE
        residual = stride == 1 and channels == stage.channels
        x = self._conv(x, (stage.channels, inner, 1, 1), "project", input_variance=variance,
                       gain=RESIDUAL_GAIN if residual else 1.0)
        return net.op("Add", shortcut, x) if residual else x

    def _gates(self, x, channels, squeezed):
        """Squeeze and excitation: a factor per channel from the image's averages."""
        net = self.net_
        with net.scope("squeeze"):
            gates = net.op("GlobalAveragePool", x)
            gates = silu(net, conv(net, gates, (squeezed, channels, 1, 1), "reduce"))
            gates = net.op("Sigmoid", conv(net, gates, (channels, squeezed, 1, 1), "expand"))
            return net.op("Mul", x, gates)

    def _conv(self, x, shape, name, stride=1, groups=1, **scaling):
        return conv_batch_norm(self.net_, x, shape, name, stride, groups, self.fold_, **scaling)


def mobilenet_v2(seed=0, fold_batch_norm=False):
    """MobileNetV2 of width 1 with random weights."""
    return InvertedResidualNetwork("mobilenet_v2", MOBILENET_V2, relu6, RELU_MEAN, RELU_VARIANCE,
                                   False, seed, fold_batch_norm).model()


def efficientnet_b0(seed=0, fold_batch_norm=False, shallow=False, image=224):
    """EfficientNet-B0 (Tan and Le 2019, arXiv:1905.11946): squeeze and excitation, SiLU."""
    stages = [dataclasses.replace(stage, count=min(stage.count, 2)) if shallow else stage
              for stage in EFFICIENTNET_B0]
    return InvertedResidualNetwork("efficientnet_b0", stages, silu, SILU_MEAN,
                                   SILU_VARIANCE, True, seed, fold_batch_norm).model(image)
