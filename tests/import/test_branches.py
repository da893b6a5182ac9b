# SPDX-License-Identifier: Apache-2.0
"""Branches whose results have different numbers of axes, as exporters write `squeeze`, against ONNX Runtime."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import library

X = np.arange(-6, 6, dtype=np.float32).reshape(1, 3, 4)


def squeezed_or_not(readers, constants=(), result="y", declared=None):
    """y from s, which is x, or x without its first axis; the graph may declare the shape of its result."""
    then = helper.make_graph([helper.make_node("Squeeze", ["x", "first"], ["t"], name="squeeze")], "then", [],
                             [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)])
    otherwise = helper.make_graph([helper.make_node("Identity", ["x"], ["e"], name="same")], "else", [],
                                  [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)])
    branch = helper.make_node("If", ["flag"], ["s"], name="branch", then_branch=then, else_branch=otherwise)
    graph = helper.make_graph([branch, *readers], "branches",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n", 4]),
                               helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
                              [helper.make_tensor_value_info(result, TensorProto.FLOAT, declared)],
                              [numpy_helper.from_array(np.array(value), name)
                               for name, value in [("first", [0]), *constants]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs, [output], name=output, **attributes)


READERS = {
    "flattened": ([node("Exp", ["s"], "a"), node("Reshape", ["a", "flat"], "y")], [("flat", [-1])]),
    "reduced": ([node("ReduceSum", ["s"], "y", keepdims=0)], []),
    "read_twice": ([node("Neg", ["s"], "a"), node("Abs", ["s"], "b"), node("Mul", ["a", "b"], "c"),
                    node("Add", ["c", "x"], "y")], []),
    "by_its_shape": ([node("Shape", ["s"], "a"), node("ReduceProd", ["a"], "b", keepdims=0),
                      node("Cast", ["b"], "c", to=TensorProto.FLOAT), node("Mul", ["c", "x"], "y")], []),
}


@pytest.mark.parametrize("mode", ["generated", "interpret"])
@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("name", READERS)
def test_readers_of_either_rank_give_what_onnx_runtime_gives(name, flag, mode):
    model = squeezed_or_not(*READERS[name])
    feeds = {"x": X, "flag": np.array(flag)}
    expected = onnxruntime.InferenceSession(model).run(None, feeds)[0]
    with library.Engine(library.load(), model, [("mode", mode), ("device", "cpu")]) as engine:
        result = engine.run([(key, numpy_helper.from_array(value)) for key, value in feeds.items()], ["y"])[0]
    np.testing.assert_allclose(numpy_helper.to_array(result), expected, rtol=1e-6)


def run(model, feeds, output="y"):
    with library.Engine(library.load(), model, [("device", "cpu")]) as engine:
        found = engine.run([(key, numpy_helper.from_array(value)) for key, value in feeds.items()], [output])[0]
    return numpy_helper.to_array(found)


def test_a_reader_that_takes_one_of_the_ranks_takes_that_branch_alone():
    model = squeezed_or_not([node("Gemm", ["s", "s"], "y", transB=1)])
    np.testing.assert_allclose(run(model, {"x": X, "flag": np.array(True)}), X[0] @ X[0].T, rtol=1e-6)
    with pytest.raises(library.GraftError, match="the condition of node 'branch' takes the else_branch, which does "
                                                 "not fit what reads it: node 'y'.*matrices"):
        run(model, {"x": X, "flag": np.array(False)})


def test_a_reader_that_takes_neither_of_the_ranks_is_refused_by_its_name():
    convolution = node("Conv", ["s", "w"], "y")
    with pytest.raises(library.GraftError, match="node '.*(y|branch)'"):
        run(squeezed_or_not([convolution], [("w", np.ones((1, 1, 1, 1, 1), np.float32))]),
            {"x": X, "flag": np.array(True)})


@pytest.mark.parametrize("readers", [[], [node("Exp", ["s"], "y")], [node("Softmax", ["s"], "a", axis=-1),
                                                                     node("Mul", ["a", "s"], "y")]],
                         ids=["none", "one", "two"])
@pytest.mark.parametrize("flag, shape", [(True, ["n", 4]), (False, [1, "n", 4])])
def test_the_number_of_axes_that_a_graph_declares_decides_the_branch(flag, shape, readers):
    result = "y" if readers else "s"
    model = squeezed_or_not(readers, result=result, declared=shape)
    feeds = {"x": X, "flag": np.array(flag)}
    np.testing.assert_allclose(run(model, feeds, result), onnxruntime.InferenceSession(model).run(None, feeds)[0],
                               rtol=1e-6)
    with pytest.raises(library.GraftError, match=f"the condition of node 'branch' takes the "
                                                 f"{'else' if flag else 'then'}_branch, which does not fit"):
        run(model, {"x": X, "flag": np.array(not flag)}, result)


def test_an_open_number_of_axes_names_the_branches_and_what_they_depend_on():
    sizes = [node("Shape", ["x"], "shape"), node("ReduceProd", ["shape"], "count", keepdims=0)]
    then = helper.make_graph([node("Flatten", ["x"], "t")], "then", [], [helper.make_empty_tensor_value_info("t")])
    same = helper.make_graph([node("Identity", ["x"], "e")], "else", [], [helper.make_empty_tensor_value_info("e")])
    branch = helper.make_node("If", ["few"], ["s"], name="by size", then_branch=then, else_branch=same)
    nodes = [*sizes, node("Less", ["count", "most"], "few"), branch, node("Exp", ["s"], "y")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3, "columns"])
    graph = helper.make_graph(nodes, "sizes", [x], [helper.make_empty_tensor_value_info("y")],
                              [numpy_helper.from_array(np.array(9), "most")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    with pytest.raises(library.GraftError, match=r"value 'y': .* node 'by size' \(If\) give 2 and 3 axes, and its "
                                                 r"condition depends on 'columns', 'rows': state it"):
        run(model, {"x": np.ones((1, 3, 4), np.float32)})


def test_a_branch_by_size_is_followed_to_a_recurrence():
    """Features that are squeezed where their last axis is 1, and a cell that asks for the rank of what it gets."""
    hidden = 4
    squeeze = helper.make_graph([node("Squeeze", ["x", "last"], "t")], "then", [],
                                [helper.make_empty_tensor_value_info("t")])
    same = helper.make_graph([node("Identity", ["x"], "e")], "else", [], [helper.make_empty_tensor_value_info("e")])
    more = helper.make_graph([node("Unsqueeze", ["s", "zero"], "u")], "more", [],
                             [helper.make_empty_tensor_value_info("u")])
    keep = helper.make_graph([node("Identity", ["s"], "k")], "keep", [], [helper.make_empty_tensor_value_info("k")])
    nodes = [node("Shape", ["x"], "shape"), node("Gather", ["shape", "last"], "size"),
             node("Equal", ["size", "one"], "eq"),
             helper.make_node("If", ["eq"], ["s"], name="by size", then_branch=squeeze, else_branch=same),
             node("Shape", ["s"], "of_s"), node("Size", ["of_s"], "rank"), node("Equal", ["rank", "two"], "flat"),
             node("Not", ["flat"], "deep"),
             helper.make_node("If", ["deep"], ["r"], name="by rank", then_branch=more, else_branch=keep),
             node("Unsqueeze", ["r", "zero"], "sequence"),
             helper.make_node("LSTM", ["sequence", "w", "v"], ["", "h"], name="cell", hidden_size=hidden),
             node("Squeeze", ["h", "zero"], "y")]
    random = np.random.default_rng(1)
    weights = {"w": random.standard_normal((1, 4 * hidden, 3)), "v": random.standard_normal((1, 4 * hidden, hidden))}
    constants = [(name, value.astype(np.float32)) for name, value in weights.items()]
    constants += [("last", np.array([-1])), ("one", np.array([1])), ("two", np.array(2)), ("zero", np.array([0]))]
    graph = helper.make_graph(nodes, "cell", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 3, "k"])],
                              [helper.make_empty_tensor_value_info("y")],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8).SerializeToString()
    for batch in (1, 3):
        x = random.standard_normal((batch, 3, 1)).astype(np.float32)
        expected = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
        np.testing.assert_allclose(run(model, {"x": x}), expected, rtol=1e-4, atol=1e-6)
    with pytest.raises(library.GraftError, match="the condition of node 'by size' takes the else_branch"):
        run(model, {"x": np.ones((1, 3, 2), np.float32)})
