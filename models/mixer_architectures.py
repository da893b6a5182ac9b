# SPDX-License-Identifier: Apache-2.0
"""Networks that mix positions by other means than attention alone: large depthwise windows, pooling, MLPs over
positions; and hybrids of convolution and attention for phones."""

import numpy as np

from activations import SILU_MEAN, SILU_VARIANCE, gelu, silu
from attention_architectures import _fourier_positions, cross_covariance_attention, patches
from convolution_blocks import classifier, conv, conv_batch_norm
from network_builder import NetworkBuilder
from seeded_layers import (channels_norm, class_output, gemm_layer, group_norm, image_input, image_of, joint_heads,
                           last_transposed, layer_scale, linear_layer, merge_heads, mlp, norm_layer, scale_of_heads,
                           scaled, tokens_of)


def pooled_head(net, x, channels, norm):
    """Global average, normalisation, linear layer."""
    x = net.op("GlobalAveragePool", x)
    x = net.op("Flatten", channels_norm(net, x, channels, "norm") if norm else x, axis=1)
    return class_output(net, gemm_layer(net, x, channels, 1000, "head"))


def stem_and_downsampling(net, x, stage, before, channels):
    """A 4x4 patch embedding, then 2x2 ones, as in ConvNeXt."""
    with net.scope(f"downsample.{stage}"):
        if stage == 0:
            x = conv(net, x, (channels, 3, 4, 4), "conv", 4, padding=0, input_variance=1.0)
            return channels_norm(net, x, channels, "norm")
        return conv(net, channels_norm(net, x, before, "norm"), (channels, before, 2, 2), "conv", 2, padding=0,
                    input_variance=1.0)


def convnext_block(net, x, channels, kernel=7):
    """Depthwise window, normalisation, MLP with channels last."""
    y = conv(net, x, (channels, 1, kernel, kernel), "dwconv", groups=channels, input_variance=1.0)
    y = norm_layer(net, net.op("Transpose", y, perm=[0, 2, 3, 1]), channels, "norm", 1e-6)
    y = layer_scale(net, mlp(net, y, channels, 4 * channels), channels, "gamma")
    return net.op("Add", x, net.op("Transpose", y, perm=[0, 3, 1, 2]))


def convnext_t(seed=0, shallow=False, image=224):
    """ConvNeXt-T (Liu et al. 2022, arXiv:2201.03545)."""
    net, before = NetworkBuilder("convnext_t", seed=seed), 3
    x = image_input(net, image)
    for stage, (depth, channels) in enumerate(zip((3, 3, 9, 3), (96, 192, 384, 768))):
        x = stem_and_downsampling(net, x, stage, before, channels)
        for index in range(1 if shallow else depth):
            with net.scope(f"stages.{stage}.{index}"):
                x = convnext_block(net, x, channels)
        before = channels
    return pooled_head(net, x, 768, True)


def poolformer_s12(seed=0, shallow=False, image=224):
    """PoolFormer-S12 (Yu et al. 2022, arXiv:2111.11418)."""
    net, before = NetworkBuilder("poolformer_s12", seed=seed), 3
    x = image_input(net, image)
    for stage, (depth, channels) in enumerate(zip((2, 2, 6, 2), (64, 128, 320, 512))):
        kernel, stride, padding = (3, 2, 1) if stage else (7, 4, 2)
        x = conv(net, x, (channels, before, kernel, kernel), f"embed{stage}", stride, padding=padding,
                 input_variance=1.0)
        for index in range(1 if shallow else depth):
            with net.scope(f"stages.{stage}.{index}"):
                y = group_norm(net, x, channels, 1, "norm1")
                pooled = net.op("AveragePool", y, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4,
                                count_include_pad=0)
                y = layer_scale(net, net.op("Sub", pooled, y), channels, "layer_scale_1", (channels, 1, 1))
                x = net.op("Add", x, y)
                y = group_norm(net, x, channels, 1, "norm2")
                y = gelu(net, conv(net, y, (4 * channels, channels, 1, 1), "mlp.fc1", input_variance=1.0))
                y = conv(net, y, (channels, 4 * channels, 1, 1), "mlp.fc2")
                x = net.op("Add", x, layer_scale(net, y, channels, "layer_scale_2", (channels, 1, 1)))
        before = channels
    return pooled_head(net, group_norm(net, x, 512, 1, "norm"), 512, False)


