# SPDX-License-Identifier: Apache-2.0
"""Converters of one's own, from Python and from a shared library, by all doors."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch
from conftest import BUILD, FAST, close

import graft
import graft.torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "converters"


@torch.library.custom_op("graft_test::swish", mutates_args=())
def swish(x: torch.Tensor, beta: float = 1.0) -> torch.Tensor:
    """torch's own."""
    return x * torch.sigmoid(beta * x)


@torch.library.custom_op("graft_test::halves", mutates_args=())
def halves(x: torch.Tensor, dim: int) -> list[torch.Tensor]:
    """A list of two."""
    return [each.clone() for each in x.chunk(2, dim)]


@torch.library.custom_op("graft_test::scaled", mutates_args=())
def scaled(x: torch.Tensor, weight: torch.Tensor, sizes: list[int], mode: str,
           shift: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Arguments of all kinds, and two results."""
    y = (x * weight).reshape(sizes)
    return y if shift is None else y + shift, y.neg() if mode == "neg" else y.clone()


swish.register_fake(lambda x, beta=1.0: torch.empty_like(x))
halves.register_fake(lambda x, dim: [torch.empty_like(each) for each in x.chunk(2, dim)])
scaled.register_fake(lambda x, weight, sizes, mode, shift=None: (x.new_empty(sizes), x.new_empty(sizes)))


class Net(torch.nn.Module):
    """relu, the operator, and another operator behind it."""

    def __init__(self, call):
        super().__init__()
        self.call = call
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 2, 6))

    def forward(self, x):
        """What follows shows that types and sizes are known."""
        results = self.call(torch.relu(x) - 0.25, self.weight)
        return [torch.tanh(each) for each in results]


def as_list(result):
    """[tensor, ...]"""
    return [torch.as_tensor(each) for each in (result if isinstance(result, (tuple, list)) else [result])]


def by_compile(net, x, _):
    """torch.compile, all of it in an engine."""
    torch._dynamo.reset()
    compiled = torch.compile(net, backend="graft", options={"strict": True, **FAST})
    with torch.inference_mode():
        assert "stays:" not in str(graft.torch.dry_run(net, [x]))
        return compiled(x)


def by_script(net, x, _):
    """TorchScript."""
    traced = torch.jit.trace(net.eval(), x)
    return graft.torch.script.compile(traced, [x], require_full=True, strict=True, **FAST)(x)


def by_file(net, x, folder):
    """A .pt2 file, which is read without torch."""
    torch.export.save(torch.export.export(net, (x,)), folder / "net.pt2")
    return graft.compile(folder / "net.pt2", **FAST)(x)


DOORS = [by_compile, by_script, by_file]


@pytest.fixture(name="converters")
def fixture_converters():
    """Takes back what a test registers."""
    made = []

    def register(signature, function, **choices):
        graft.torch.converter(signature, **choices)(function)
        made.append(function)

    yield register
    for each in dict.fromkeys(made):
        graft.remove_converter(each)


def convert_swish(graph, x, beta):
    """x * sigmoid(beta * x)"""
    return graph.add("Mul", x, graph.add("Sigmoid", graph.add("Mul", x, beta)))


def agree(net, folder, door):
    """The door gives what torch gives."""
    torch.manual_seed(2)
    x = torch.randn(4, 6)
    for got, wanted in zip(as_list(door(net, x, folder)), net(x), strict=True):
        close(got, wanted)


@pytest.mark.parametrize("door", DOORS)
def test_a_python_converter_serves_every_door(converters, door, tmp_path):
    converters("graft_test::swish", convert_swish)
    agree(Net(lambda x, w: [swish(x, 1.5), swish(x)]), tmp_path, door)


@pytest.mark.parametrize("door", DOORS)
def test_arguments_of_all_kinds_and_several_results(converters, door, tmp_path):
    seen = []

    def convert(graph, x, weight, sizes, mode, shift):
        seen.append((x.dtype, x.shape, sizes, mode, shift is None, weight.shape))
        y = graph.add("Reshape", graph.add("Mul", x, weight), sizes)
        return y if shift is None else graph.add("Add", y, shift), graph.add("Neg", y)

    converters("graft_test::scaled", convert)
    agree(Net(lambda x, w: scaled(x, w, [8, 3], "neg")), tmp_path, door)
    assert set(map(str, seen)) == {"('float32', (4, 6), [8, 3], 'neg', True, (6,))"}
    agree(Net(lambda x, w: scaled(x, w, [2, 2, 6], "neg", w)), tmp_path, door)


@pytest.mark.parametrize("door", DOORS)
def test_a_list_of_tensors_as_result(converters, door, tmp_path):
    def convert(graph, x, dim):
        size = x.shape[dim] // 2
        return list(graph.add("Split", x, [size, size], outputs=2, axis=dim))

    converters("graft_test::halves(Tensor x, int dim) -> Tensor[]", convert)
    agree(Net(lambda x, w: halves(x, 1)), tmp_path, door)


def test_constants_of_the_model_can_be_read(converters, tmp_path):
    def convert(graph, x, weight, *_):
        factor = np.float32(weight.numpy().sum())
        y = graph.add("Reshape", graph.add("Mul", x, factor), graph.shape("sizes"))
        return y, y

    converters("graft_test::scaled", convert)
    net = Net(lambda x, w: scaled(x, w, [8, 3], "neg"))
    x = torch.randn(4, 6)
    expected = torch.tanh(((torch.relu(x) - 0.25) * net.weight.sum()).reshape(8, 3))
    close(as_list(by_file(net, x, tmp_path))[0], expected)

    def wants_a_constant(_, x, *__):
        return x.numpy()

    converters("graft_test::scaled", wants_a_constant, priority=1)
    close(as_list(by_file(net, x, tmp_path))[0], expected)  # a refusal asks the other


def test_an_operator_of_ones_own_in_a_converter(converters, tmp_path):
    @graft.operator("graft_test::Swish")
    def own(x: "T[...]", *, beta: float) -> "T[...]":  # noqa: F821
        return x / (1.0 + graft.operators.exp(-(x * beta)))

    converters("graft_test::swish", lambda graph, x, beta: graph.add(own, x, beta=beta))
    agree(Net(lambda x, w: [swish(x, 0.75)]), tmp_path, by_file)


def test_priorities_and_refusals_reach_graft_s_own_converter(converters, tmp_path):
    asked = []

    def refusing(graph, x):
        asked.append("refusing")
        graph.refuse("only on Sundays")

    def negative(graph, x):
        asked.append("negative")
        return graph.add("Neg", x)

    converters("aten::tanh", refusing, priority=3)
    agree(Net(lambda x, w: [x * w]), tmp_path, by_file)
    assert set(asked) == {"refusing"}
    converters("aten::tanh", negative, priority=-1)
    agree(Net(lambda x, w: [x * w]), tmp_path, by_file)
    assert "negative" not in asked
    converters("aten::tanh", negative)
    with pytest.raises(AssertionError):
        agree(Net(lambda x, w: [x * w]), tmp_path, by_file)
    assert "negative" in asked


def test_a_refusal_is_told_with_its_reason(converters):
    def refusing(graph, x, beta):
        graph.refuse(f"beta is {beta}")

    converters("graft_test::swish", refusing)
    text = graft.torch.dry_run(Net(lambda x, w: [swish(x, 1.5)]), [torch.randn(4, 6)])
    assert "graft_test::swish" in text and "beta is 1.5" in text


def raises(graph, x, beta):
    """A fault of its own."""
    return graph.add("Mul", x, 1 // 0)


def gives_none(*_):
    """No result."""


def gives_two(_, x, __):
    """One too many."""
    return x, x


def gives_integers(graph, x, _):
    """Another type than torch's."""
    return graph.add("Cast", x, to=7)


def misspells(graph, x, _):
    """No operator."""
    return graph.add("Sigmiod", x)


def catches(graph, x, _):
    """The failure stays."""
    try:
        graph.add("Sigmoid", x, x)
    except Exception:  # pylint: disable=broad-exception-caught
        pass
    return x


FAULTS = [(raises, "ZeroDivisionError"), (gives_none, "NoneType"), (gives_two, "gives 2 results"),
          (gives_integers, "i64"), (misspells, "did you mean 'Sigmoid'"), (catches, "node of Sigmoid")]


@pytest.mark.parametrize("fault,said", FAULTS, ids=lambda each: getattr(each, "__name__", ""))
def test_faults_are_errors_with_node_operator_and_converter(converters, fault, said, tmp_path):
    converters("graft_test::swish", fault)
    net, x = Net(lambda x, w: [swish(x, 1.5)]), torch.randn(4, 6)
    for door in DOORS:
        if fault is gives_integers and door is by_file:  # an archive states no types of results
            continue
        with pytest.raises(Exception, match=said) as error:
            door(net, x, tmp_path)
        for part in ("graft_test::swish", fault.__name__, "test_converters.py"):
            assert part in str(error.value)


def test_names_without_an_operator_and_texts_without_a_signature_are_refused():
    with pytest.raises(graft.InvalidArgumentError, match="no operator graft_test::nothing"):
        graft.torch.converter("graft_test::nothing")(convert_swish)
    with pytest.raises(graft.InvalidArgumentError, match="names no namespace"):
        graft.converter("nothing(Tensor self) -> Tensor")(convert_swish)
    with pytest.raises(graft.InvalidArgumentError, match="no converter of this process"):
        graft.remove_converter(convert_swish)


@pytest.fixture(name="library", scope="module")
def fixture_library(tmp_path_factory):
    """The example, built with the headers alone."""
    path = tmp_path_factory.mktemp("library") / "libactivations.so"
    subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", "-I",
                    ROOT / "include", EXAMPLES / "activations.c", "-o", path], check=True)
    return path


