# SPDX-License-Identifier: Apache-2.0
"""The judge of random networks, on networks made by hand: what it must find, and what it must let pass."""

import os
import pathlib
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import comparison  # noqa: E402
import minimise  # noqa: E402
import networks  # noqa: E402
from check import TARGETS, Checker  # noqa: E402
from worker import Failure  # noqa: E402

BUILD = pathlib.Path(os.environ.get("GRAFT_BUILD", pathlib.Path(__file__).resolve().parents[3] / "build"))


@pytest.fixture
def checker():
    made = Checker(BUILD / "bin" / "graft")
    yield made
    made.stop()


def network(nodes, inputs, outputs, constants=()):
    """inputs and outputs: (name, type, shape); constants: (name, array)."""
    graph = helper.make_graph(nodes, "by_hand", [helper.make_tensor_value_info(*value) for value in inputs],
                              [helper.make_tensor_value_info(*value) for value in outputs],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def softmax_of_a_product(kind=TensorProto.FLOAT):
    nodes = [helper.make_node("MatMul", ["a", "b"], ["m"], "product"),
             helper.make_node("Sigmoid", ["m"], ["s"], "gate"),
             helper.make_node("Softmax", ["s"], ["y"], "weights", axis=1)]
    return network(nodes, [("a", kind, [3, 5]), ("b", kind, [5, 4])], [("y", kind, [3, 4])])


class Spoiled:
    """graft, with the results of generated kernels changed."""

    def __init__(self, worker, change):
        self.worker, self.change = worker, change

    def run(self, model, inputs, **options):
        outputs, engine = self.worker.run(model, inputs, **options)
        if options["mode"] == "generated":
            outputs = {name: self.change(value) for name, value in outputs.items()}
        return outputs, engine

    def stop(self):
        self.worker.stop()


@pytest.mark.parametrize("target", TARGETS)
def test_finds_nothing_where_all_agree(checker, target):
    model = softmax_of_a_product()
    assert checker.check(model, networks.random_inputs(model, 1), target) == []


def test_finds_a_wrong_element_and_keeps_the_node_that_makes_it(checker):
    def change(value):
        value = value.copy()
        value.flat[-1] *= 1.01
        return value

    checker.graft = Spoiled(checker.graft, change)
    model = softmax_of_a_product()
    inputs = networks.random_inputs(model, 1)
    assert [finding.kind for finding in checker.check(model, inputs, "native")] == ["generated"]
    small, given = minimise.minimise(checker, model, inputs, "native", "generated")
    assert len(small.graph.node) == 1
    assert [finding.kind for finding in checker.check(small, given, "native")] == ["generated"]


def test_finds_a_crash_a_hang_and_an_internal_error(checker):
    model = softmax_of_a_product()
    inputs = networks.random_inputs(model, 1)
    for failure, kind in [(Failure("crash", "SIGSEGV"), "crash"), (Failure("hang", "60 s"), "hang"),
                          (Failure("error", "This is a bug in Graft; please report it."), "internal error"),
                          (Failure("error", "the operator MatMul has no definition"), "refused")]:
        def change(_, failure=failure):
            raise failure

        whole = checker.graft
        checker.graft = Spoiled(whole, change)
        assert [finding.kind for finding in checker.check(model, inputs, "native")] == [kind]
        checker.graft = whole


def test_a_process_that_dies_is_a_failure_and_the_next_network_runs(checker):
    model = softmax_of_a_product()
    inputs = networks.random_inputs(model, 1)
    checker.graft.start()
    checker.graft.process.kill()
    with pytest.raises(Failure, match="SIGKILL"):
        checker.graft.run(model, inputs, mode="generated", target="native", disable=[])
    assert checker.check(model, inputs, "native") == []


def test_lets_pass_what_wider_types_between_nodes_do(checker):
    """1 + x - 1 in fp16 is 0 for a small x; ONNX Runtime, keeping f32 between the nodes, gives x."""
    kind = TensorProto.FLOAT16
    nodes = [helper.make_node("Add", ["x", "one"], ["sum"]), helper.make_node("Sub", ["sum", "one"], ["y"])]
    model = network(nodes, [("x", kind, [8])], [("y", kind, [8])], [("one", np.float16(1))])
    inputs = {"x": np.linspace(1e-4, 4e-4, 8).astype(np.float16)}
    assert checker.check(model, inputs, "native") == []


def test_lets_pass_what_rounding_does_to_a_step_function_and_no_more():
    expected, near = np.float32([1, 2, 3]), np.float32([1, 2.00002, 3])
    assert comparison.difference(expected, near) is None
    assert "1 of 3 differ, first [1]" in comparison.difference(expected, np.float32([1, 2.001, 3]))
    stepped = comparison.spread(expected, [expected, np.float32([1, 3, 3])])
    assert comparison.difference(expected, np.float32([1, 3, 3]), stepped) is None
    assert comparison.difference(expected, np.float32([2, 3, 3]), stepped)


def test_undefined_is_what_no_integer_holds():
    nodes = [helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT8), helper.make_node("Abs", ["i"], ["y"])]
    from check import undefined_elements
    model = network(nodes, [("x", TensorProto.FLOAT, [4])], [("y", TensorProto.INT8, [4])])
    x = np.float32([1, -128.5, 128, np.nan])
    undefined = undefined_elements(model, {"x": x, "i": x.astype(np.float64), "y": x.astype(np.float64)} |
                                   {"i": np.int8([1, -128, 0, 0]), "y": np.int8([1, 0, 0, 0])})
    assert undefined["i"].tolist() == [False, False, True, True]
    assert undefined["y"].all()


