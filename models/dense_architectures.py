# SPDX-License-Identifier: Apache-2.0
"""Networks of full convolutions that are not chains: dense concatenation, several resolutions, dilation, transposed
convolutions, and other normalisations than BatchNormalization."""

import numpy as np

from activations import relu
from convolution_blocks import batch_norm, classifier, conv, conv_batch_norm, transposed_conv
from network_builder import NetworkBuilder
from resnet import RESIDUAL_GAIN
from seeded_layers import class_output, group_norm, image_input, parameter, random_array, small_array

HALF_PIXELS = {"mode": "linear", "coordinate_transformation_mode": "half_pixel", "cubic_coeff_a": -0.75}
NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def conv_relu(net, x, shape, name, stride=1, **rest):
    """Convolution, BatchNormalization, ReLU."""
    return relu(net, conv_batch_norm(net, x, shape, name, stride, **rest))


def max_pool(net, x, kernel=3, stride=2, padding=1):
    """A square window's largest."""
    return net.op("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[padding] * 4)


def resized(net, x, scale, how):
    """Enlarged by a whole factor."""
    return net.op("Resize", x, "", net.constant([1, 1, scale, scale]), **how)


def densenet121(seed=0, shallow=False, image=224):
    """DenseNet-121 (Huang et al. 2017, arXiv:1608.06993)."""
    net, growth = NetworkBuilder("densenet121", seed=seed), 32
    x = max_pool(net, conv_relu(net, image_input(net, image), (64, 3, 7, 7), "conv0", 2, input_variance=1.0))
    channels = 64
    for block, count in enumerate((6, 12, 24, 16), 1):
        for index in range(min(count, 3) if shallow else count):
            with net.scope(f"block{block}"), net.scope(f"layer{index}"):
                y = relu(net, batch_norm(net, x, channels, "norm1"))
                y = conv_relu(net, y, (4 * growth, channels, 1, 1), "conv1")
                y = conv(net, y, (growth, 4 * growth, 3, 3), "conv2", bias=False)
                x = net.op("Concat", x, y, axis=1)
            channels += growth
        if block < 4:
            with net.scope(f"transition{block}"):
                x = relu(net, batch_norm(net, x, channels, "norm"))
                x = conv(net, x, (channels // 2, channels, 1, 1), "conv", bias=False)
                x = net.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
            channels //= 2
    x = relu(net, batch_norm(net, x, channels, "norm5"))
    return class_output(net, classifier(net, x, channels, 1000))


def bottleneck(net, x, channels, inner, outer, stride=1, dilation=1):
    """relu(1x1 -> 3x3 -> 1x1 + shortcut)."""
    y = conv_relu(net, x, (inner, channels, 1, 1), "conv1")
    y = conv_relu(net, y, (inner, inner, 3, 3), "conv2", stride, dilation=dilation)
    y = conv_batch_norm(net, y, (outer, inner, 1, 1), "conv3", gain=RESIDUAL_GAIN)
    if stride != 1 or channels != outer:
        x = conv_batch_norm(net, x, (outer, channels, 1, 1), "downsample", stride)
    return relu(net, net.op("Add", y, x))


def deeplab_v3(seed=0, shallow=False, image=224):
    """DeepLabV3 over ResNet-50 with dilated last stages (Chen et al. 2017, arXiv:1706.05587)."""
    net = NetworkBuilder("deeplab_v3", seed=seed)
    x = max_pool(net, conv_relu(net, image_input(net, image), (64, 3, 7, 7), "conv1", 2, input_variance=1.0))
    channels = 64
    stages = ((64, 3, 1, 1, 1), (128, 4, 2, 1, 1), (256, 6, 1, 1, 2), (512, 3, 1, 2, 4))
    for stage, (inner, count, stride, first_dilation, dilation) in enumerate(stages, 1):
        for index in range(2 if shallow else count):
            with net.scope(f"layer{stage}"), net.scope(str(index)):
                x = bottleneck(net, x, channels, inner, 4 * inner, 1 if index else stride,
                               dilation if index else first_dilation)
            channels = 4 * inner
    with net.scope("classifier"):
        x = _pyramid(net, x, channels)
        x = conv_relu(net, x, (256, 256, 3, 3), "head.1")
        x = conv(net, x, (21, 256, 1, 1), "head.4")
    x = resized(net, x, 8, HALF_PIXELS)
    net.output("output", x, np.float32, ["batch", 21, image, image])
    return net.model()


def _pyramid(net, x, channels):
    """Atrous spatial pyramid pooling: windows of several dilations, and the whole image's average."""
    parts = [conv_relu(net, x, (256, channels, 1, 1), "aspp.0")]
    for index, rate in enumerate((12, 24, 36), 1):
        parts.append(conv_relu(net, x, (256, channels, 3, 3), f"aspp.{index}", dilation=rate))
    pooled = conv_relu(net, net.op("GlobalAveragePool", x), (256, channels, 1, 1), "aspp.4")
    sizes = net.op("Slice", net.op("Shape", x), net.constant([2], np.int64), net.constant([4], np.int64),
                   net.constant([0], np.int64))
    batch = net.op("Slice", net.op("Shape", pooled), net.constant([0], np.int64), net.constant([2], np.int64),
                   net.constant([0], np.int64))
    parts.append(net.op("Resize", pooled, "", "", net.op("Concat", batch, sizes, axis=0), **HALF_PIXELS))
    return conv_relu(net, net.op("Concat", *parts, axis=1), (256, 5 * 256, 1, 1), "project")


def unet(seed=0, shallow=False, image=256):
    """U-Net (Ronneberger et al. 2015, arXiv:1505.04597) of width 32, as in Buda et al. 2019, arXiv:1906.03720."""
    net, width = NetworkBuilder("unet", seed=seed), 32
    x, channels, kept, variance = image_input(net, image), 3, [], 1.0
    for level in range(5):
        with net.scope(f"encoder{level + 1}"):
            outer = width << level
            x = conv_relu(net, x, (outer, channels, 3, 3), "conv1", input_variance=variance)
            x = conv_relu(net, x, (outer, outer, 3, 3), "conv2")
        channels, variance = outer, 0.341
        if level < 4:
            kept.append(x)
            x = max_pool(net, x, 2, 2, 0)
    for level in reversed(range(4)):
        with net.scope(f"decoder{level + 1}"):
            outer = width << level
            x = transposed_conv(net, x, (channels, outer, 2, 2), "up", 2)
            x = net.op("Concat", x, kept[level], axis=1)
            x = conv_relu(net, x, (outer, 2 * outer, 3, 3), "conv1", input_variance=0.7)
            x = conv_relu(net, x, (outer, outer, 3, 3), "conv2")
            channels = outer
    x = net.op("Sigmoid", conv(net, x, (1, width, 1, 1), "conv"))
    net.output("output", x, np.float32, ["batch", 1, image, image])
    return net.model()


def hrnet_w18_small(seed=0, shallow=False, image=224):
    """HRNet-W18-Small (Sun et al. 2019, arXiv:1902.09212): up to four resolutions side by side."""
    net, widths = NetworkBuilder("hrnet_w18_small", seed=seed), (16, 32, 64, 128)
    x = conv_relu(net, image_input(net, image), (64, 3, 3, 3), "conv1", 2, input_variance=1.0)
    x = conv_relu(net, x, (64, 64, 3, 3), "conv2", 2)
    with net.scope("layer1"):
        x = bottleneck(net, x, 64, 32, 128)
    branches, channels = [x], [128]
    for stage in range(2, 5):
        with net.scope(f"stage{stage}"):
            branches = _widened(net, branches, channels, widths[:stage])
            channels = list(widths[:stage])
            branches = [_basic_blocks(net, branch, width, index, 1 if shallow else 2)
                        for index, (branch, width) in enumerate(zip(branches, channels))]
            branches = _exchanged(net, branches, channels)
    with net.scope("head"):
        outer = (128, 256, 512, 1024)
        for index, branch in enumerate(branches):
            with net.scope(f"increase{index}"):
                branch = bottleneck(net, branch, widths[index], outer[index] // 4, outer[index])
            if index:
                with net.scope(f"down{index}"):
                    down = conv(net, x, (outer[index], outer[index - 1], 3, 3), "conv", 2)
                    down = relu(net, batch_norm(net, down, outer[index], "norm"))
                branch = net.op("Add", branch, down)
            x = branch
        x = conv(net, x, (2048, 1024, 1, 1), "final", input_variance=0.7)
        x = relu(net, batch_norm(net, x, 2048, "norm"))
    return class_output(net, classifier(net, x, 2048, 1000))


def _widened(net, branches, channels, widths):
    """Each branch at its width; a new one of half the resolution from the last."""
    result = []
    for index, width in enumerate(widths):
        with net.scope(f"transition{index}"):
            if index == len(branches):
                result.append(conv_relu(net, branches[-1], (width, channels[-1], 3, 3), "conv", 2))
            elif channels[index] != width:
                result.append(conv_relu(net, branches[index], (width, channels[index], 3, 3), "conv"))
            else:
                result.append(branches[index])
    return result


def _basic_blocks(net, x, width, branch, count):
    for index in range(count):
        with net.scope(f"branch{branch}"), net.scope(str(index)):
            y = conv_relu(net, x, (width, width, 3, 3), "conv1")
            y = conv_batch_norm(net, y, (width, width, 3, 3), "conv2", gain=RESIDUAL_GAIN)
            x = relu(net, net.op("Add", y, x))
    return x


def _exchanged(net, branches, widths):
    """Each resolution gets the sum of all: lower ones enlarged, higher ones by strided convolutions."""
    result = []
    for to, width in enumerate(widths):
        total = None
        for index, x in enumerate(branches):
            with net.scope(f"fuse{to}.{index}"):
                if index > to:
                    x = conv_batch_norm(net, x, (width, widths[index], 1, 1), "conv", gain=RESIDUAL_GAIN)
                    x = resized(net, x, 1 << (index - to), NEAREST)
                for step in range(to - index):
                    last = step == to - index - 1
                    x = conv_batch_norm(net, x, (width if last else widths[index], widths[index], 3, 3),
                                        f"down{step}", 2, gain=RESIDUAL_GAIN if last else 1.0)
                    x = x if last else relu(net, x)
            total = x if total is None else net.op("Add", total, x)
        result.append(relu(net, total))
    return result


def bit_r50x1(seed=0, shallow=False, image=224):
    """BiT-S ResNet-50x1 v2: group normalisation, standardised weights (Kolesnikov et al. 2020, arXiv:1912.11370)."""
    net = NetworkBuilder("bit_r50x1", seed=seed)
    # The pool pads by itself: zeros of a Pad before it, as published, ONNX Runtime 1.31 folds into it, where they
    # are no zeros any more.
    x = max_pool(net, _standardised_conv(net, image_input(net, image), (64, 3, 7, 7), "stem.conv", 2))
    channels = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        inner, outer = 64 << stage, 256 << stage
        for index in range(2 if shallow else count):
            with net.scope(f"stages.{stage}"), net.scope(f"blocks.{index}"):
                stride = 2 if stage and index == 0 else 1
                y = relu(net, group_norm(net, x, channels, 32, "norm1"))
                if index == 0:
                    x = _standardised_conv(net, y, (outer, channels, 1, 1), "downsample", stride)
                y = relu(net, group_norm(net, _standardised_conv(net, y, (inner, channels, 1, 1), "conv1"),
                                         inner, 32, "norm2"))
                y = relu(net, group_norm(net, _standardised_conv(net, y, (inner, inner, 3, 3), "conv2", stride),
                                         inner, 32, "norm3"))
                x = net.op("Add", _standardised_conv(net, y, (outer, inner, 1, 1), "conv3"), x)
            channels = outer
    x = relu(net, group_norm(net, x, channels, 32, "norm"))
    x = conv(net, net.op("GlobalAveragePool", x), (1000, channels, 1, 1), "head.fc")
    return class_output(net, net.op("Flatten", x, axis=1))


def _standardised_conv(net, x, shape, name, stride=1):
    """A convolution whose filters get mean 0 and variance 1 / fan-in as they are read, spelled out in the graph."""
    kernel, fan_in = shape[2], int(np.prod(shape[1:]))
    with net.scope(name):
        weight = parameter(net, "weight", random_array(net, "weight", shape))
        axes = net.constant([1, 2, 3], np.int64)
        centered = net.op("Sub", weight, net.op("ReduceMean", weight, axes, keepdims=1))
        variance = net.op("ReduceMean", net.op("Mul", centered, centered), axes, keepdims=1)
        scale = net.op("Sqrt", net.op("Mul", net.op("Add", variance, net.constant(1e-8)), net.constant(float(fan_in))))
        return net.op("Conv", x, net.op("Div", centered, scale), kernel_shape=[kernel] * 2, strides=[stride] * 2,
                      pads=[(kernel - 1) // 2] * 4, dilations=[1, 1], group=1)


def style_transfer(seed=0, shallow=False, image=224):
    """Fast neural style (Johnson et al. 2016, arXiv:1603.08155): instance normalisation, reflected borders."""
    net = NetworkBuilder("style_transfer", seed=seed)
    x = image_input(net, image)
    for name, (outer, inner, kernel, stride) in {"conv1": (32, 3, 9, 1), "conv2": (64, 32, 3, 2),
                                                 "conv3": (128, 64, 3, 2)}.items():
        x = relu(net, _instance_norm(net, _reflected_conv(net, x, (outer, inner, kernel, kernel), name, stride),
                                     outer, name))
    for index in range(2 if shallow else 5):
        with net.scope(f"res{index + 1}"):
            y = _reflected_conv(net, x, (128, 128, 3, 3), "conv1")
            y = relu(net, _instance_norm(net, y, 128, "in1"))
            y = _instance_norm(net, _reflected_conv(net, y, (128, 128, 3, 3), "conv2"), 128, "in2")
            x = net.op("Add", y, x)
    for name, (outer, inner) in {"deconv1": (64, 128), "deconv2": (32, 64)}.items():
        x = _reflected_conv(net, resized(net, x, 2, NEAREST), (outer, inner, 3, 3), name)
        x = relu(net, _instance_norm(net, x, outer, name))
    x = _reflected_conv(net, x, (3, 32, 9, 9), "deconv3")
    net.output("output", x, np.float32, ["batch", 3, image, image])
    return net.model()


def _reflected_conv(net, x, shape, name, stride=1):
    """A convolution whose border repeats the image backwards."""
    margin = shape[2] // 2
    pads = net.constant([0, 0, margin, margin, 0, 0, margin, margin], np.int64)
    x = net.op("Pad", x, pads, mode="reflect")
    return conv(net, x, shape, name, stride, padding=0)


def _instance_norm(net, x, channels, name):
    with net.scope(name), net.scope("norm"):
        return net.op("InstanceNormalization", x, parameter(net, "weight", small_array(net, "weight", channels, 1.0)),
                      parameter(net, "bias", small_array(net, "bias", channels)), epsilon=1e-5)