@pytest.fixture(name="net_of_library", scope="module")
def fixture_net_of_library():
    """A network of the operators that the example converts."""
    def make(x: torch.Tensor, beta: float = 1.0) -> torch.Tensor:
        return x * torch.sigmoid(beta * x)

    def cube(x: torch.Tensor) -> torch.Tensor:
        return x * x * x

    for name, function in (("example::swish", make), ("example::cube", cube)):
        made = torch.library.custom_op(name, function, mutates_args=())
        made.register_fake(lambda x, *_: torch.empty_like(x))
    return Net(lambda x, w: [torch.ops.example.swish(x, 1.5), torch.ops.example.cube(x)]).eval()


def test_a_shared_library_serves_the_command(library, net_of_library, tmp_path):
    x = torch.randn(4, 6)
    torch.export.save(torch.export.export(net_of_library, (x,)), tmp_path / "net.pt2")
    command = [BUILD / "bin" / "graft", "compile", tmp_path / "net.pt2", "-o", tmp_path / "net.graft", "--tune", "off"]
    without = subprocess.run(command, capture_output=True, text=True, check=False)
    assert without.returncode != 0 and "there is no converter for example::swish" in without.stderr
    subprocess.run([*command, "--converters", library], check=True)
    for got, wanted in zip(as_list(graft.load(tmp_path / "net.graft")(x)), net_of_library(x), strict=True):
        close(got, wanted)
    listed = subprocess.run([BUILD / "bin" / "graft", "ops", "example", "--front-end", "aten", "--converters", library],
                            capture_output=True, text=True, check=True).stdout
    assert "example::cube" in listed and "libactivations.so" in listed


