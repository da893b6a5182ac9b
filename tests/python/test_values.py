# SPDX-License-Identifier: Apache-2.0
"""Strings, sequences, optionals and maps from Python."""

import graft
import numpy as np
import pytest
from onnx import TensorProto, helper


def compiled(nodes, inputs, outputs):
    """An engine of nodes between typed values."""
    graph = helper.make_graph(nodes, "values", inputs, outputs)
    return graft.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11),
                         tune="off")


def tensor(name, shape, kind=TensorProto.FLOAT):
    """A typed tensor."""
    return helper.make_tensor_value_info(name, kind, shape)


def sequence(name, shape, kind=TensorProto.FLOAT):
    """A typed sequence."""
    return helper.make_tensor_sequence_value_info(name, kind, shape)


def test_lists_go_in_and_come_out():
    engine = compiled([helper.make_node("SequenceInsert", ["xs", "x", "place"], ["ys"]),
                       helper.make_node("ConcatFromSequence", ["ys"], ["y"], axis=0)],
                      [sequence("xs", ["n", 2]), tensor("x", [1, 2]), tensor("place", [], TensorProto.INT64)],
                      [sequence("ys", ["n", 2]), tensor("y", ["m", 2])])
    assert engine.inputs[0].dtype == "seq(f32[n, 2])" and engine.inputs[0].shape == ()
    rows = [np.full((size, 2), size, np.float32) for size in (1, 3)]
    ys, y = engine(rows, np.full((1, 2), 7, np.float32), np.array(1))
    assert [array.tolist() for array in ys] == [rows[0].tolist(), [[7, 7]], rows[1].tolist()]
    np.testing.assert_array_equal(y, np.concatenate([rows[0], [[7, 7]], rows[1]]))
    assert engine([], np.ones((1, 2), np.float32), np.array(0))[0][0].tolist() == [[1, 1]]


def test_strings_go_in_and_come_out():
    text = TensorProto.STRING
    engine = compiled([helper.make_node("StringConcat", ["x", "z"], ["y"]),
                       helper.make_node("StringSplit", ["y"], ["parts", "counts"], delimiter="-")],
                      [tensor("x", ["n"], text), tensor("z", [1], text)],
                      [tensor("y", ["n"], text), tensor("parts", ["n", "m"], text),
                       tensor("counts", ["n"], TensorProto.INT64)])
    for x in (np.array(["a-b", "\N{EURO SIGN}"]), np.array(["a-b", "\N{EURO SIGN}"], dtype=object)):
        y, parts, counts = engine(x, ["-c"])
        assert y.tolist() == ["a-b-c", "\N{EURO SIGN}-c"]
        assert parts.tolist() == [["a", "b", "c"], ["\N{EURO SIGN}", "c", ""]]
        assert counts.tolist() == [3, 2]
    with pytest.raises(graft.InvalidArgumentError, match="'x'.*no string"):
        engine(np.array([1, "a"], dtype=object), ["-c"])


def test_none_is_an_empty_optional():
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    engine = compiled([helper.make_node("OptionalHasElement", ["x"], ["there"])],
                      [helper.make_value_info("x", kind)], [tensor("there", [], TensorProto.BOOL)])
    assert not engine(None) and engine(np.ones(2, np.float32))


def test_what_is_no_tensor_is_not_written_into_an_array():
    engine = compiled([helper.make_node("SequenceConstruct", ["x", "x"], ["ys"])], [tensor("x", ["n"])],
                      [sequence("ys", ["n"])])
    with pytest.raises(graft.InvalidArgumentError, match="'ys' is seq"):
        engine.run({"x": np.ones(3, np.float32)}, {"ys": np.ones(3, np.float32)})
    assert [array.tolist() for array in engine.run({"x": np.ones(1, np.float32)})["ys"]] == [[1], [1]]
