# SPDX-License-Identifier: Apache-2.0
"""Swin and Swin-V2: attention within windows that are shifted by rolls, with a bias for each relative position."""

import math

import numpy as np

from network_builder import NetworkBuilder
from seeded_layers import (class_output, gemm_layer, image_input, joint_heads, linear_layer, merge_heads, mlp,
                           norm_layer, parameter, random_array, roll, scale_of_heads, scaled, sliced, small_array,
                           unit_length, last_transposed)

CHANNELS, DEPTHS, HEADS = 96, (2, 2, 6, 2), (3, 6, 12, 24)


class SwinGraph:
    """Builds one of both versions; images (batch, height, width, channels)."""

    def __init__(self, name, version, window, seed):
        self.net_ = NetworkBuilder(name, seed=seed)
        self.version_ = version
        self.window_ = window

    def model(self, depths, image):
        """Input `input` (batch, 3, image, image), output `output` (batch, 1000)."""
        net, channels, side = self.net_, CHANNELS, image // 4
        with net.scope("patch_embed"):
            weight = parameter(net, "weight", random_array(net, "weight", (channels, 3, 4, 4)))
            bias = parameter(net, "bias", small_array(net, "bias", channels))
            x = net.op("Conv", image_input(net, image), weight, bias, kernel_shape=[4, 4], strides=[4, 4],
                       pads=[0] * 4, dilations=[1, 1], group=1)
            x = norm_layer(net, net.op("Transpose", x, perm=[0, 2, 3, 1]), channels, "norm")
        for stage, depth in enumerate(depths):
            with net.scope(f"layers.{stage}"):
                if stage:
                    x, channels, side = self._merged(x, channels), 2 * channels, side // 2
                for index in range(depth):
                    with net.scope(f"blocks.{index}"):
                        x = self._block(x, channels, HEADS[stage], side, index % 2)
        x = net.op("Transpose", norm_layer(net, x, channels, "norm"), perm=[0, 3, 1, 2])
        x = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
        return class_output(net, gemm_layer(net, x, channels, 1000, "head"))

    def _merged(self, x, channels):
        """Four neighbours become one position of twice the channels."""
        net, end = self.net_, np.iinfo(np.int64).max
        with net.scope("downsample"):
            corners = [sliced(net, sliced(net, x, 1, row, end, 2), 2, column, end, 2)
                       for column in (0, 1) for row in (0, 1)]
            x = net.op("Concat", *corners, axis=-1)
            if self.version_ == 2:
                x = linear_layer(net, x, 4 * channels, 2 * channels, "reduction", bias=False)
                return norm_layer(net, x, 2 * channels, "norm")
            x = norm_layer(net, x, 4 * channels, "norm")
            return linear_layer(net, x, 4 * channels, 2 * channels, "reduction", bias=False)

    def _block(self, x, channels, heads, side, odd):
        net, window = self.net_, min(self.window_, side)
        shift = window // 2 if odd and window < side else 0
        if self.version_ == 2:
            attended = self._windows(x, channels, heads, side, window, shift)
            x = net.op("Add", x, norm_layer(net, attended, channels, "norm1"))
            return net.op("Add", x, norm_layer(net, mlp(net, x, channels, 4 * channels), channels, "norm2"))
        attended = self._windows(norm_layer(net, x, channels, "norm1"), channels, heads, side, window, shift)
        x = net.op("Add", x, attended)
        return net.op("Add", x, mlp(net, norm_layer(net, x, channels, "norm2"), channels, 4 * channels))

    def _windows(self, x, channels, heads, side, window, shift):
        """Rolled, cut into windows, attended, put together and rolled back."""
        net, count = self.net_, side // window
        with net.scope("attn"):
            x = roll(net, x, -shift, (1, 2)) if shift else x
            x = net.reshape(x, [net.size(x, 0), count, window, count, window, channels])
            x = net.op("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
            x = net.reshape(x, [-1, window * window, channels])
            x = self._attention(x, channels, heads, window, count, shift)
            x = net.reshape(x, [-1, count, count, window, window, channels])
            x = net.op("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
            x = net.reshape(x, [-1, side, side, channels])
            return roll(net, x, shift, (1, 2)) if shift else x

    def _attention(self, x, channels, heads, window, count, shift):
        net, length = self.net_, window * window
        query, keys, value = joint_heads(net, x, channels, heads)
        if self.version_ == 2:
            query, keys = unit_length(net, query), unit_length(net, keys)
            scores = net.op("MatMul", query, last_transposed(net, keys))
            logit = parameter(net, "logit_scale", np.full((heads, 1, 1), math.log(10)) +
                              random_array(net, "logit_scale", (heads, 1, 1), fan_in=100))
            logit = net.op("Exp", net.op("Min", logit, net.constant(math.log(100.0))))
            scores = net.op("Mul", scores, logit)
        else:
            query = scaled(net, query, scale_of_heads(channels // heads))
            scores = net.op("MatMul", query, last_transposed(net, keys))
        scores = net.op("Add", scores, self._bias(heads, window))
        if shift:
            windows = count * count
            mask = parameter(net, "attn_mask", _shift_mask(window, count, shift)[None, :, None])
            scores = net.reshape(scores, [-1, windows, heads, length, length])
            scores = net.reshape(net.op("Add", scores, mask), [-1, heads, length, length])
        context = net.op("MatMul", net.op("Softmax", scores, axis=-1), value)
        return linear_layer(net, merge_heads(net, context, channels), channels, channels, "proj")

    def _bias(self, heads, window):
        """(1, heads, length, length): a row of a table for each relative position."""
        net, length = self.net_, window * window
        if self.version_ == 2:
            places = parameter(net, "relative_coords_table", _log_positions(window))
            with net.scope("cpb_mlp"):
                table = net.op("Relu", linear_layer(net, places, 2, 512, "0"))
                table = linear_layer(net, table, 512, heads, "2", bias=False)
        else:
            shape = ((2 * window - 1) ** 2, heads)
            table = parameter(net, "relative_position_bias_table",
                              random_array(net, "relative_position_bias_table", shape, fan_in=1))
        index = net.weight("relative_position_index", _relative_positions(window).ravel())
        bias = net.reshape(net.op("Gather", table, index, axis=0), [length, length, heads])
        bias = net.op("Transpose", bias, perm=[2, 0, 1])
        if self.version_ == 2:
            bias = scaled(net, net.op("Sigmoid", bias), 16.0)
        return net.op("Unsqueeze", bias, net.constant([0], np.int64))


def _relative_positions(window):
    """The row of the table for each pair of positions."""
    places = np.stack(np.meshgrid(np.arange(window), np.arange(window), indexing="ij")).reshape(2, -1)
    apart = places[:, :, None] - places[:, None] + window - 1
    return (apart[0] * (2 * window - 1) + apart[1]).astype(np.int64)


def _log_positions(window):
    """Swin-V2's coordinates: distances on a logarithmic scale."""
    steps = np.arange(1 - window, window, dtype=np.float32) * 8 / max(1, window - 1)
    steps = np.sign(steps) * np.log2(np.abs(steps) + 1) / 3
    return np.stack(np.meshgrid(steps, steps, indexing="ij"), -1).reshape(-1, 2)


def _shift_mask(window, count, shift):
    """-100 between positions that only a roll made neighbours: (windows, length, length)."""
    bounds = (0, count * window - window, count * window - shift, count * window)
    side = np.concatenate([np.full(end - begin, area) for area, (begin, end) in enumerate(zip(bounds, bounds[1:]))])
    areas = (3 * side[:, None] + side).reshape(count, window, count, window).transpose(0, 2, 1, 3)
    areas = areas.reshape(count * count, -1)
    return np.where(areas[:, :, None] == areas[:, None], np.float32(0), np.float32(-100))


def swin_t(seed=0, shallow=False, image=224, window=7):
    """Swin-T (Liu et al. 2021, arXiv:2103.14030)."""
    return SwinGraph("swin_t", 1, window, seed).model((2, 2, 2, 2) if shallow else DEPTHS, image)


def swin_v2_t(seed=0, shallow=False, image=256, window=8):
    """Swin-V2-T: cosine attention, biases from a network of positions (Liu et al. 2022, arXiv:2111.09883)."""
    return SwinGraph("swin_v2_t", 2, window, seed).model((2, 2, 2, 2) if shallow else DEPTHS, image)
