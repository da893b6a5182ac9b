# SPDX-License-Identifier: Apache-2.0
"""Lists of tensors of known lengths inside of a model, against ONNX Runtime: no sequence is left in the engine."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import library

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, name=outputs[0], **attributes)


def constant(name, value):
    return numpy_helper.from_array(np.array(value), name)


def append_in_branch():
    """What an exporter writes of `if flag: parts.append(x)` where the flag is known."""
    then = helper.make_graph([node("SequenceInsert", ["parts", "x"], ["longer"])], "then", [],
                             [helper.make_tensor_sequence_value_info("longer", TensorProto.FLOAT, None)])
    otherwise = helper.make_graph([node("Identity", ["parts"], ["same"])], "else", [],
                                  [helper.make_tensor_sequence_value_info("same", TensorProto.FLOAT, None)])
    return node("If", ["flag"], ["all"], then_branch=then, else_branch=otherwise)


# By name: the nodes from x to y, and constants.
CASES = {
    "chunks_of_two": ([node("SplitToSequence", ["x", "two"], ["parts"], axis=1),
                       node("SequenceAt", ["parts", "one"], ["y"])], {"two": 2, "one": 1}),
    "chunks_of_which_the_last_is_short": ([node("SplitToSequence", ["x", "four"], ["parts"], axis=1),
                                           node("SequenceAt", ["parts", "last"], ["y"])], {"four": 4, "last": -1}),
    "listed_lengths": ([node("SplitToSequence", ["x", "sizes"], ["parts"], axis=-1),
                        node("SequenceAt", ["parts", "one"], ["y"])], {"sizes": [1, 3, 2], "one": 1}),
    "unbind_and_stack": ([node("SplitToSequence", ["x"], ["parts"], axis=1, keepdims=0),
                          node("ConcatFromSequence", ["parts"], ["y"], axis=0, new_axis=1)], {}),
    "split_of_one_each": ([node("SplitToSequence", ["x"], ["parts"], axis=1),
                           node("ConcatFromSequence", ["parts"], ["y"], axis=0)], {}),
    "appended_one_by_one": ([node("SequenceEmpty", [], ["s0"]), node("SequenceInsert", ["s0", "x"], ["s1"]),
                             node("Neg", ["x"], ["z"]), node("SequenceInsert", ["s1", "z", "zero"], ["s2"]),
                             node("ConcatFromSequence", ["s2"], ["y"], axis=0)], {"zero": 0}),
    "erased_from_the_end": ([node("Neg", ["x"], ["z"]), node("SequenceConstruct", ["x", "z", "x"], ["s"]),
                             node("SequenceErase", ["s"], ["t"]),
                             node("ConcatFromSequence", ["t"], ["y"], axis=1)], {}),
    "counted": ([node("SplitToSequence", ["x", "two"], ["parts"], axis=1), node("SequenceLength", ["parts"], ["k"]),
                 node("Sub", ["k", "one"], ["last"]), node("SequenceAt", ["parts", "last"], ["y"])],
                {"two": 2, "one": 1}),
    "appended_in_a_branch": ([node("SequenceConstruct", ["x", "x"], ["parts"]), append_in_branch(),
                              node("ConcatFromSequence", ["all"], ["y"], axis=0)], {"flag": True}),
}


def model_of(name, rows):
    nodes, constants = CASES[name]
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 6])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [constant(*row) for row in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("rows", [4, "n"])
@pytest.mark.parametrize("mode", ["generated", "interpret"])
@pytest.mark.parametrize("name", CASES)
def test_gives_what_onnx_runtime_gives(name, mode, rows):
    model = model_of(name, rows).SerializeToString()
    expected = onnxruntime.InferenceSession(model).run(None, {"x": X})[0]
    with library.Engine(library.load(), model, [("mode", mode), ("device", "cpu")]) as engine:
        got = numpy_helper.to_array(engine.run([("x", numpy_helper.from_array(X))], ["y"])[0])
    np.testing.assert_array_equal(got, expected)


def test_names_the_list_whose_length_only_a_run_knows():
    nodes = [node("SplitToSequence", ["x"], ["parts"], axis=0), node("SequenceAt", ["parts", "zero"], ["y"])]
    graph = helper.make_graph(nodes, "open", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6])], [constant("zero", 0)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with pytest.raises(library.GraftError, match="parts"):
        library.Engine(library.load(), model.SerializeToString(), [("device", "cpu")])
