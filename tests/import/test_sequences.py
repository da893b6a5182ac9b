# SPDX-License-Identifier: Apache-2.0
"""Lists of tensors inside of a model, against ONNX Runtime: of known lengths, which no engine holds as lists, and such
as only a run knows."""

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


def sequence(name, shape):
    return helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, shape)


def tensor(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def appending_loop():
    """What an exporter writes of `for i in range(k): parts.append(x * i)`."""
    nodes = [node("Cast", ["i"], ["f"], to=TensorProto.FLOAT), node("Mul", ["x", "f"], ["z"]),
             node("SequenceInsert", ["before", "z"], ["after"]), node("Identity", ["going"], ["goes"])]
    body = helper.make_graph(nodes, "body", [tensor("i", [], TensorProto.INT64), tensor("going", [], TensorProto.BOOL),
                                             sequence("before", None)],
                             [tensor("goes", [], TensorProto.BOOL), sequence("after", None)])
    return node("Loop", ["k", "", "s0"], ["parts"], body=body)


def chosen_branch():
    """A list that is another one in either branch, of a condition that the run computes."""
    def branch(name, count):
        return helper.make_graph([node("SequenceConstruct", [name] * count, ["made" + name])], name, [],
                                 [sequence("made" + name, None)])
    return node("If", ["flag"], ["parts"], then_branch=branch("x", 2), else_branch=branch("z", 3))


K, PLACE = tensor("k", [], TensorProto.INT64), tensor("place", [], TensorProto.INT64)
# By name: the nodes, the inputs beside x, the outputs and constants: what only a run knows.
OPEN_CASES = {
    "read_at_a_position_from_data": ([node("SequenceConstruct", ["x", "x2"], ["s"]), node("Neg", ["x"], ["n"]),
                                      node("SequenceAt", ["s", "place"], ["y"])], [PLACE], [tensor("y", ["a", 6])], {}),
    "split_of_a_length_from_data": ([node("SplitToSequence", ["x", "k"], ["parts"], axis=1),
                                     node("SequenceLength", ["parts"], ["count"])], [K],
                                    [sequence("parts", None), tensor("count", [], TensorProto.INT64)], {}),
    "appended_in_a_loop": ([node("SequenceEmpty", [], ["s0"]), appending_loop(),
                            node("ConcatFromSequence", ["parts"], ["y"], axis=0)], [K], [tensor("y", ["a", 6])], {}),
    "stacked_after_a_loop": ([node("SequenceEmpty", [], ["s0"]), appending_loop(),
                              node("ConcatFromSequence", ["parts"], ["y"], axis=1, new_axis=1),
                              node("ReduceMax", ["y", "axis"], ["most"], keepdims=0)], [K],
                             [tensor("most", ["a", "b"])], {"axis": [2]}),
    "one_of_two_lists": ([node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Less", ["sum", "zero"], ["flag"]),
                          node("Neg", ["x"], ["z"]), chosen_branch(),
                          node("ConcatFromSequence", ["parts"], ["y"], axis=0)], [], [tensor("y", ["a", 6])],
                         {"zero": np.float32(0)}),
    "inserted_and_erased": ([node("SequenceConstruct", ["x", "x2"], ["s"]),
                             node("SequenceInsert", ["s", "x", "place"], ["t"]),
                             node("SequenceErase", ["t", "k"], ["parts"])], [PLACE, K], [sequence("parts", None)], {}),
}


def open_model(name):
    nodes, inputs, outputs, constants = OPEN_CASES[name]
    first = node("Add", ["x", "x"], ["x2"])
    graph = helper.make_graph([first, *nodes], name, [tensor("x", ["n", 6]), *inputs], outputs,
                              [constant(*row) for row in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def arrays(value):
    return [arrays(each) for each in value] if isinstance(value, list) else numpy_helper.to_array(value)


@pytest.mark.parametrize("mode", ["generated", "interpret"])
@pytest.mark.parametrize("name", OPEN_CASES)
def test_gives_what_onnx_runtime_gives_where_only_a_run_knows(name, mode):
    model = open_model(name)
    reference = onnxruntime.InferenceSession(model)
    outputs = [output.name for output in reference.get_outputs()]
    with library.Engine(library.load(), model, [("mode", mode), ("device", "cpu")]) as engine:
        for rows, k, place in [(4, 1, 0), (2, 2, 1), (5, 2, -1)]:
            x = np.random.default_rng(rows).standard_normal((rows, 6)).astype(np.float32)
            feeds = {"x": x, "k": np.array(k), "place": np.array(place)}
            feeds = {value.name: feeds[value.name] for value in reference.get_inputs()}
            expected = reference.run(None, feeds)
            results = engine.run([(key, numpy_helper.from_array(array)) for key, array in feeds.items()], outputs)
            for got, wanted in zip(map(arrays, results), expected):
                assert isinstance(wanted, list) == isinstance(got, list)
                np.testing.assert_equal(got, wanted)


@pytest.mark.parametrize("place, fault", [(2, "position 2 is outside of a sequence of 2"), (-3, "position -3")])
def test_names_the_node_that_reads_beyond_a_sequence(place, fault):
    with library.Engine(library.load(), open_model("read_at_a_position_from_data"), [("device", "cpu")]) as engine:
        feeds = [("x", numpy_helper.from_array(X)), ("place", numpy_helper.from_array(np.array(place)))]
        with pytest.raises(library.GraftError, match=f"node 'y' \\(SequenceAt\\): {fault}"):
            engine.run(feeds, ["y"])
