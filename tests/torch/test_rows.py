# SPDX-License-Identifier: Apache-2.0
"""Each row of the table of ATen operators, against torch's own result."""

import collections
import operator
import pathlib
import subprocess

import complex_cases
import pytest
import row_cases
import scatter_cases
import torch
from conftest import BUILD, TORCH

import graft
import graft.torch
from graft.engine import Engine
from graft.torch.fx_graph import HostGraph

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = collections.defaultdict(list)
for each_name, *each_case in row_cases.all_cases():
    CASES[each_name].append(each_case)
for each_names, *each_case in (*complex_cases.all_cases(), *scatter_cases.all_cases()):
    for each_name in each_names.split():
        CASES[each_name].append(each_case)

TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 2e-5, torch.float64: 1e-7}


def overload(name):
    """torch's own operator: `add.Tensor`, `relu`."""
    packet, _, which = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), which or "default")


def graph_of(name, arguments, attributes, expected):
    """One call, whose tensors come in: (module, tensors). Complex ones come in and go out as pairs of reals."""
    graph, tensors = torch.fx.Graph(), []

    def called(target, given, like):
        node = graph.call_function(target, given)
        node.meta["val"] = like
        return node

    def take(given):
        node = graph.placeholder(f"x{len(tensors)}")
        shown = torch.view_as_real(given.resolve_conj()).contiguous() if given.is_complex() else given
        node.meta["val"] = shown
        tensors.append(shown)
        return called(torch.ops.aten.view_as_complex.default, (node,), given) if given.is_complex() else node

    def shown_in(result, like):
        return called(torch.ops.aten.view_as_real.default, (result,), as_reals(like)) if is_complex(like) else result

    arguments, attributes = torch.utils._pytree.tree_map_only(torch.Tensor, take, (arguments, attributes))
    call = graph.call_function(overload(name), arguments, attributes)
    call.meta["val"] = expected
    results = [call]
    if not tensors:  # an engine is not made of constants alone
        results = [called(torch.ops.aten.where.self, (take(torch.tensor(True)), call, call), expected)]
    elif isinstance(expected, (list, tuple)):
        results = [graph.call_function(operator.getitem, (call, i)) for i in range(len(expected))]
        results = results[:1] if name in row_cases.FIRST_RESULT else results
        for result, like in zip(results, expected):
            result.meta["val"] = like
    every = expected if isinstance(expected, (list, tuple)) else [expected]
    graph.output(tuple(shown_in(*each) for each in zip(results, every)))
    return torch.fx.GraphModule({}, graph), tensors


def is_complex(result):
    """Whether a result, or None for one that is not there, has complex numbers."""
    return result is not None and result.is_complex()


def as_reals(result):
    """A result as it leaves an engine: complex numbers as pairs."""
    return torch.view_as_real(result.resolve_conj()) if is_complex(result) else result


def check(name, arguments, attributes, expected=None):
    """An engine gives what torch gives, for as many results as the row has."""
    expected = overload(name)(*arguments, **attributes) if expected is None else expected
    module, tensors = graph_of(name, arguments, attributes, expected)
    host = HostGraph(module, {})
    partition = host.handle.partition([])
    segments = partition.segments()
    assert segments, partition.report()
    nodes, inputs, outputs = segments[0][:3]
    engine = Engine(partition.compile(0, [("tune", "off")]), "cpu")
    names = {node.name: tensor for node, tensor in
             zip((node for node in module.graph.nodes if node.op == "placeholder"), tensors)}
    given = [names[host.values[index].name].contiguous() for index in inputs]
    got = engine(*given)
    got = got if isinstance(got, tuple) else (got,)
    every = [as_reals(each) for each in (expected if isinstance(expected, (list, tuple)) else [expected])]
    assert nodes and len(got) == (1 if name in row_cases.FIRST_RESULT else len(every))
    places = [host.index_of(node) for node in next(iter(reversed(module.graph.nodes))).args[0]]
    for index, result in zip(outputs, got):
        wanted = every[places.index(index)]
        assert result.dtype == wanted.dtype, f"{result.dtype} is not {wanted.dtype}"
        tolerance = TOLERANCES.get(wanted.dtype, 0)
        torch.testing.assert_close(torch.as_tensor(result), wanted, rtol=tolerance, atol=tolerance, equal_nan=True,
                                   check_stride=False)


