# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.export, compiled without libtorch."""

import json
import subprocess
import sys
import zipfile

import pytest
import torch
from conftest import BUILD, close, trained

import graft


class Mixed(torch.nn.Module):
    """Nested arguments and results, buffers that are saved or not, a constant, activations in place, sizes."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.act = torch.nn.ReLU(inplace=True)
        self.head = torch.nn.Linear(4, 5)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 5))
        self.register_buffer("shift", torch.full((5,), 2.0), persistent=False)
        self.table = torch.nn.Parameter(torch.randn(5, 4).t())  # not row-major in the archive

    def forward(self, x, more):
        """{"y", "z": [flat, part]}, and a constant."""
        y = self.act(self.conv(x)).mean((2, 3))
        y = self.head(y) * self.scale + self.shift * more["w"] + y @ self.table
        flat = y.reshape(x.shape[0] * 5)
        first, _ = y.split([2, 3], 1)
        return {"y": y, "z": [flat, first]}, torch.tensor([1.0, 2.0]).to(y.dtype)


def saved(module, arguments, path, **choices):
    """An exported program on disk."""
    torch.export.save(torch.export.export(module, arguments, **choices), path)
    return path


@pytest.fixture(name="mixed")
def fixture_mixed(tmp_path):
    """(module, path), with a symbolic batch."""
    torch.manual_seed(5)
    module = Mixed().eval()
    batch = torch.export.Dim("batch", min=2, max=16)
    arguments = (torch.randn(3, 3, 8, 8), {"w": torch.randn(5)})
    return module, saved(module, arguments, tmp_path / "mixed.pt2", dynamic_shapes=({0: batch}, {"w": None}))


def flat(results):
    """As the exported program orders them."""
    return torch.utils._pytree.tree_leaves(results)


def test_a_program_gives_what_its_module_gives_at_other_batches(mixed):
    module, path = mixed
    engine = graft.compile(str(path), tune="off")
    for batch in (3, 2, 16):
        x, w = torch.randn(batch, 3, 8, 8), torch.randn(5)
        for got, wanted in zip(engine(x, w), flat(module(x, {"w": w})), strict=True):
            close(torch.as_tensor(got), wanted)


def test_sizes_outside_of_the_exported_range_are_refused(mixed):
    engine = graft.compile(str(mixed[1]), tune="off")
    with pytest.raises(graft.Error, match="17"):
        engine(torch.randn(17, 3, 8, 8), torch.randn(5))


def test_the_command_compiles_runs_checks_and_inspects(mixed, tmp_path):
    module, path = mixed
    x, w = torch.randn(4, 3, 8, 8), torch.randn(5)

    def graft_command(*words):
        done = subprocess.run([BUILD / "bin/graft", *map(str, words)], capture_output=True, text=True, check=True)
        return done.stdout

    graft_command("compile", path, "--tune", "off", "-o", tmp_path / "mixed.plan")
    engine = graft.load(str(tmp_path / "mixed.plan"))
    close(torch.as_tensor(engine(x, w)[0]), module(x, {"w": w})[0]["y"])
    assert "Conv" in graft_command("inspect", path)
    graft_command("check", path)


def test_a_network_of_several_layers_and_bf16(tmp_path):
    module = trained(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)))
    x = torch.randn(3, 6)
    engine = graft.compile(str(saved(module, (x,), tmp_path / "a.pt2")), tune="off")
    close(torch.as_tensor(engine(x)), module(x))
    module, x = module.to(torch.bfloat16), x.to(torch.bfloat16)
    engine = graft.compile(str(saved(module, (x,), tmp_path / "b.pt2")), tune="off")
    torch.testing.assert_close(torch.as_tensor(engine(x)), module(x), rtol=3e-2, atol=3e-2)


def test_decomposed_programs_compile_as_well(mixed, tmp_path):
    module = mixed[0]
    x, w = torch.randn(3, 3, 8, 8), torch.randn(5)
    program = torch.export.export(module, (x, {"w": w})).run_decompositions()
    torch.export.save(program, tmp_path / "core.pt2")
    engine = graft.compile(str(tmp_path / "core.pt2"), tune="off")
    close(torch.as_tensor(engine(x, w)[0]), module(x, {"w": w})[0]["y"])


def test_modules_that_work_in_place_compile_undecomposed(tmp_path):
    nn = torch.nn
    layers = [nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.ELU, nn.CELU, nn.SELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.Hardsigmoid,
              nn.LeakyReLU, nn.Dropout, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout]
    chain = [each for layer in layers for each in (nn.Conv2d(3, 3, 1), layer(inplace=True))]
    module, x = nn.Sequential(*chain, nn.Threshold(0.1, 0.2, inplace=True)).eval(), torch.randn(2, 3, 4, 4)
    path = saved(module, (x,), tmp_path / "in_place.pt2")
    close(torch.as_tensor(graft.compile(str(path), tune="off")(x)), module(x))


class WritingParts(torch.nn.Module):
    """Writes into parts of tensors that it makes: by places and strides, of parts, and from others."""

    def forward(self, x):
        """Four tensors."""
        mask = x.new_zeros((6, 6))
        count = 0
        for rows in (slice(0, -3), slice(-3, -1), slice(-1, None)):
            for columns in (slice(0, 4), slice(4, None)):
                mask[rows, columns] = count
                count += 1
        scaled = x.clone()
        scaled[:, 1::2].mul_(3.0)
        scaled[0].zero_()
        scaled[1, 2:4] = scaled[2, :2] * 2.0
        row = x + 1
        part = row[2]
        part.add_(1.0)
        more = part * 2  # reads what was written
        part.relu_()
        return mask, scaled, row, more


def test_writes_into_parts_are_results(tmp_path):
    module, x = WritingParts().eval(), torch.randn(4, 6)
    engine = graft.compile(str(saved(module, (x,), tmp_path / "parts.pt2")), tune="off")
    for result, expected in zip(engine(x), module(x), strict=True):
        close(torch.as_tensor(result), expected)


class ReadingTheOtherPart(torch.nn.Module):
    """Reads one part after another that overlaps with it was written to."""

    def forward(self, x):
        """Their sum."""
        y = torch.relu(x)
        head, tail = y[:3], y[1:]
        head.add_(1.0)
        return head.sum() + tail.sum()


def test_a_part_that_is_read_after_another_was_written_to_is_refused(tmp_path):
    path = saved(ReadingTheOtherPart().eval(), (torch.randn(4, 6),), tmp_path / "other.pt2")
    with pytest.raises(graft.UnsupportedError, match="add_.Tensor writes into memory that 'slice.* shows.*decomp"):
        graft.compile(str(path))


def test_an_operator_without_converter_is_named_with_its_line(split, tmp_path):
    path = saved(split, (torch.randn(2, 3, 8, 8),), tmp_path / "split.pt2")
    with pytest.raises(graft.UnsupportedError, match=r"aten::digamma.*conftest\.py:\d+: .*digamma"):
        graft.compile(str(path))


class Counting(torch.nn.Module):
    """Writes to a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        """How often it was called, on top."""
        self.count.add_(1)
        return x + self.count


