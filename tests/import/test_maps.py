# SPDX-License-Identifier: Apache-2.0
"""Operators of ai.onnx.ml that take or give maps, against ONNX Runtime where it takes them."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import library

DOMAIN = "ai.onnx.ml"


def model_of(node, declared):
    """The one-node model."""
    graph = helper.make_graph([node], "maps", [declared], [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)],
                             ir_version=10)


def node_of(op, **attributes):
    return helper.make_node(op, ["x"], ["y"], name="node", domain=DOMAIN, **attributes)


def map_info(keys, values):
    return helper.make_value_info("x", helper.make_map_type_proto(keys, helper.make_tensor_type_proto(values, [])))


def array(values):
    """Numbers in the types that maps have, or strings."""
    if not values or isinstance(values[0], float):
        return np.array(values, np.float32)
    return np.array(values, object if isinstance(values[0], str) else np.int64)


def proto(values):
    return numpy_helper.from_array(values if isinstance(values, np.ndarray) else array(list(values)))


def as_map(given):
    return library.Map(proto(given), proto(given.values()))


def plain(value):
    """A result of ours as ONNX Runtime has it."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, library.Map):
        return dict(zip(plain(value.keys).tolist(), plain(value.values).tolist()))
    data = numpy_helper.to_array(value)
    return data.astype(str).astype(object) if data.dtype.kind in "OSU" else data


def run(node, declared, given, **options):
    model = model_of(node, declared).SerializeToString()
    with library.Engine(library.load(), model, [("device", "cpu"), *options.items()]) as engine:
        return plain(engine.run([("x", given)], ["y"])[0])


def expected(node, declared, given):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = model_of(node, declared).SerializeToString()
    return onnxruntime.InferenceSession(model, options).run(None, {"x": given})[0]


@pytest.mark.parametrize("mode", ["generated", "interpret"])
@pytest.mark.parametrize("rows", [2, 0, None])
@pytest.mark.parametrize("labels", [{"classlabels_int64s": [5, 2, 7]}, {"classlabels_strings": ["b", "", "ä"]},
                                    {"classlabels_int64s": [5, 2, 5]}], ids=["integers", "strings", "twice"])
def test_zips_scores_and_labels(labels, rows, mode):
    x = np.arange(3 if rows is None else 3 * rows, dtype=np.float32).reshape([3] if rows is None else [rows, 3])
    declared = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3] if rows is None else ["n", 3])
    node = node_of("ZipMap", **labels)
    assert run(node, declared, numpy_helper.from_array(x), mode=mode) == expected(node, declared, x)


VALUES = [1.5, -2.75, 1e10, -0.3]


@pytest.mark.parametrize("form", [{}, {"map_form": "SPARSE", "max_map": 6}, {"map_form": "SPARSE", "max_map": 2}],
                         ids=["dense", "sparse", "cut"])
@pytest.mark.parametrize("to", ["TO_FLOAT", "TO_INT64", "TO_STRING"])
def test_casts_a_map(to, form):
    given = dict(zip([3, 1, 0, 5], VALUES))
    node, declared = node_of("CastMap", cast_to=to, **form), map_info(TensorProto.INT64, TensorProto.FLOAT)
    np.testing.assert_array_equal(run(node, declared, as_map(given)), expected(node, declared, given))


@pytest.mark.parametrize("to, wanted", [("TO_FLOAT", [2.5, -3.0]), ("TO_STRING", ["2.5", "-3"])])
def test_casts_a_map_of_strings(to, wanted):
    node, declared = node_of("CastMap", cast_to=to), map_info(TensorProto.INT64, TensorProto.STRING)
    assert run(node, declared, as_map({7: "-3", 2: "2.5"})).tolist() == [wanted]


@pytest.mark.parametrize("vocabulary, keys, given", [
    ({"string_vocabulary": ["c", "a", "b"]}, TensorProto.STRING, {"a": 1.5, "z": 2.0}),
    ({"int64_vocabulary": [3, 1, 2, 1]}, TensorProto.INT64, {1: 1.5, 3: 2.0, -4: 1.0})])
def test_puts_a_map_in_the_order_of_a_vocabulary(vocabulary, keys, given):
    node, declared = node_of("DictVectorizer", **vocabulary), map_info(keys, TensorProto.FLOAT)
    np.testing.assert_array_equal(run(node, declared, as_map(given)), expected(node, declared, given))


@pytest.mark.parametrize("kind, values, wanted", [
    (TensorProto.STRING, {1: "one"}, ["", "one"]), (TensorProto.DOUBLE, {2: 0.25}, [0.25, 0])])
def test_vectorizes_other_values(kind, values, wanted):
    node, declared = node_of("DictVectorizer", int64_vocabulary=[2, 1]), map_info(TensorProto.INT64, kind)
    data = np.array(list(values.values()), np.float64 if kind == TensorProto.DOUBLE else object)
    result = run(node, declared, library.Map(proto(values), proto(data)))
    assert result.tolist() == [wanted]


def test_takes_apart_what_a_model_has_zipped():
    zipped = node_of("ZipMap", classlabels_strings=["no", "yes"])
    zipped.output[0] = "maps"
    at = helper.make_node("SequenceAt", ["maps", "last"], ["map"])
    vector = helper.make_node("DictVectorizer", ["map"], ["y"], domain=DOMAIN, string_vocabulary=["yes", "no"])
    graph = helper.make_graph([zipped, at, vector], "chain",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(np.array(-1), "last")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)],
                              ir_version=10)
    x = np.array([[1, 2], [3, 4]], np.float32)
    with library.Engine(library.load(), model.SerializeToString(), [("device", "cpu")]) as engine:
        assert plain(engine.run([("x", numpy_helper.from_array(x))], ["y"])[0]).tolist() == [[4, 3]]


@pytest.mark.parametrize("node, declared, given, fault", [
    (node_of("CastMap", map_form="SPARSE", max_map=3), map_info(TensorProto.INT64, TensorProto.FLOAT), {-1: 2.0},
     "the key -1 is no place"),
    (node_of("CastMap"), map_info(TensorProto.INT64, TensorProto.STRING), {1: "one"}, '"one" is no f32'),
    (node_of("CastMap"), map_info(TensorProto.STRING, TensorProto.FLOAT), {"a": 1.0}, "its keys are integers"),
    (node_of("DictVectorizer", int64_vocabulary=[1]), map_info(TensorProto.STRING, TensorProto.FLOAT), {"a": 1.0},
     "its vocabulary is of i64"),
    (node_of("DictVectorizer", int64_vocabulary=[1]), map_info(TensorProto.INT64, TensorProto.FLOAT), {"a": 1.0},
     "keys of its input 0"),
    (node_of("ZipMap", classlabels_int64s=[1], classlabels_strings=["a"]),
     helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 1]), np.zeros((2, 1), np.float32), "it has either"),
    (node_of("ZipMap", classlabels_int64s=[1, 2]), helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
     np.zeros((2, 3), np.float32), "3 classes, its labels are 2"),
], ids=["negative_key", "no_number", "key_type", "vocabulary_type", "given_type", "two_lists", "count"])
def test_what_does_not_fit_is_refused_by_the_name_of_the_node(node, declared, given, fault):
    held = numpy_helper.from_array(given) if isinstance(given, np.ndarray) else as_map(given)
    with pytest.raises(library.GraftError, match=f"node 'node' \\({node.op_type}\\).*{fault}"):
        run(node, declared, held)
