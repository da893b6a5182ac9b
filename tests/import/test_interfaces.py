# SPDX-License-Identifier: Apache-2.0
"""The interface of a model is that of its engine: dimensions that exporters write as expressions, and the names and
order of outputs whatever the passes merge, against ONNX Runtime."""

import library
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

GRAFT = library.load()
F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, shape, dtype=F32):
    return helper.make_tensor_value_info(name, dtype, shape)


def integers(name, elements):
    return numpy_helper.from_array(np.array(elements, np.int64), name)


def model_of(nodes, inputs, outputs, initializers=(), functions=()):
    graph = helper.make_graph(nodes, "interface", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", 20)] + [helper.make_opsetid(f.domain, 1) for f in functions]
    model = helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=9)
    return model.SerializeToString()


def agree(model, shapes, options=()):
    """Runs a model on random inputs of the shapes; names, order and results are those of ONNX Runtime."""
    random = np.random.default_rng(5)
    given = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    expected = session.run(names, given)
    with library.Engine(GRAFT, model, [("mode", "interpret"), *options]) as engine:
        assert [output["name"] for output in engine.describe()["outputs"]] == names
        protos = [(name, numpy_helper.from_array(array)) for name, array in given.items()]
        for name, wanted, got in zip(names, expected, engine.run(protos, names)):
            np.testing.assert_allclose(numpy_helper.to_array(got), wanted, rtol=1e-5, atol=1e-6, err_msg=name)


def sum_of_dimensions():
    """Keys of the past before those of now; the mask covers both."""
    nodes = [helper.make_node("Concat", ["past", "x"], ["keys"], axis=1),
             helper.make_node("Add", ["keys", "mask"], ["masked"])]
    return model_of(nodes, [value("mask", ["batch", "past_sequence_length + sequence_length"]),
                            value("x", ["batch", "sequence_length"]), value("past", ["batch", "past_sequence_length"])],
                    [value("masked", ["batch", "past_sequence_length + sequence_length"])])


def twice_the_batch():
    nodes = [helper.make_node("Concat", ["x", "x"], ["both"], axis=0), helper.make_node("Mul", ["both", "y"], ["z"])]
    return model_of(nodes, [value("x", ["batch", 3]), value("y", ["2*batch", 3])], [value("z", ["2*batch", 3])])


def one_less():
    nodes = [helper.make_node("Slice", ["x", "one", "end", "one"], ["rest"]),
             helper.make_node("Add", ["rest", "y"], ["z"])]
    return model_of(nodes, [value("x", ["batch", "seq"]), value("y", ["batch", "seq - 1"])],
                    [value("z", ["batch", "seq - 1"])], [integers("one", [1]), integers("end", [1 << 40])])


def halves(expression):
    nodes = [helper.make_node("Slice", ["x", "zero", "end", "one", "two"], ["even"]),
             helper.make_node("Add", ["even", "y"], ["z"])]
    return model_of(nodes, [value("x", ["batch", "s0"]), value("y", ["batch", expression])],
                    [value("z", ["batch", expression])],
                    [integers("zero", [0]), integers("one", [1]), integers("two", [2]), integers("end", [1 << 40])])


@pytest.mark.parametrize("past, now", [(0, 1), (5, 1), (4, 7)])
def test_a_sum_of_dimensions_is_their_sum(past, now):
    agree(sum_of_dimensions(), {"mask": (2, past + now), "x": (2, now), "past": (2, past)})


@pytest.mark.parametrize("batch", [1, 4])
def test_a_multiple_of_a_dimension_is_one(batch):
    agree(twice_the_batch(), {"x": (batch, 3), "y": (2 * batch, 3)})


def test_a_difference_is_one():
    agree(one_less(), {"x": (2, 6), "y": (2, 5)})


@pytest.mark.parametrize("expression", ["(s0 + 1)//2", "floor((s0 + 1)/2)", "ceiling(s0/2)", "CeilDiv(s0, 2)",
                                        "((s0 - 1)//2) + 1", "s0 - s0//2", "Max(1, (s0 + 1)//2)"])
