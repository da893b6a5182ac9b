# SPDX-License-Identifier: Apache-2.0
"""Parts of which vision and language networks are made, exported with symbolic sizes, as they are and decomposed."""

import pytest
import torch
from conftest import TORCH, close
from torch import nn
from torch.nn import functional as F

import graft

BATCH, LENGTH = torch.export.Dim("batch", min=2, max=32), torch.export.Dim("length", min=2, max=64)


class Call(nn.Module):
    """A function of its parts and of tensors."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *tensors):
        """What the function gives."""
        return self.function(self, *tensors)


def shifted_windows(self, x):
    """As Swin cuts an image."""
    batch, height, width, channels = x.shape
    x = torch.roll(x, (-1, -1), (1, 2)).view(batch, height // 2, 2, width // 2, 2, channels)
    rows = self.linear(x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 4, channels))
    x = rows.view(batch, height // 2, width // 2, 2, 2, -1).permute(0, 1, 3, 2, 4, 5).contiguous()
    return F.normalize(x.view(batch, height, width, -1), dim=-1)


def rotated(_, x):
    """Rotary positions and a causal mask, as Llama has them."""
    length = x.shape[1]
    angles = torch.outer(torch.arange(length).float(), 1.0 / 10000 ** (torch.arange(0, 4, 2).float() / 4))
    angles = torch.cat((angles, angles), -1)
    y = x * angles.cos() + torch.cat((-x[..., 2:], x[..., :2]), -1) * angles.sin()
    mask = torch.full((length, length), float("-inf")).triu(1)
    return torch.softmax(y @ y.transpose(-1, -2) + mask, -1) @ y


def bucketed(_, x):
    """Relative positions in buckets, as T5 has them."""
    places = torch.arange(x.shape[1])
    away = (places[None] - places[:, None]).abs()
    far = torch.clamp(4 + (torch.log(away.float().clamp(min=1) / 4) / 2 * 4).long(), max=7)
    return torch.where(away < 4, away, far) + x.long()[0, 0]


def masked(_, x, keep):
    """What a mask hides counts for nothing."""
    return x.masked_fill(~keep, -1e9).softmax(-1), (x * keep).sum(1) / keep.sum(1).clamp(min=1)


MODELS = {
    "encoder": lambda: (nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2,
                                              enable_nested_tensor=False), [(3, 7, 16)], ({0: BATCH, 1: LENGTH},)),
    "attention": lambda: (Call(lambda self, x: self.part(x, x, x)[0],
                               part=nn.MultiheadAttention(16, 4, batch_first=True)), [(3, 7, 16)], ({0: BATCH},)),
    "shifted_windows": lambda: (Call(shifted_windows, linear=nn.Linear(8, 8)), [(3, 4, 4, 8)], ({0: BATCH},)),
    "rotary_positions": lambda: (Call(rotated), [(3, 7, 4)], ({0: BATCH, 1: LENGTH},)),
    "relative_positions": lambda: (Call(bucketed), [(3, 7)], ({0: BATCH, 1: LENGTH},)),
    "classifier": lambda: (nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.Hardswish(True), nn.Conv2d(8, 8, 3, groups=8),
        nn.SiLU(True), nn.AdaptiveAvgPool2d((3, 3)), nn.Flatten(), nn.Dropout(0.2), nn.Linear(72, 5)),
        [(3, 3, 32, 32)], ({0: BATCH},)),
    "segmentation": lambda: (Call(lambda self, x: F.interpolate(self.conv(x), size=x.shape[-2:], mode="bilinear"),
                                  conv=nn.Conv2d(3, 4, 3, 2, 1)), [(3, 3, 16, 20)], ({0: BATCH},)),
    "upsampling": lambda: (Call(lambda self, x: torch.cat([self.up(F.max_pool2d(x, 2)), x], 1),
                                up=nn.ConvTranspose2d(3, 4, 2, 2)), [(3, 3, 16, 20)], ({0: BATCH},)),
    "groups": lambda: (nn.Sequential(nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.PixelShuffle(2)),
                       [(3, 4, 6, 6)], ({0: BATCH},)),
    "masks": lambda: (Call(masked), [(3, 7), (3, 7)], ({0: BATCH}, {0: BATCH})),
}


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_parts_of_networks_compile_whole_and_take_other_batches(name, decomposed, tmp_path):
    if name == "masks" and decomposed and TORCH < (2, 10):
        pytest.skip("torch 2.9 cannot decompose a program whose guards two inputs share")
    torch.manual_seed(4)
    module, shapes, sizes = MODELS[name]()
    module.eval()
    tensors = [torch.randn(shape) for shape in shapes]
    if name == "masks":
        tensors[1] = tensors[1] > 0
    dynamic = (sizes,) if isinstance(module, Call) else sizes
    program = torch.export.export(module, tuple(tensors), dynamic_shapes=dynamic)
    program = program.run_decompositions() if decomposed else program
    torch.export.save(program, tmp_path / "part.pt2")
    engine = graft.compile(str(tmp_path / "part.pt2"), tune="off")
    for given in (tensors, [torch.cat([each, each * 2 if each.is_floating_point() else ~each]) for each in tensors]):
        results, expected = engine(*given), module(*given)
        results = results if isinstance(results, tuple) else (results,)
        for got, wanted in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
            close(torch.as_tensor(got), wanted)
