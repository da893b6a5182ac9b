# SPDX-License-Identifier: Apache-2.0
"""ResNets of bottleneck blocks: v1.5 (the stride in the 3x3 convolution), as torchvision's is exported, and v1 (in the
first 1x1), as MXNet's gluon has them."""

import math

import numpy as np

from convolution_blocks import classifier, conv_batch_norm
from network_builder import NetworkBuilder

# Variance of the sum that the next block sees: of the identity, and of a branch of gain 1/2.
RESIDUAL_GAIN = 0.5


def resnet(name, depths, width=64, expansion=4, image=224, classes=1000, seed=0,
           fold_batch_norm=False, version="v1.5", gain=RESIDUAL_GAIN):
    """Builds a bottleneck ResNet; input `input` (batch, 3, image, image), output `output`. `gain`: of each branch."""
    net = NetworkBuilder(name, seed=seed)
    x = net.input("input", np.float32, ["batch", 3, image, image])
    with net.scope("stem"):
        x = conv_batch_norm(net, x, (width, 3, 7, 7), "conv", stride=2, fold=fold_batch_norm,
                            input_variance=1.0)
        x = net.op("Relu", x)
        x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
                   dilations=[1, 1], ceil_mode=0)
    channels = width
    for stage, depth in enumerate(depths):
        inner = width << stage
        for index in range(depth):
            with net.scope(f"layer{stage + 1}"), net.scope(str(index)):
                stride = 2 if stage and index == 0 else 1
                strides = (stride, 1) if version == "v1" else (1, stride)
                x = bottleneck(net, x, channels, inner, inner * expansion, strides, fold_batch_norm, gain)
            channels = inner * expansion
    net.output("output", classifier(net, x, channels, classes), np.float32, ["batch", classes])
    return net.model()


def bottleneck(net, x, channels, inner, outer, strides, fold, gain):
    """relu(1x1 -> 3x3 -> 1x1 + shortcut), the shortcut projected where the size changes; strides of the first two."""
    stride = strides[0] * strides[1]
    y = net.op("Relu", conv_batch_norm(net, x, (inner, channels, 1, 1), "conv1", strides[0], fold=fold))
    y = net.op("Relu", conv_batch_norm(net, y, (inner, inner, 3, 3), "conv2", strides[1], fold=fold))
    y = conv_batch_norm(net, y, (outer, inner, 1, 1), "conv3", fold=fold, gain=gain)
    if stride != 1 or channels != outer:
        x = conv_batch_norm(net, x, (outer, channels, 1, 1), "downsample", stride, fold=fold)
    return net.op("Relu", net.op("Add", y, x))


def resnet50(seed=0, fold_batch_norm=False):
    """ResNet-50 v1.5 with random weights."""
    return resnet("resnet50", (3, 4, 6, 3), seed=seed, fold_batch_norm=fold_batch_norm)


def resnet_v1(name, depths, seed):
    """A ResNet v1 whose branches add together as much variance as there is, however many they are: a rounding error
    stays one, and models of less precision can be judged by their results."""
    return resnet(name, depths, seed=seed, version="v1", gain=1 / math.sqrt(sum(depths)))


def resnet50_v1(seed=0):
    """ResNet-50 v1 with random weights."""
    return resnet_v1("resnet50_v1", (3, 4, 6, 3), seed)


def resnet152_v1(seed=0):
    """ResNet-152 v1 with random weights."""
    return resnet_v1("resnet152_v1", (3, 8, 36, 3), seed)


def tiny_cnn(seed=0, fold_batch_norm=False):
    """The same blocks for tests: two stages of 8 and 16 channels on 32x32 images."""
    return resnet("tiny_cnn", (2, 1), width=8, expansion=2, image=32, classes=10, seed=seed,
                  fold_batch_norm=fold_batch_norm)
