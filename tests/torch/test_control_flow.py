# SPDX-License-Identifier: Apache-2.0
"""torch.cond, torch.while_loop, scan and map: by torch.compile, by torch.export and from its files."""

import json
import zipfile

import pytest
import torch
from conftest import FAST, TORCH, close, trained
from torch._higher_order_ops.map import map as along_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import graft
import graft.torch


class Branches(torch.nn.Module):
    """Two branches with a layer in one of them, whose result is read on."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        """Both results of the branch."""
        a, b = torch.cond(x.sum() > 0, lambda y: (self.layer(y), y.sum()), lambda y: (y * 2.0, y.sum() + 1.0), (x,))
        return torch.relu(a) + b


class Whiles(torch.nn.Module):
    """As many rounds as the data says."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        """The number of rounds is a result."""
        count, y = while_loop(lambda i, y: (y.abs().sum() < 50.0) & (i < 6),
                              lambda i, y: (i + 1, torch.tanh(self.layer(y)) + y),
                              (torch.zeros((), dtype=torch.int64), x))
        return y, count


class Nested(torch.nn.Module):
    """A loop within a branch within a loop."""

    def forward(self, x):
        """Sums."""
        def inner(total):
            return while_loop(lambda j, t: j < 3, lambda j, t: (j + 1, t + x * 0.25),
                              (torch.zeros((), dtype=torch.int64), total))[1]

        def step(i, total):
            return i + 1, torch.cond(total.sum() > 1.0, lambda t: t * 0.5, inner, (total,))

        return while_loop(lambda i, t: i < 4, step, (torch.zeros((), dtype=torch.int64), x * 0.5))[1]


class Scans(torch.nn.Module):
    """A recurrence along the first axis, and a function of each row."""

    def forward(self, x):
        """State, all states, rows."""
        def step(h, row):
            h = torch.tanh(h * 0.5 + row)
            return h, h * 2.0

        h, states = scan(step, torch.zeros(4), x, dim=0)
        return h, states, along_rows(lambda row, last: row * last + 1.0, x, h)


MODELS = [Branches, Whiles, Nested, Scans]


def samples():
    """Tensors with sums of both signs, one that no round is needed for."""
    generator = torch.Generator().manual_seed(4)
    for rows in (3, 2, 5):
        for shift in (-0.7, 0.7):
            yield torch.randn(rows, 4, generator=generator) + shift
    yield torch.full((3, 4), 100.0)


def made(kind):
    """In evaluation mode."""
    return trained(kind())


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_by_torch_compile(kind):
    model = made(kind)
    fast = torch.compile(model, backend="graft", options={"strict": True, **FAST}, dynamic=kind is not Scans)
    fallbacks = graft.torch.fallback_count()
    with torch.no_grad():
        for x in samples():
            close(fast(x), model(x))
    assert graft.torch.fallback_count() == fallbacks
    torch._dynamo.reset()
    assert "stays" not in graft.torch.dry_run(model, [next(samples())])


def exported(kind):
    """Of a batch of two to nine where torch can say so."""
    if kind is Scans and TORCH < (2, 11):
        pytest.skip("torch before 2.11 exports a scan for one length alone")
    model = made(kind)
    rows = torch.export.Dim("rows", min=2, max=9)
    with torch.no_grad():
        return model, torch.export.export(model, (torch.randn(3, 4),), dynamic_shapes=({0: rows},), strict=False)


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_by_torch_export(kind):
    model, program = exported(kind)
    fast = graft.torch.compile(program, strict=True, require_full=True, **FAST)
    assert fast.engines == 1
    for x in samples():
        close(fast(x), model(x))


@pytest.mark.parametrize("decomposed", [False, True], ids=["as it is", "decomposed"])
@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_from_a_file_without_torch(kind, decomposed, tmp_path):
    model, program = exported(kind)
    path = tmp_path / "net.pt2"
    torch.export.save(program.run_decompositions() if decomposed else program, path)
    engine = graft.compile(str(path), **FAST)
    for x in samples():
        results = engine(x.numpy())
        results = [torch.as_tensor(each) for each in (results if isinstance(results, tuple) else [results])]
        close(results, list(torch.utils._pytree.tree_leaves(model(x))))


class Unsupported(torch.nn.Module):
    """An operator without a converter in a branch."""

    def forward(self, x):
        """One of both."""
        return torch.cond(x.sum() > 0, lambda y: torch.digamma(y + 3.0), lambda y: y * 2.0, (x,)) + 1.0


def test_an_operator_without_converter_in_a_branch_is_named(tmp_path):
    with torch.no_grad():
        program = torch.export.export(Unsupported(), (torch.randn(3, 4),))
    torch.export.save(program, tmp_path / "net.pt2")
    with pytest.raises(graft.UnsupportedError, match="higher_order::cond.*aten::digamma"):
        graft.compile(str(tmp_path / "net.pt2"), **FAST)
    with pytest.raises(graft.UnsupportedError, match="aten::digamma"):
        graft.torch.compile(program, require_full=True, **FAST)
    fast = graft.torch.compile(program, **FAST)
    for x in (torch.rand(3, 4), -torch.rand(3, 4)):
        close(fast(x), Unsupported()(x))


def rewritten(path, change):
    """The archive with another description of its program."""
    with zipfile.ZipFile(path) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    name = next(each for each in entries if each.endswith("models/model.json"))
    document = json.loads(entries[name])
    change(document["graph_module"]["graph"])
    entries[name] = json.dumps(document).encode()
    changed = path.with_name("changed.pt2")
    with zipfile.ZipFile(changed, "w", zipfile.ZIP_STORED) as archive:
        for each, content in entries.items():
            archive.writestr(each, content)
    return str(changed)


def cond_of(graph):
    """The branch among the nodes."""
    return next(node for node in graph["nodes"] if node["target"].endswith("higher_order.cond"))


def function_of(graph, position=1):
    """The graph of a branch."""
    return cond_of(graph)["inputs"][position]["arg"]["as_graph"]


def nest(graph, depth):
    """A branch within itself, so often."""
    own = list(function_of(graph)["graph"]["nodes"])
    for _ in range(depth):
        inner = json.loads(json.dumps(cond_of(graph)))
        inner["inputs"][0]["arg"] = {"as_bool": True}
        function_of(graph)["graph"]["nodes"] = [*own, inner]


CHANGES = {
    "a result too few": (lambda graph: function_of(graph)["graph"]["outputs"].pop(), "other counts"),
    "an input too few": (lambda graph: function_of(graph)["graph"]["inputs"].pop(), "used before it is made|takes"),
    "no function": (lambda graph: cond_of(graph)["inputs"].pop(1), "higher_order::cond"),
    "a function of nothing": (lambda graph: function_of(graph).update(graph={}), "inputs"),
    "one name for both": (lambda graph: function_of(graph, 2).update(name=function_of(graph)["name"]), "two functions"),
    "nested deep": (lambda graph: nest(graph, 6), "nested more than 5 deep"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_branch_that_contradicts_itself_is_an_error(name, tmp_path):
    _, program = exported(Branches)
    torch.export.save(program, tmp_path / "net.pt2")
    change, message = CHANGES[name]
    with pytest.raises(graft.Error, match=message):
        graft.compile(rewritten(tmp_path / "net.pt2", change), **FAST)