def test_an_infinity_of_weight_zero_is_open_and_nothing_else_of_a_resize():
    from check import open_elements
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear")
    expected, actual = np.float32([np.nan, -np.inf, 1]), np.float32([-np.inf, -np.inf, 2])
    for x, differs in ((np.float32([-np.inf, 1]), "1 of 3"), (np.float32([-1, 1]), "2 of 3")):
        ignored, allowed = open_elements(node, {"x": x}, expected, actual, None)
        assert differs in comparison.difference(expected, actual, allowed, ignored)


def test_a_long_sum_may_be_added_in_another_order_and_no_more():
    weights = np.random.default_rng(1).standard_normal(16384).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = network([node], [("x", TensorProto.FLOAT, [1, 16384])], [("y", TensorProto.FLOAT, [1])])
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    x, generator = np.full((1, 16384), 0.5, np.float32), np.random.default_rng(0)
    runs = []
    for _ in range(8):
        moved, inputs = networks.disturbed_arguments(model, {"x": x}, generator)
        runs.append(inputs["x"].astype(float) @ numpy_helper.to_array(moved.graph.initializer[0]))
    expected = (x.astype(float) @ weights).astype(np.float32)
    allowed = 4 * comparison.spread(expected, runs)
    assert 1e-6 < allowed.max() < 1e-3
    assert comparison.difference(expected, expected + np.float32(1e-2), allowed)


def test_networks_of_samples_have_branches_loops_open_sizes_and_empty_tensors():
    import from_samples
    operators = from_samples.samples()
    assert len(operators) > 150
    made = [from_samples.make(seed, operators) for seed in range(1, 25)]
    kinds = {node.op_type for model, _ in made for node in model.graph.node}
    assert {"If", "Loop"} < kinds and len(kinds) > 60
    shapes = [value.type.tensor_type.shape.dim for model, _ in made for value in model.graph.input]
    assert any(dim.dim_param for shape in shapes for dim in shape)
    assert any(array.size == 0 for _, inputs in made for array in inputs.values())
    for model, inputs in made:
        assert [value.name for value in model.graph.input] == list(inputs)


def test_a_seed_makes_the_same_network_of_samples_again():
    import from_samples
    operators = from_samples.samples()
    first, again = (from_samples.make(7, operators) for _ in range(2))
    assert first[0].SerializeToString() == again[0].SerializeToString()
    assert all(np.array_equal(again[1][name], array) for name, array in first[1].items())