@pytest.mark.parametrize("name", CASES)
def test_a_row_gives_what_torch_gives(name):
    failures = []
    for number, (arguments, attributes) in enumerate(CASES[name]):
        try:
            check(name, arguments, attributes)
        except (AssertionError, RuntimeError, ValueError, TypeError) as error:
            failures.append(f"case {number}: {error}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("name", row_cases.ON_A_GPU)
def test_attention_as_torch_chooses_it_on_a_gpu(name):
    heads = [row_cases.x(2, 3, 5, 8) for _ in range(3)]
    for causal in (False, True):
        expected = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=causal, scale=0.3)
        check(name, (*heads, *row_cases.ON_A_GPU[name]), {"is_causal": causal, "scale": 0.3}, [expected])


@pytest.mark.parametrize("sizes", [(6, 5), (7, 11), (3, 4)], ids=str)
def test_the_largest_of_windows_that_differ_in_size(sizes):
    pool = torch.nn.AdaptiveMaxPool2d((3, 4))
    image = row_cases.x(2, 3, *sizes)
    assert "stays:" not in graft.torch.dry_run(pool, [image])
    fast = torch.compile(pool, backend="graft", options={"strict": True, "tune": "off"})
    with torch.inference_mode():
        torch.testing.assert_close(fast(image), pool(image))


def listed():
    """{operator: names of its arguments}, as `graft ops --front-end aten` has them."""
    lines = subprocess.run([BUILD / "bin/graft", "ops", "--front-end", "aten"], capture_output=True, text=True,
                           check=True).stdout.splitlines()[1:-1]
    rows = [line.partition("  built in") for line in lines]
    return {name.strip(): [each for each in arguments.strip().split(", ") if each] for name, _, arguments in rows}


def test_every_row_of_tensors_has_a_case():
    in_place = [name for name in listed() if name.partition(".")[0].endswith("_") and not name.endswith("__")]
    of_the_language = {name.removeprefix("aten::") for name in listed()} & {
        "size.int", "sym_size.int", "size", "sym_size", "numel", "sym_numel", "dim", "len.t",
        "__getitem__.t", "Int.Tensor", "Int.Scalar", "Int.float", "Int.bool", "Float.Tensor", "Float.Scalar",
        "Float.int", "IntImplicit", "ScalarImplicit", "FloatImplicit", "item", "_local_scalar_dense", "add.int",
        "_assert_tensor_metadata", "sub.int", "mul.int", "floordiv.int", "__floordiv__.int", "remainder.int", "neg.int",
        "tensor.int", "tensor.float", "tensor.bool"}
    untried = {*of_the_language, *row_cases.UNDEFINED, *row_cases.ON_A_GPU, "to.prim_dtype",  # TorchScript's own
               "_native_batch_norm_legit"}
    of_numbers = {f"{schema.name}.{schema.overload_name}".rstrip(".").removeprefix("aten::")
                  for schema in torch._C._jit_get_all_schemas()
                  if not any("Tensor" in str(each.type) for each in [*schema.arguments, *schema.returns])}
    untried |= of_numbers | {"Bool.Tensor"}
    missing = [name for name in listed() if name.startswith("aten::") and name not in in_place
               and name.removeprefix("aten::") not in {*CASES, *untried}]
    assert not missing


def test_the_list_of_core_operators_is_torchs_own():
    lines = (ROOT / "tools/docs/core_aten_operators.txt").read_text().splitlines()
    stated = dict((line.split(" = ") + [""])[:2] for line in lines if not line.startswith("#"))
    core = set()
    for schema in torch._C._jit_get_all_schemas():
        name = f"{schema.name.removeprefix('aten::')}.{schema.overload_name}".rstrip(".")
        packet = getattr(torch.ops.aten, name.partition(".")[0], None) if schema.name.startswith("aten::") else None
        if packet is not None and (schema.overload_name or "default") in packet.overloads():
            core |= {name} if torch.Tag.core in overload(name).tags else set()
    assert set(stated) == core if TORCH >= (2, 11) else set(stated) >= core  # the list grows
    rows = listed()
    for name, reason in stated.items():
        assert (f"aten::{name}" in rows) != bool(reason), name


def test_rows_name_their_arguments_as_torch_does():
    known = {f"{schema.name}.{schema.overload_name}".rstrip("."): [each.name for each in schema.arguments]
             for schema in torch._C._jit_get_all_schemas()}
    wrong = {name: (arguments, known[name]) for name, arguments in listed().items()
             if name in known and not set(arguments) <= set(known[name])}
    assert not wrong
