# SPDX-License-Identifier: Apache-2.0
"""`graft convert` of programs of torch.export: torch opens and runs what was made."""

import json
import os
import pathlib
import subprocess
import zipfile

import pytest
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOW = {"fp16": torch.float16, "bf16": torch.bfloat16}
ROUNDOFF = {"fp16": 2.0**-11, "bf16": 2.0**-8}
NUMBER = {"fp16": 6, "bf16": 13}


class Network(nn.Module):
    """Convolutions, normalisations of both kinds, a residual, and operators of every rule."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm, self.layer = nn.BatchNorm2d(8), nn.LayerNorm(8)
        self.relu, self.head, self.drop = nn.ReLU(inplace=True), nn.Linear(8, 5), nn.Dropout(0.5, inplace=True)

    def forward(self, x):
        x = self.relu(self.norm(self.first(x)))
        x = self.relu(self.second(x) + x)
        x = self.layer(torch.exp(-nn.functional.max_pool2d(x, 2)).mean((2, 3)))
        return torch.softmax(self.head(self.drop(x)), -1), x.argmax(1)


def export(folder, module, given, **options):
    torch.manual_seed(5)
    for tensor in module.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand_like(tensor) - (0.3 if tensor.dim() > 1 else -0.5))
    program = torch.export.export(module.eval(), given, **options)
    torch.export.save(program, folder / "net.pt2")
    return program


def convert(folder, precision, *words, name="net.pt2"):
    command = os.path.join(os.environ.get("GRAFT_BUILD", str(ROOT / "build")), "bin", "graft")
    return subprocess.run([command, "convert", folder / name, "--precision", precision, "-o", folder / "mixed.pt2",
                           *words], capture_output=True, text=True, check=False)


def nodes_of(path):
    with zipfile.ZipFile(path) as archive:
        (model,) = [name for name in archive.namelist() if "/models/" in name]
        return json.loads(archive.read(model))["graph_module"]["graph"]


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_torch_runs_it_with_the_types_of_the_program(tmp_path, precision):
    images = torch.randn(3, 3, 8, 8)
    with torch.no_grad():
        program = export(tmp_path, Network(), (images,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=9)},))
        done = convert(tmp_path, precision)
        assert done.returncode == 0, done.stderr
        mixed = torch.export.load(tmp_path / "mixed.pt2")
        expected, place = program.module()(images)
        result, place_now = mixed.module()(images)
        assert result.dtype == torch.float32 and place_now.dtype == place.dtype == torch.int64
        assert 0 < (result - expected).abs().max() <= 16 * ROUNDOFF[precision] * expected.abs().max()
        assert mixed.module()(images[:2])[0].shape == (2, 5)
    types = {name: tensor.dtype for name, tensor in mixed.state_dict.items()}
    assert list(types) == list(program.state_dict)
    low = {"first.weight", "first.bias", "second.weight", "head.weight", "head.bias"}
    assert {name for name, kind in types.items() if kind == LOW[precision]} == low
    values = nodes_of(tmp_path / "mixed.pt2")["tensor_values"]
    assert values["conv2d"]["dtype"] == values["linear"]["dtype"] == NUMBER[precision]
    assert values["layer_norm"]["dtype"] == values["exp"]["dtype"] == 7


def drop_names_of_nodes(path):
    """Makes a file as torch before 2.11 writes it."""
    with zipfile.ZipFile(path) as given:
        entries = {name: given.read(name) for name in given.namelist()}
    (model,) = [name for name in entries if "/models/" in name]
    document = json.loads(entries[model])
    for node in document["graph_module"]["graph"]["nodes"]:
        node.pop("name", None)
    with zipfile.ZipFile(path, "w") as made:
        for name, content in entries.items():
            made.writestr(name, json.dumps(document) if name == model else content)


def test_nodes_of_a_file_of_torch_before_2_11_stay_without_names(tmp_path):
    images = torch.randn(3, 3, 8, 8)
    with torch.no_grad():
        export(tmp_path, Network(), (images,))
        assert convert(tmp_path, "fp16").returncode == 0
        expected = torch.export.load(tmp_path / "mixed.pt2").module()(images)[0]
        drop_names_of_nodes(tmp_path / "net.pt2")
        done = convert(tmp_path, "fp16")
        assert done.returncode == 0, done.stderr
        assert not any("name" in node for node in nodes_of(tmp_path / "mixed.pt2")["nodes"])
        assert torch.equal(torch.export.load(tmp_path / "mixed.pt2").module()(images)[0], expected)


def test_types_that_are_stated_are_those_that_torch_finds(tmp_path):
    with torch.no_grad():
        images = torch.randn(2, 3, 8, 8)
        export(tmp_path, Network(), (images,))
        assert convert(tmp_path, "fp16").returncode == 0
        mixed = torch.export.load(tmp_path / "mixed.pt2")

        class Watch(torch.fx.Interpreter):
            def run_node(self, node):
                result = super().run_node(node)
                if isinstance(result, torch.Tensor) and node.op != "output":
                    assert result.dtype == node.meta["val"].dtype, node
                return result

        state = [mixed.state_dict.get(spec.target) for spec in mixed.graph_signature.input_specs[:-1]]
        Watch(mixed.graph_module).run(*state, images)


def test_each_tensor_is_cast_once_and_converting_again_changes_nothing(tmp_path):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.b.weight = self.a.weight

        def forward(self, x):
            y = self.a(x)
            return self.b(x) + y, torch.exp(y), torch.log1p(y.abs())

    with torch.no_grad():
        export(tmp_path, Shared(), (torch.rand(2, 4),))
        assert convert(tmp_path, "fp16").returncode == 0
        casts = [node for node in nodes_of(tmp_path / "mixed.pt2")["nodes"] if node["target"].endswith("aten.to.dtype")]
        read = [(node["inputs"][0]["arg"]["as_tensor"]["name"], node["inputs"][1]["arg"]["as_scalar_type"])
                for node in casts]
        assert len(read) == len(set(read)) and ("x", 6) in read
        (tmp_path / "mixed.pt2").rename(tmp_path / "once.pt2")
        again = convert(tmp_path, "fp16", name="once.pt2")
        assert ": 0 aten::to" in again.stdout, again.stdout + again.stderr
        assert nodes_of(tmp_path / "mixed.pt2") == nodes_of(tmp_path / "once.pt2")
        tied = torch.export.load(tmp_path / "once.pt2")
        assert tied.state_dict["a.weight"].dtype == tied.state_dict["b.weight"].dtype == torch.float16


def test_a_weight_that_does_not_fit_and_lists_of_the_users_own(tmp_path):
    with torch.no_grad():
        network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        export(tmp_path, network, (torch.rand(2, 4),))
        lists = tmp_path / "lists.json"
        lists.write_text('{"excluded_sym_names": ["linear"]}')
        assert convert(tmp_path, "fp16", "--lists", lists).returncode == 0
        types = [each.dtype for each in torch.export.load(tmp_path / "mixed.pt2").state_dict.values()]
        assert types == [torch.float32, torch.float32, torch.float16, torch.float16]
        for text, part in [('{"fp32_ops": ["aten::linaer"]}', "did you mean 'aten::linear'"),
                           ('{"input_dtypes": {"x": "any"}}', "says itself what its inputs are"),
                           ('{"target_dtype": "float64"}', "not 'float64'"),
                           ('{"fp32_ops": ["aten::relu"], "widest_dtype_ops": ["aten::relu"]}', "take it out of one")]:
            lists.write_text(text)
            done = convert(tmp_path, "fp16", "--lists", lists)
            assert done.returncode != 0 and part in done.stderr, done.stderr
        network[0].weight[0, 0] = 1e6
        torch.export.save(torch.export.export(network, (torch.rand(2, 4),)), tmp_path / "net.pt2")
        assert convert(tmp_path, "fp16").returncode == 0
        mixed = torch.export.load(tmp_path / "mixed.pt2")
        assert mixed.state_dict["0.weight"].dtype == torch.float32


def test_damaged_archives_are_refused(tmp_path):
    with torch.no_grad():
        export(tmp_path, nn.Linear(4, 4), (torch.rand(2, 4),))
    whole = (tmp_path / "net.pt2").read_bytes()
    for cut in (0, 100, len(whole) // 2, len(whole) - 10):
        (tmp_path / "net.pt2").write_bytes(whole[:cut])
        done = convert(tmp_path, "fp16")
        assert done.returncode == 1 and "net.pt2" in done.stderr, done.stderr
    assert not (tmp_path / "mixed.pt2").exists()
