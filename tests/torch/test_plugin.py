# SPDX-License-Identifier: Apache-2.0
"""`graft plugin --for torch`: the folder builds, and its operators trace with symbolic sizes.
tests/plugin/torch_on_gpu.py runs them where there is a GPU."""

import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import plugin_folder  # noqa: E402

TORCH = f"-DTORCH={torch.__path__[0]}"


@pytest.fixture(name="twice", scope="module")
def fixture_twice(tmp_path_factory):
    """The operator, from the folder as a package."""
    folder = plugin_folder.made_folder("torch", tmp_path_factory.mktemp("plugin"))
    plugin_folder.built(folder, TORCH, "-DSHAPES_ONLY=ON")
    sys.path.insert(0, str(folder.parent))
    import made  # noqa: PLC0415  # the folder that was just built
    assert made.__all__ == ["Twice"]
    return made.Twice


class Network(torch.nn.Module):
    """The operator between two of torch's."""

    def __init__(self, twice):
        super().__init__()
        self.twice = twice
        self.scale, self.bias = (torch.nn.Parameter(torch.ones(48)) for _ in range(2))

    def forward(self, x):
        """[batch, length, 48] -> [batch, 2 * length, 48]"""
        twice, mean = self.twice(x * 2, self.scale, self.bias)
        return torch.relu(twice), mean


def test_it_builds_with_its_kernels(tmp_path):
    folder = plugin_folder.built(plugin_folder.made_folder("torch", tmp_path), TORCH)
    assert (folder / "build/libgraft_torch_ops.so").exists()


def test_it_gives_shapes_without_data(twice):
    meta = {"device": "meta"}
    results = twice(torch.empty(3, 5, 48, **meta), torch.empty(48, **meta), torch.empty(48, **meta))
    assert [tuple(result.shape) for result in results] == [(3, 10, 48), (3, 5, 1)]
    assert [result.dtype for result in results] == [torch.float32, torch.float32]


@pytest.mark.parametrize("shape, kind, error, said", [
    ((2, 3, 40), torch.float32, ValueError, "axis 2 of input x is not 48"),
    ((65, 3, 48), torch.float32, ValueError, "batch is more than 64"),
    ((3, 48), torch.float32, ValueError, "has 2 axes, not 3"),
    ((2, 3, 48), torch.float16, TypeError, "is Half, not Float"),
])
def test_what_does_not_fit_is_said(twice, shape, kind, error, said):
    weight = torch.empty(48, device="meta")
    with pytest.raises(error, match=said):
        twice(torch.empty(shape, dtype=kind, device="meta"), weight, weight)


def test_export_keeps_sizes_open(twice):
    sizes = {"x": {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim("length", min=2, max=500)}}
    program = torch.export.export(Network(twice), (torch.randn(4, 5, 48),), dynamic_shapes=sizes)
    [call] = [node for node in program.graph.nodes if node.target is torch.ops.graft.Twice.default]
    batch, rows, channels = call.meta["val"][0].shape
    taken = next(node for node in program.graph.nodes if node.name == "x").meta["val"].shape
    assert (batch, rows, channels) == (taken[0], 2 * taken[1], 48)
    assert not isinstance(rows, int), "the length is a symbol still"


def test_compile_traces_it_whole(twice):
    seen = []

    def keep(module, _):
        seen.append([node.target for node in module.graph.nodes if node.op == "call_function"])
        return lambda *_: (torch.zeros(4, 10, 48), torch.zeros(4, 5, 1))

    with torch.no_grad():
        result, _ = torch.compile(Network(twice), backend=keep, fullgraph=True, dynamic=True)(torch.randn(4, 5, 48))
    assert result.shape == (4, 10, 48)
    assert len(seen) == 1 and torch.ops.graft.Twice in seen[0], seen
