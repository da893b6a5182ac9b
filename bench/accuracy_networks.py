# SPDX-License-Identifier: Apache-2.0
"""Small networks that bench/accuracy.py trains on scikit-learn's digits, pictures of 8 x 8 pixels."""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, channels, results, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, results, 3, stride, 1, bias=False), nn.BatchNorm2d(results),
                                  nn.ReLU(), nn.Conv2d(results, results, 3, 1, 1, bias=False), nn.BatchNorm2d(results))
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != results:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, results, 1, stride, bias=False), nn.BatchNorm2d(results))

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x))


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution and projection, as MobileNetV2 has it."""

    def __init__(self, channels, results, stride, factor=4):
        super().__init__()
        inner = channels * factor
        self.body = nn.Sequential(
            nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6(),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.ReLU6(),
            nn.Conv2d(inner, results, 1, bias=False), nn.BatchNorm2d(results))
        self.is_residual = stride == 1 and channels == results

    def forward(self, x):
        return x + self.body(x) if self.is_residual else self.body(x)


class Attention(nn.Module):
    """Written out, so that each product is a node of its own."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.result = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (each(x).reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for each in (self.query, self.key, self.value))
        weights = torch.softmax(q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5, -1)
        return self.result((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Encoder(nn.Module):
    """A layer of a transformer, normalised first."""

    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.body = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.body(self.second(x))


class VisionTransformer(nn.Module):
    """16 patches of 2 x 2 pixels."""

    def __init__(self, width=64, heads=4, layers=4):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 2, 2)
        self.places = nn.Parameter(torch.randn(1, 16, width) * 0.02)
        self.layers = nn.Sequential(*(Encoder(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.layers(x)).mean(1))


class Recurrent(nn.Module):
    """Reads a picture row by row."""

    def __init__(self, width=64):
        super().__init__()
        self.rows = nn.Linear(8, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, x):
        states, _ = self.lstm(torch.relu(self.rows(x.squeeze(1))))
        return self.head(states[:, -1])


def residual():
    """A small ResNet."""
    return nn.Sequential(nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), Block(16, 16, 1),
                         Block(16, 32, 2), Block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def depthwise():
    """A small MobileNetV2."""
    return nn.Sequential(nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6(),
                         InvertedResidual(16, 16, 1), InvertedResidual(16, 24, 2), InvertedResidual(24, 24, 1),
                         InvertedResidual(24, 40, 2), nn.Conv2d(40, 96, 1, bias=False), nn.BatchNorm2d(96), nn.ReLU6(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 10))


NETWORKS = {"ResNet": residual, "depthwise": depthwise, "ViT": VisionTransformer, "LSTM": Recurrent}