@pytest.mark.parametrize("extent", [1, 4, 7])
def test_divisions_are_what_exporters_mean(expression, extent):
    agree(halves(expression), {"x": (2, extent), "y": (2, (extent + 1) // 2)})


def test_an_expression_that_the_sizes_contradict_is_refused():
    with library.Engine(GRAFT, sum_of_dimensions(), [("mode", "interpret")]) as engine:
        shapes = {"mask": (2, 9), "x": (2, 3), "past": (2, 5)}
        given = [(name, numpy_helper.from_array(np.zeros(shape, np.float32))) for name, shape in shapes.items()]
        reason = "'mask'.*sequence_length \\+ past_sequence_length = 8, 9 was given"
        with pytest.raises(library.GraftError, match=reason):
            engine.run(given, ["masked"])


def test_a_size_is_not_read_from_a_tensor_without_elements():
    nodes = [helper.make_node("Compress", ["counts", "which"], ["k"], axis=0),
             helper.make_node("TopK", ["x", "k"], ["y", "places"])]
    model = model_of(nodes, [value("x", ["n"]), value("counts", [2], I64), value("which", [2], TensorProto.BOOL)],
                     [value("y", ["k"])])
    arrays = {"x": np.arange(5, dtype=np.float32), "counts": np.array([3, 4])}
    with library.Engine(GRAFT, model, [("mode", "interpret")]) as engine:
        for which, good in (([False, True], True), ([False, False], False)):
            tensors = {**arrays, "which": np.array(which)}
            given = [(name, numpy_helper.from_array(array)) for name, array in tensors.items()]
            if good:
                np.testing.assert_equal(numpy_helper.to_array(engine.run(given, ["y"])[0]), [4, 3, 2, 1])
                continue
            with pytest.raises(library.GraftError, match="has 0 elements, element 0 is needed"):
                engine.run(given, ["y"])


def test_names_that_only_look_like_expressions_stay_names():
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    model = model_of(nodes, [value("x", ["batch-size", "2 * unknown"])], [value("y", ["batch-size", "2 * unknown"])])
    agree(model, {"x": (3, 5)})


def test_ranges_and_shapes_follow_through_expressions():
    fixed = [("shape", "mask:2x8"), ("shape", "x:2x3"), ("shape", "past:2x5")]
    agree(sum_of_dimensions(), {"mask": (2, 8), "x": (2, 3), "past": (2, 5)}, fixed)
    with pytest.raises(library.GraftError, match="which is 8 for the sizes chosen, not 9"):
        library.Engine(GRAFT, sum_of_dimensions(), [*fixed[1:], ("shape", "mask:2x9")])


def outputs(*names, shape=("n", 4)):
    return [value(name, list(shape)) for name in names]


def weights(name="w"):
    return numpy_helper.from_array(np.arange(4, dtype=np.float32).reshape(1, 4), name)


NAMED = {
    "identities_of_one_value": ([("Relu", "x", "a"), ("Identity", "a", "b"), ("Identity", "a", "c")], "cab"),
    "an_identity_of_an_input": ([("Identity", "x", "b"), ("Relu", "b", "a")], "ab"),
    "equal_nodes": ([("Relu", "x", "b"), ("Relu", "x", "a"), ("Relu", "x", "c")], "bca"),
    "an_output_that_others_read": ([("Relu", "x", "a"), ("Neg", "a", "b"), ("Identity", "b", "c")], "cba"),
    "chains_that_cancel": ([("Transpose", "x", "b"), ("Transpose", "b", "a"), ("Identity", "a", "c")], "ac"),
    "dropout_and_cast": ([("Dropout", "x", "a"), ("Abs", "a", "b"), ("Dropout", "b", "c")], "bca"),
    "two_identities_in_a_row": ([("Identity", "x", "a"), ("Identity", "a", "b"), ("Identity", "b", "c")], "cb"),
}


@pytest.mark.parametrize("name", NAMED)
def test_outputs_keep_their_names_and_order(name):
    rows, names = NAMED[name]
    nodes = [helper.make_node(op, [source], [result]) for op, source, result in rows]
    shapes = {"b": ("4", "n")} if name == "chains_that_cancel" else {}
    listed = [value(n, list(shapes.get(n, ("n", 4)))) for n in names]
    agree(model_of(nodes, [value("x", ["n", 4])], listed), {"x": (3, 4)})


def test_an_output_may_be_a_constant():
    nodes = [helper.make_node("Add", ["x", "w"], ["y"]), helper.make_node("Identity", ["w"], ["v"])]
    model = model_of(nodes, [value("x", ["n", 4])], [value("v", [1, 4]), value("y", ["n", 4]), value("w", [1, 4])],
                     [weights()])
    agree(model, {"x": (3, 4)})


def test_equal_constants_keep_their_names():
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    model = model_of(nodes, [value("x", ["n", 4])], [value("u", [1, 4]), value("y", ["n", 4]), value("w", [1, 4])],
                     [weights("w"), weights("u")])
    agree(model, {"x": (3, 4)})


def test_an_output_may_be_an_input():
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    model = model_of(nodes, [value("x", ["n", 4])], [value("y", ["n", 4]), value("x", ["n", 4])])
    agree(model, {"x": (3, 4)})


def test_a_function_may_give_one_value_twice():
    body = [helper.make_node("Relu", ["a"], ["p"]), helper.make_node("Identity", ["p"], ["q"])]
    function = helper.make_function("own", "Twice", ["a"], ["p", "q"], body, [helper.make_opsetid("", 20)])
    nodes = [helper.make_node("Twice", ["x"], ["first", "second"], domain="own")]
    agree(model_of(nodes, [value("x", ["n", 4])], outputs("second", "first"), functions=[function]),
          {"x": (3, 4)})


def test_a_branch_may_give_one_value_twice():
    def branch(name, op):
        inner = helper.make_node(op, ["x"], [f"{name}_a"])
        again = helper.make_node("Identity", [f"{name}_a"], [f"{name}_b"])
        return helper.make_graph([inner, again], name, [], outputs(f"{name}_a", f"{name}_b"))

    nodes = [helper.make_node("If", ["yes"], ["p", "q"], then_branch=branch("then", "Relu"),
                              else_branch=branch("else", "Neg"))]
    model = model_of(nodes, [value("x", ["n", 4])], outputs("q", "p"), [numpy_helper.from_array(np.array(True), "yes")])
    agree(model, {"x": (3, 4)})
    onnx.checker.check_model(onnx.ModelProto.FromString(model))