def test_a_shared_library_serves_torch_and_the_process(library, net_of_library, tmp_path):
    x = torch.randn(4, 6)
    choices = {"converters": [library], "strict": True, **FAST}
    traced = torch.jit.trace(net_of_library, x)
    for got, wanted in zip(graft.torch.script.compile(traced, [x], require_full=True, **choices)(x),
                           net_of_library(x), strict=True):
        close(got, wanted)
    with torch.inference_mode():
        compiled = torch.compile(net_of_library, backend="graft", options=choices)
        assert "stays:" not in graft.torch.dry_run(net_of_library, [x], converters=[library])
        for got, wanted in zip(compiled(x), net_of_library(x), strict=True):
            close(got, wanted)
    graft.load_converters(library)
    for got, wanted in zip(as_list(by_file(net_of_library, x, tmp_path)), net_of_library(x), strict=True):
        close(got, wanted)
    graft.remove_converter(library)


def test_what_is_no_library_of_converters_is_refused(tmp_path, library):
    with pytest.raises(graft.InvalidArgumentError, match="cannot be loaded"):
        graft.load_converters(tmp_path / "none.so")
    other = BUILD / "lib" / "libgraft.so"
    with pytest.raises(graft.InvalidArgumentError, match="no function graft_converters"):
        graft.load_converters(other)
    newer = (EXAMPLES / "activations.c").read_text().replace("GRAFT_CONVERTER_VERSION", "99")
    (tmp_path / "newer.c").write_text(newer)
    subprocess.run(["cc", "-shared", "-fPIC", "-I", ROOT / "include", tmp_path / "newer.c", "-o",
                    tmp_path / "newer.so"], check=True)
    with pytest.raises(graft.InvalidArgumentError, match="version 99"):
        graft.load_converters(tmp_path / "newer.so")


def test_the_example_runs():
    done = subprocess.run([sys.executable, EXAMPLES / "torch_converters.py"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0 and "converted by all doors" in done.stdout, done.stderr
