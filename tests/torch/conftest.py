# SPDX-License-Identifier: Apache-2.0
"""Small networks, one with an operator in its middle that no engine has."""

import os
import pathlib
import subprocess
import sys

import graft
import pytest
import torch

BUILD = pathlib.Path(os.environ["GRAFT_BUILD"])
HOST = pathlib.Path(os.environ.get("GRAFT_TEST_HOST", BUILD / "hosts" / "torch"))
TORCH = tuple(map(int, torch.__version__.split(".")[:2]))  # (2, 11)
FAST = {"tune": "off"}  # how engines are compiled in tests: what is measured changes nothing about results


class Split(torch.nn.Module):
    """Convolutions around digamma, which stays with torch."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
        self.body = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.head = torch.nn.Linear(8 * 4 * 4, 5)

    def forward(self, x):
        """Two parts that engines can do."""
        x = torch.max_pool2d(self.stem(x), 2)
        x = torch.digamma(x + 1.5)
        x = torch.relu(self.body(x))
        return self.head(torch.flatten(x, 1))


def compute_wrongly(monkeypatch, factor):
    """Engines give so many times what they compute."""
    original = graft.engine.Engine.run_for_framework

    def run(self, *given):
        return [each * factor for each in original(self, *given)]
    monkeypatch.setattr(graft.engine.Engine, "run_for_framework", run)


def trained(model):
    """Parameters and statistics that a network would have after training: every one shows in the result."""
    torch.manual_seed(3)
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape) * 0.5 + 0.1)
    return model.eval()


@pytest.fixture(autouse=True)
def fixture_reset():
    """Forgets what torch.compile remembers of other tests: graphs, counts, and which sizes have varied."""
    torch._dynamo.reset()
    torch._dynamo.pgo.reset_code_state()
    torch._dynamo.utils.counters.clear()


@pytest.fixture(name="split")
def fixture_split():
    """In evaluation mode."""
    return trained(Split())


@pytest.fixture(name="image")
def fixture_image():
    """A batch of two."""
    torch.manual_seed(1)
    return torch.randn(2, 3, 8, 8)


def close(result, expected):
    """Within what another order of sums makes of fp32."""
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


def in_fresh_process(code, *arguments):
    """Runs Python code in a process of its own; its standard output."""
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
