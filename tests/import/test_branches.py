# SPDX-License-Identifier: Apache-2.0
"""Branches whose results have different numbers of axes, as exporters write `squeeze`, against ONNX Runtime."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import library

X = np.arange(-6, 6, dtype=np.float32).reshape(1, 3, 4)


def squeezed_or_not(readers, constants=()):
    """y from s, which is x, or x without its first axis."""
    then = helper.make_graph([helper.make_node("Squeeze", ["x", "first"], ["t"], name="squeeze")], "then", [],
                             [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)])
    otherwise = helper.make_graph([helper.make_node("Identity", ["x"], ["e"], name="same")], "else", [],
                                  [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)])
    branch = helper.make_node("If", ["flag"], ["s"], name="branch", then_branch=then, else_branch=otherwise)
    graph = helper.make_graph([branch, *readers], "branches",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n", 4]),
                               helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
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


def test_a_reader_that_takes_one_of_the_ranks_is_refused_by_its_name():
    with pytest.raises(library.GraftError, match="node '.*(y|branch)'"):
        with library.Engine(library.load(), squeezed_or_not([node("Gemm", ["s", "s"], "y", transB=1)]),
                            [("device", "cpu")]):
            pass