def mixer_s16(seed=0, shallow=False, image=224):
    """MLP-Mixer-S/16 (Tolstikhin et al. 2021, arXiv:2105.01601)."""
    net, channels, length = NetworkBuilder("mixer_s16", seed=seed), 512, (image // 16) ** 2
    x = patches(net, image_input(net, image), channels, 16)
    for index in range(2 if shallow else 8):
        with net.scope(f"blocks.{index}"):
            y = net.op("Transpose", norm_layer(net, x, channels, "norm1", 1e-6), perm=[0, 2, 1])
            y = net.op("Transpose", mlp(net, y, length, 256, "mlp_tokens"), perm=[0, 2, 1])
            x = net.op("Add", x, y)
            x = net.op("Add", x, mlp(net, norm_layer(net, x, channels, "norm2", 1e-6), channels, 2048, "mlp_channels"))
    x = net.op("ReduceMean", norm_layer(net, x, channels, "norm", 1e-6), net.constant([1], np.int64), keepdims=0)
    return class_output(net, gemm_layer(net, x, channels, 1000, "head"))


def edgenext_small(seed=0, shallow=False, image=256):
    """EdgeNeXt-S: depthwise windows of 3 to 9, split depthwise transposed attention (Maaz 2022, arXiv:2206.10589)."""
    net, before, side = NetworkBuilder("edgenext_small", seed=seed), 3, image
    x = image_input(net, image)
    rows = zip((3, 3, 9, 3), (48, 96, 160, 304), (3, 5, 7, 9), (2, 2, 3, 4))
    for stage, (depth, channels, kernel, parts) in enumerate(rows):
        x, side = stem_and_downsampling(net, x, stage, before, channels), side // (2 if stage else 4)
        for index in range(1 if shallow else depth - bool(stage)):
            with net.scope(f"stages.{stage}.{index}"):
                x = convnext_block(net, x, channels, kernel)
        if stage:
            with net.scope(f"stages.{stage}.{depth - 1}"):
                x = _split_transposed_attention(net, x, channels, parts, side, stage == 1)
        before = channels
    return pooled_head(net, x, 304, True)


def _split_transposed_attention(net, x, channels, parts, side, has_positions):
    """Groups of channels through depthwise windows one after another, then attention between channels."""
    width, shortcut = -(-channels // parts), x
    sizes = [min(width, channels - part * width) for part in range(parts)]
    *groups, last = net.op("Split", x, net.constant(sizes, np.int64), outputs=parts, axis=1)
    done, total = [], None
    for index, group in enumerate(groups):
        total = group if total is None else net.op("Add", total, group)
        total = conv(net, total, (width, 1, 3, 3), f"convs.{index}", groups=width, input_variance=2.0 if index else 1.0)
        done.append(total)
    x = tokens_of(net, net.op("Concat", *done, last, axis=1), channels)
    if has_positions:
        places = conv(net, net.weight("positions", _fourier_positions(32, side).astype(np.float32)),
                      (channels, 64, 1, 1), "pos_embd", input_variance=0.5)
        places = net.op("Reshape", places, net.constant([1, channels, side * side], np.int64))
        x = net.op("Add", x, net.op("Transpose", places, perm=[0, 2, 1]))
    with net.scope("xca"):
        y = cross_covariance_attention(net, norm_layer(net, x, channels, "norm_xca", 1e-6), channels, 8)
    x = net.op("Add", x, layer_scale(net, y, channels, "gamma_xca"))
    y = mlp(net, norm_layer(net, x, channels, "norm", 1e-6), channels, 4 * channels)
    y = image_of(net, layer_scale(net, y, channels, "gamma"), channels, side, side)
    return net.op("Add", shortcut, y)


def mobilevit_s(seed=0, shallow=False, image=256):
    """MobileViT-S: attention between pixels of the same place in 2x2 patches (Mehta 2022, arXiv:2110.02178)."""
    net = NetworkBuilder("mobilevit_s", seed=seed)
    x = _conv_silu(net, image_input(net, image), (16, 3, 3, 3), "stem", 2, input_variance=1.0)
    x = _inverted_residual(net, x, 16, 32, 1, "layer1", SILU_VARIANCE)
    x = _inverted_residual(net, x, 32, 64, 2, "layer2.0")
    for index in range(1 if shallow else 2):
        x = _inverted_residual(net, x, 64, 64, 1, f"layer2.{index + 1}")
    side = image // 4
    for stage, (before, channels, hidden, depth) in enumerate(((64, 96, 144, 2), (96, 128, 192, 4),
                                                               (128, 160, 240, 3)), 3):
        x, side = _inverted_residual(net, x, before, channels, 2, f"layer{stage}.0"), side // 2
        with net.scope(f"layer{stage}.1"):
            x = _mobile_block(net, x, channels, hidden, 1 if shallow else depth, side)
    x = _conv_silu(net, x, (640, 160, 1, 1), "conv_1x1_exp", input_variance=SILU_VARIANCE)
    return class_output(net, classifier(net, x, 640, 1000))


def _conv_silu(net, x, shape, name, stride=1, **rest):
    return silu(net, conv_batch_norm(net, x, shape, name, stride, **rest))


def _inverted_residual(net, x, channels, outer, stride, name, variance=1.0):
    """Widen four times, depthwise, narrow."""
    with net.scope(name):
        inner = 4 * channels
        y = _conv_silu(net, x, (inner, channels, 1, 1), "exp_1x1", input_variance=variance)
        y = _conv_silu(net, y, (inner, 1, 3, 3), "conv_3x3", stride, groups=inner, input_variance=SILU_VARIANCE,
                       input_mean=SILU_MEAN)
        y = conv_batch_norm(net, y, (outer, inner, 1, 1), "red_1x1", input_variance=SILU_VARIANCE)
        return net.op("Add", x, y) if stride == 1 and channels == outer else y


def _mobile_block(net, x, channels, hidden, depth, side):
    """Convolution, attention between patches, convolution, and both halves joined by another."""
    shortcut, heads, count = x, 4, side // 2
    x = _conv_silu(net, x, (channels, channels, 3, 3), "conv_kxk", input_variance=1.0)
    x = conv(net, x, (hidden, channels, 1, 1), "conv_1x1", bias=False, input_variance=SILU_VARIANCE)
    x = net.reshape(x, [-1, 2, count, 2])  # rows of patches of all channels
    x = net.op("Transpose", x, perm=[0, 2, 1, 3])
    x = net.reshape(x, [-1, hidden, count * count, 4])
    x = net.reshape(net.op("Transpose", x, perm=[0, 3, 2, 1]), [-1, count * count, hidden])
    for index in range(depth):
        with net.scope(f"transformer.{index}"):
            query, keys, value = joint_heads(net, norm_layer(net, x, hidden, "norm1"), hidden, heads)
            scores = net.op("MatMul", query, last_transposed(net, keys))
            scores = scaled(net, scores, scale_of_heads(hidden // heads))
            y = merge_heads(net, net.op("MatMul", net.op("Softmax", scores, axis=-1), value), hidden)
            x = net.op("Add", x, linear_layer(net, y, hidden, hidden, "proj"))
            x = net.op("Add", x, mlp(net, norm_layer(net, x, hidden, "norm2"), hidden, 2 * hidden, activation=silu))
    x = norm_layer(net, x, hidden, "norm")
    x = net.reshape(x, [-1, 4, count * count, hidden])
    x = net.reshape(net.op("Transpose", x, perm=[0, 3, 2, 1]), [-1, count, 2, 2])
    x = net.reshape(net.op("Transpose", x, perm=[0, 2, 1, 3]), [-1, hidden, side, side])
    x = _conv_silu(net, x, (channels, hidden, 1, 1), "conv_proj", input_variance=2.0)
    return _conv_silu(net, net.op("Concat", shortcut, x, axis=1), (channels, 2 * channels, 3, 3), "conv_fusion",
                      input_variance=0.7)
