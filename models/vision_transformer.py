# SPDX-License-Identifier: Apache-2.0
"""ViT-B/16 as an ONNX graph: patches as tokens, normalisation before each half of a block."""

import dataclasses

import numpy as np

from activations import gelu
from bert import SHARPNESS
from network_builder import NetworkBuilder
from transformer_blocks import attention_context, layer_norm, linear


@dataclasses.dataclass(frozen=True)
class VisionTransformerConfig:
    """The sizes of one network."""

    image: int = 224
    patch: int = 16
    hidden: int = 768
    layers: int = 12
    heads: int = 12
    inner: int = 3072
    classes: int = 1000
    epsilon: float = 1e-6


class VisionTransformerGraph:
    """Builds the network into its own NetworkBuilder, with seeded weights of unit gain."""

    def __init__(self, name, config, seed, fused):
        self.net_ = NetworkBuilder(name, seed=seed)
        self.config_ = config
        self.fused_ = fused

    def model(self):
        """Input `input` (batch, 3, image, image), output `output` (batch, classes)."""
        net, config = self.net_, self.config_
        image = net.input("input", np.float32, ["batch", 3, config.image, config.image])
        x = self._tokens(image)
        for index in range(config.layers):
            with net.scope("blocks"), net.scope(str(index)):
                x = self._block(x)
        x = self._norm(x, "norm")
        x = net.op("Gather", x, net.constant(0, np.int64), axis=1)
        with net.scope("head"):
            weight = net.weight("weight", self._random("weight", (config.classes, config.hidden)))
            bias = net.weight("bias", self._small("bias", config.classes))
            output = net.op("Gemm", x, weight, bias, transB=1)
        net.output("output", output, np.float32, ["batch", config.classes])
        return net.model()

    def _tokens(self, image):
        """(batch, 3, image, image) -> (batch, 1 + patches, hidden), the class token first."""
        net, config = self.net_, self.config_
        side, patches = config.patch, (config.image // config.patch) ** 2
        with net.scope("patch_embed"):
            weight = self._random("weight", (config.hidden, 3, side, side))
            bias = net.weight("bias", self._small("bias", config.hidden))
            x = net.op("Conv", image, net.weight("weight", weight), bias, pads=[0] * 4, group=1,
                       kernel_shape=[side, side], strides=[side, side], dilations=[1, 1])
            x = net.reshape(x, [net.size(x, 0), config.hidden, patches])
            x = net.op("Transpose", x, perm=[0, 2, 1])
        token = net.weight("cls_token", self._small("cls_token", (1, 1, config.hidden)))
        sizes = [net.op("Unsqueeze", net.size(x, 0), net.constant([0], np.int64)),
                 net.constant([1], np.int64), net.constant([config.hidden], np.int64)]
        token = net.op("Expand", token, net.op("Concat", *sizes, axis=0))
        places = self._random("pos_embed", (1, patches + 1, config.hidden), fan_in=4)
        return net.op("Add", net.op("Concat", token, x, axis=1), net.weight("pos_embed", places))

    def _block(self, x):
        net, config = self.net_, self.config_
        with net.scope("attn"):
            attended = self._attention(self._norm(x, "norm"))
        x = net.op("Add", x, attended)
        with net.scope("mlp"):
            inner = self._linear(self._norm(x, "norm"), config.hidden, config.inner, "fc1")
            inner = gelu(net, inner, self.fused_)
            return net.op("Add", x, self._linear(inner, config.inner, config.hidden, "fc2"))

    def _attention(self, x):
        """One product gives queries, keys and values; they are split after the heads are."""
        net, config = self.net_, self.config_
        head_size = config.hidden // config.heads
        joint = self._linear(x, config.hidden, 3 * config.hidden, "qkv",
                             gains=np.repeat([SHARPNESS, SHARPNESS, 1], config.hidden))
        sizes = [net.size(joint, 0), net.size(joint, 1), 3, config.heads, head_size]
        joint = net.op("Transpose", net.reshape(joint, sizes), perm=[2, 0, 3, 1, 4])
        axis = net.constant([0], np.int64)
        query, keys, value = (net.op("Squeeze", part, axis) for part in
                              net.op("Split", joint, outputs=3, axis=0, num_outputs=3))
        keys = net.op("Transpose", keys, perm=[0, 1, 3, 2])
        context = attention_context(net, query, keys, value, head_size)
        context = net.op("Transpose", context, perm=[0, 2, 1, 3])
        sizes = [net.size(context, 0), net.size(context, 1), config.hidden]
        return self._linear(net.reshape(context, sizes), config.hidden, config.hidden, "proj")

    def _linear(self, x, fan_in, fan_out, name, gains=None):
        with self.net_.scope(name):
            weight = self._random("weight", (fan_out, fan_in), fan_in)
            bias = self._small("bias", fan_out)
        if gains is not None:
            weight = weight * gains.astype(np.float32)[:, None]
        return linear(self.net_, x, weight, bias, name)

    def _norm(self, x, name):
        with self.net_.scope(name):
            scale, shift = (self._small(part, self.config_.hidden) for part in ("weight", "bias"))
        return layer_norm(self.net_, x, 1 + scale, shift, self.config_.epsilon, name, self.fused_)

    def _random(self, name, shape, fan_in=None):
        fan_in = fan_in or int(np.prod(shape[1:]))
        generator = self.net_.random(self.net_.path(name))
        return generator.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(fan_in))

    def _small(self, name, shape):
        return self._random(name, shape, fan_in=100)


def vit_b16(seed=0, fused=False):
    """ViT-B/16 for 224x224 images with random weights."""
    return VisionTransformerGraph("vit_b16", VisionTransformerConfig(), seed, fused).model()
