# SPDX-License-Identifier: Apache-2.0
"""TorchScript modules of mixed precision: torch runs them alone, with the types that they had."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch
from torch import nn

import graft
import graft.torch

LOW = {"fp16": torch.float16, "bf16": torch.bfloat16}
ROUNDOFF = {"fp16": 2.0**-11, "bf16": 2.0**-8}


class Network(nn.Module):
    """Convolutions, both normalisations, a residual, a branch and a list of tensors."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm, self.layer = nn.BatchNorm2d(8), nn.LayerNorm(16)
        self.relu, self.head = nn.ReLU(inplace=True), nn.Linear(16, 5)

    def forward(self, x):
        """A softmax, and where it is largest."""
        x = self.relu(self.norm(self.first(x)))
        x = self.relu(self.second(x) + x)
        x = torch.cat([x, torch.exp(-x)], 1).mean((2, 3))
        if bool(x.sum() > 1e6):
            x = x * 0.5
        x = torch.softmax(self.head(self.layer(x)), -1)
        return x, x.argmax(1)


def network():
    torch.manual_seed(5)
    made = Network().eval()
    with torch.no_grad():
        for tensor in made.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand_like(tensor) - (0.3 if tensor.dim() > 1 else -0.5))
    return made


def casts_of(module):
    return [node for node in module.graph.nodes() if node.kind() == "aten::to"]


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("capture", [torch.jit.script, lambda net: torch.jit.trace(net, torch.randn(2, 3, 8, 8))],
                         ids=["scripted", "traced"])
def test_torch_runs_it_with_the_types_of_the_module(precision, capture):
    made, images = network(), torch.randn(3, 3, 8, 8)
    mixed = graft.torch.script.convert(capture(made), [graft.torch.Input(("batch", 3, 8, 8), torch.float32)],
                                       {"batch": (1, 2, 8)}, precision=precision)
    with torch.no_grad():
        (expected, place), (result, now) = made(images), mixed(images)
    assert result.dtype == torch.float32 and now.dtype == place.dtype
    assert 0 < (result - expected).abs().max() <= 16 * ROUNDOFF[precision] * expected.abs().max()
    constants = [node.t("value").dtype for node in mixed.graph.nodes()
                 if node.kind() == "prim::Constant" and node.hasAttribute("value") and node.kindOf("value") == "t"]
    assert constants.count(LOW[precision]) == 5  # weights and biases of three layers, one of which has no bias
    assert torch.float32 in constants  # of the normalisations


def test_a_tensor_is_cast_once_and_lists_decide():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            y = self.a(x)
            return self.b(x) + y, torch.exp(y), torch.log1p(torch.abs(y))

    script = torch.jit.script(Shared().eval())
    mixed = graft.torch.script.convert(script, [torch.rand(2, 4)])
    read = [(node.inputsAt(0).debugName(), node.inputsAt(1).toIValue()) for node in casts_of(mixed)]
    assert len(read) == len(set(read)) == 4, mixed.graph  # x; of f32: both ends, and what log1p reads
    assert not casts_of(graft.torch.script.convert(script, [torch.rand(2, 4)], fp32_ops=["aten::linear"]))
    with pytest.raises(graft.InvalidArgumentError, match="did you mean 'aten::linear'"):
        graft.torch.script.convert(script, [torch.rand(2, 4)], fp32_ops=["aten::linaer"])
    with pytest.raises(graft.InvalidArgumentError, match="float16 or bfloat16, not 'int8'"):
        graft.torch.script.convert(script, [torch.rand(2, 4)], precision="int8")


def test_who_loads_it_needs_torch_alone(tmp_path):
    made, images = network(), torch.randn(2, 3, 8, 8)
    torch.jit.save(graft.torch.script.convert(torch.jit.script(made), [images]), str(tmp_path / "mixed.pt"))
    torch.save((images, made(images)[0].detach()), tmp_path / "data.pt")
    program = ("import torch; images, expected = torch.load('data.pt'); m = torch.jit.load('mixed.pt'); "
               "assert (m(images)[0] - expected).abs().max() < 0.02")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True)
    root = pathlib.Path(__file__).resolve().parents[2]
    command = os.path.join(os.environ.get("GRAFT_BUILD", str(root / "build")), "bin", "graft")
    done = subprocess.run([command, "convert", "mixed.pt", "--precision", "fp16", "-o", "again.pt"], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "graft.torch.script.convert" in done.stderr, done.stderr