class Shown(torch.nn.Module):
    """Writes to memory that something else shows."""

    def forward(self, x):
        """x + 1 afterwards shows what relu_ wrote."""
        y = x * 2
        rows = y.view(-1)
        y.relu_()
        return rows + 1


@pytest.mark.parametrize("module", [Counting(), Shown()])
def test_writes_that_something_else_sees_are_refused(module, tmp_path):
    path = saved(module, (torch.randn(2, 3),), tmp_path / "writes.pt2")
    with pytest.raises(graft.UnsupportedError, match="writes"):
        graft.compile(str(path))


def rewritten(path, change):
    """The archive with one of its entries changed."""
    other = path.with_name("other.pt2")
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(other, "w") as made:
        for name in given.namelist():
            content = change(name, given.read(name))
            if content is not None:
                made.writestr(name, content)
    return other


def changed_document(path, change):
    """The archive with its graph's JSON changed."""
    def edit(name, content):
        if "/models/" not in name:
            return content
        document = json.loads(content)
        change(document)
        return json.dumps(document)
    return rewritten(path, edit)


def without_names_of_nodes(graph):
    """As torch before 2.11 describes graphs, those of functions among them."""
    for node in graph["nodes"]:
        node.pop("name", None)
        for each in node["inputs"]:
            if "as_graph" in each["arg"]:
                without_names_of_nodes(each["arg"]["as_graph"]["graph"])


def test_files_of_torch_before_2_11_name_no_nodes(mixed):
    module, path = mixed
    older = changed_document(path, lambda d: without_names_of_nodes(d["graph_module"]["graph"]))
    x, w = torch.randn(3, 3, 8, 8), torch.randn(5)
    for got, wanted in zip(graft.compile(str(older), tune="off")(x, w), flat(module(x, {"w": w})), strict=True):
        close(torch.as_tensor(got), wanted)


@pytest.mark.parametrize("change, message", [
    (lambda d: d["schema_version"].update(major=3), "schema has version 3"),
    (lambda d: d["graph_module"]["graph"]["nodes"][1]["inputs"][0]["arg"].update(as_tensor={"name": "nobody"}),
     "'nobody' is used before it is made"),
    (lambda d: d["graph_module"]["graph"]["nodes"][1].update(inputs=7), "'inputs' is no list"),
    (lambda d: d["graph_module"]["graph"]["tensor_values"]["x"].update(dtype=9), "element type"),
    (lambda d: d["graph_module"].pop("signature"), "'signature' is missing"),
])
def test_a_document_that_contradicts_itself_is_an_error(mixed, change, message):
    with pytest.raises(graft.Error, match=message):
        graft.compile(str(changed_document(mixed[1], change)))


def test_weights_that_are_missing_short_or_pickled_are_errors(mixed):
    path = mixed[1]
    without = rewritten(path, lambda name, content: None if name.endswith("weight_0") else content)
    with pytest.raises(graft.Error, match="has no 'data/weights/weight_0'"):
        graft.compile(str(without))
    short = rewritten(path, lambda name, content: content[:8] if name.endswith("weight_0") else content)
    with pytest.raises(graft.Error, match="outside of the bytes"):
        graft.compile(str(short))
    pickled = rewritten(path, lambda name, content: content.replace(b'"use_pickle": false', b'"use_pickle": true', 1))
    with pytest.raises(graft.Error, match="pickled"):
        graft.compile(str(pickled))


def test_what_is_no_archive_is_an_error(mixed, tmp_path):
    content = mixed[1].read_bytes()
    damaged = {"empty": b"", "text": b"hello" * 20, "cut": content[:-30], "half": content[len(content) // 2:]}
    for name, bad in damaged.items():
        path = tmp_path / f"{name}.pt2"
        path.write_bytes(bad)
        with pytest.raises(graft.Error, match="archive|directory"):
            graft.compile(str(path))


def test_element_types_have_torchs_numbers(tmp_path):
    module = torch.nn.Identity()
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float64,
                  torch.bool, torch.bfloat16):
        x = torch.ones(2, 3).to(dtype)
        engine = graft.compile(str(saved(module, (x,), tmp_path / "type.pt2")), tune="off")
        assert torch.as_tensor(engine(x)).dtype == dtype


def test_nothing_of_torch_is_needed(mixed):
    code = "import sys, graft; graft.compile(sys.argv[1], tune='off'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, mixed[1]], check=True)
