# SPDX-License-Identifier: Apache-2.0
"""Networks whose blocks hand one tensor to several convolutions side by side and join their results."""

import numpy as np

from convolution_blocks import classifier
from dense_architectures import conv_relu, max_pool
from network_builder import NetworkBuilder
from seeded_layers import class_output, image_input

# Channels of GoogLeNet's modules: 1x1; 1x1 before 3x3, 3x3; 1x1 before 5x5, 5x5; 1x1 behind the pool.
GOOGLENET_MODULES = (
    ("3a", (64, 96, 128, 16, 32, 32)), ("3b", (128, 128, 192, 32, 96, 64)), None,
    ("4a", (192, 96, 208, 16, 48, 64)), ("4b", (160, 112, 224, 24, 64, 64)), ("4c", (128, 128, 256, 24, 64, 64)),
    ("4d", (112, 144, 288, 32, 64, 64)), ("4e", (256, 160, 320, 32, 128, 128)), None,
    ("5a", (256, 160, 320, 32, 128, 128)), ("5b", (384, 192, 384, 48, 128, 128)))


def googlenet(seed=0, shallow=False, image=224):
    """GoogLeNet (Szegedy et al. 2014, arXiv:1409.4842) with BatchNormalization, without its auxiliary classifiers."""
    net = NetworkBuilder("googlenet", seed=seed)
    x = max_pool(net, conv_relu(net, image_input(net, image), (64, 3, 7, 7), "conv1", 2, input_variance=1.0))
    x = conv_relu(net, x, (64, 64, 1, 1), "conv2")
    x, channels = max_pool(net, conv_relu(net, x, (192, 64, 3, 3), "conv3")), 192
    for module in GOOGLENET_MODULES[:4] if shallow else GOOGLENET_MODULES:
        if module is None:
            x = max_pool(net, x)
            continue
        name, widths = module
        with net.scope(f"inception{name}"):
            x = inception(net, x, channels, *widths)
        channels = widths[0] + widths[2] + widths[4] + widths[5]
    return class_output(net, classifier(net, x, channels, 1000))


def inception(net, x, channels, single, before3, after3, before5, after5, pooled):
    """Four ways side by side: 1x1, 1x1 and 3x3, 1x1 and 5x5, pool and 1x1."""
    parts = [conv_relu(net, x, (single, channels, 1, 1), "branch1")]
    y = conv_relu(net, x, (before3, channels, 1, 1), "branch2.0")
    parts.append(conv_relu(net, y, (after3, before3, 3, 3), "branch2.1"))
    y = conv_relu(net, x, (before5, channels, 1, 1), "branch3.0")
    parts.append(conv_relu(net, y, (after5, before5, 5, 5), "branch3.1"))
    parts.append(conv_relu(net, max_pool(net, x, 3, 1), (pooled, channels, 1, 1), "branch4.1"))
    return net.op("Concat", *parts, axis=1)
