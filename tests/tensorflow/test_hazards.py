# SPDX-License-Identifier: Apache-2.0
"""What TF-TRT got wrong without a word, and input that is wrong: the first agrees, the second is an error that names
the node and what to do."""

import numpy as np
import pytest
import tensorflow as tf
from conftest import FAST, close, engines_of, graph_of, run_graph, split_network, v1

import graft
import graft.tensorflow


def agrees(build, feeds, outputs=("y",), tolerance=None, **options):
    """Converted against the graph as it is; gives the converted one."""
    graph = graph_of(build)
    made = graft.tensorflow.create_inference_graph(graph, list(outputs), **{**FAST, "minimum_segment_size": 1,
                                                                            "strict": True, **options})
    assert engines_of(made)
    for result, expected in zip(run_graph(made, outputs, feeds), run_graph(graph, outputs, feeds)):
        if tolerance is None:
            close(result, expected)
        else:
            np.testing.assert_allclose(result, expected, rtol=tolerance)
    return made


def test_comparisons_are_false_where_there_is_no_number():
    def build():
        x = v1.placeholder(tf.float32, [None], name="x")
        tf.greater_equal(x, 1.0, name="y"), tf.less_equal(x, 1.0, name="z")

    x = np.array([np.nan, 1, 2, -np.inf, np.inf], np.float32)
    made = agrees(build, {"x": x}, ("y", "z"))
    assert [list(each) for each in run_graph(made, ["y", "z"], {"x": x})] == [[False, True, True, False, True],
                                                                              [False, True, False, True, False]]


@pytest.mark.parametrize("shape", [(6,), (2, 3), (2, 3, 4), (2, 3, 4, 2)])
def test_quantizing_keeps_its_effect_at_every_rank(shape):
    def build():
        x = v1.placeholder(tf.float32, shape, name="x")
        q = tf.quantization.quantize_and_dequantize_v2(x * 2.0, -1.0, 1.0, range_given=True)
        q = tf.quantization.fake_quant_with_min_max_args(q + 0.1, -0.5, 0.5)
        tf.nn.relu(q * 3.0, name="y")

    x = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    made = agrees(build, {"x": x})
    result = run_graph(made, ["y"], {"x": x})[0]
    assert result.max() < 1.51 and np.ptp(result) > 0.5  # clipped: quantizing has not fallen away


def test_a_cast_to_float_in_an_engine_of_half_precision_holds_what_half_precision_does_not():
    def build():
        x = v1.placeholder(tf.int32, [None], name="x")
        tf.add(tf.cast(x, tf.float32) / 1000.0, 1.0, name="y")

    agrees(build, {"x": np.array([1, 65504, 70000, 1000000, -100000], np.int32)}, tolerance=2e-3,
           precision_mode="FP16")


def rows(count):
    return np.random.default_rng(count).standard_normal((count, 3)).astype(np.float32)


def test_batches_of_one_segment_may_differ_where_they_do_not_meet():
    def build():
        a, b = (v1.placeholder(tf.float32, [None, 3], name=name) for name in "ab")
        tf.nn.relu(tf.reduce_sum(b * 0.5, 0) * a, name="y")

    made = agrees(build, {"a": rows(4), "b": rows(4)})
    assert len(engines_of(made)) == 1
    for a, b in ((4, 1), (1, 4), (3, 5)):
        feeds = {"a": rows(a), "b": rows(b)}
        close(run_graph(made, ["y"], feeds)[0], run_graph(graph_of(build), ["y"], feeds)[0])


def test_batches_that_meet_repeat_one_row_and_refuse_others():
    def build():
        a, b = (v1.placeholder(tf.float32, [None, 3], name=name) for name in "ab")
        tf.nn.relu(a * 2.0 + b, name="y")

    made = agrees(build, {"a": rows(4), "b": rows(4)})
    for a, b in ((4, 1), (1, 4), (1, 1)):
        feeds = {"a": rows(a), "b": rows(b)}
        close(run_graph(made, ["y"], feeds)[0], run_graph(graph_of(build), ["y"], feeds)[0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not broadcast"):
        run_graph(made, ["y"], {"a": rows(4), "b": rows(3)})


def test_operands_of_unknown_rank_take_what_comes():
    def build():
        x = v1.placeholder(tf.float32, None, name="x")
        w = v1.placeholder(tf.float32, [None, None], name="w")
        tf.matmul(tf.nn.relu(x), w, name="y")

    graph = graph_of(build)
    made = graft.tensorflow.create_inference_graph(graph, ["y"], minimum_segment_size=1, **FAST)
    for shape in ((2, 3), (5, 3)):
        feeds = {"x": np.ones(shape, np.float32), "w": np.ones((3, 4), np.float32)}
        close(run_graph(made, ["y"], feeds)[0], run_graph(graph, ["y"], feeds)[0])


def test_outputs_that_the_graph_does_not_have_are_told_with_the_nearest():
    with pytest.raises(graft.InvalidArgumentError, match="no node 'softmx'; did you mean 'softmax'"):
        graft.tensorflow.create_inference_graph(graph_of(split_network), ["softmx"], **FAST)


def test_a_function_that_the_library_does_not_have_is_told_with_its_node():
    @tf.function(autograph=False)
    def twice(x):
        return x * 2.0

    def build():
        tf.identity(twice(v1.placeholder(tf.float32, [2], name="x")), name="y")

    graph = graph_of(build)
    name = next(node.name for node in graph.node if "PartitionedCall" in node.op)
    del graph.library.function[:]
    with pytest.raises(graft.InvalidModelError, match=f"'{name}'.*library does not have.*export"):
        graft.tensorflow.create_inference_graph(graph, ["y"], **FAST)


def test_an_operator_without_a_converter_ends_compiling_whole_by_its_name(tmp_path):
    path = tmp_path / "frozen.pb"
    path.write_bytes(graph_of(split_network).SerializeToString())
    with pytest.raises(graft.UnsupportedError, match="Digamma '.*': there is no converter for Digamma.*graft embed"):
        graft.compile(str(path), outputs="softmax", **FAST)


def test_types_that_do_not_fit_are_told_with_the_node_and_left_to_tensorflow():
    def build():
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        tf.add(x, 1.0, name="sum"), tf.nn.relu(x * 2.0, name="y")

    graph = graph_of(build)
    node = next(each for each in graph.node if each.name == "sum")
    constant = next(each for each in graph.node if each.name == node.input[1])
    constant.attr["dtype"].type = tf.int32.as_datatype_enum
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1, tf.int32))
    before = graph.SerializeToString(deterministic=True)
    made = graft.embed(graph, ["sum", "y"], minimum_size=1, **FAST)
    assert "'sum'" in made.report or "sum" in made.report.split("stay", 1)[-1]
    assert graph.SerializeToString(deterministic=True) == before and made.engines == 1


def test_a_graph_that_is_cut_short_is_told():
    content = graph_of(split_network).SerializeToString()
    with pytest.raises(graft.InvalidModelError):
        graft.embed(content[:-7], ["softmax"], **FAST)
