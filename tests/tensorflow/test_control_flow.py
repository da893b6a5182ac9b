# SPDX-License-Identifier: Apache-2.0
"""If, While and calls of functions: in engines, against TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from conftest import FAST, close, engines_of, graph_of, run_graph, v1, weights

import graft
import graft.tensorflow

X = tf.TensorSpec([None, 4], tf.float32, name="x")
N = tf.TensorSpec([], tf.int32, name="n")


def powers(x, n):
    """A loop that reads a weight and an argument, of so many rounds."""
    w = weights(4, 4)
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.nn.relu(y @ w) + 0.1 * x), [0, x])[1]


def either(x, n):
    """Branches that capture other things."""
    w = weights(4, 4)
    return tf.cond(n > 2, lambda: tf.reduce_sum(x @ w, 1, keepdims=True) + x, lambda: tf.exp(x) * 2.0)


def growing(x, n):
    """A carried tensor that gets longer, and one that is read by the condition alone."""
    shapes = [tf.TensorShape([]), tf.TensorShape([None, 4])]
    return tf.while_loop(lambda i, y: tf.logical_and(i < n, tf.shape(y)[0] < 40),
                         lambda i, y: (i + 1, tf.concat([y, x * tf.cast(i, tf.float32)], 0)), [0, x],
                         shape_invariants=shapes)[1]


def nested(x, n):
    """A loop in a loop, and a branch in that."""
    def inner(j, y):
        return j + 1, tf.cond(tf.reduce_sum(y) > 0.0, lambda: y * 0.5, lambda: y + 1.0)

    def outer(i, y):
        return i + 1, tf.while_loop(lambda j, _: j < i, inner, [0, y])[1] - 0.25

    return tf.while_loop(lambda i, _: i < n, outer, [0, x])[1]


def counted(x, n):
    """A number as a condition."""
    @tf.function(input_signature=[X], autograph=False)
    def more(x):
        return x + 1.0

    @tf.function(input_signature=[X], autograph=False)
    def less(x):
        return x - 1.0

    branches = [function.get_concrete_function() for function in (more, less)]
    return tf.raw_ops.If(cond=n, input=[x], Tout=[tf.float32], then_branch=branches[0], else_branch=branches[1])[0]


def save(build, folder):
    """A SavedModel of a function, with the function."""
    module = tf.Module()
    module.call = tf.function(lambda x, n: {"y": build(x, n)}, input_signature=[X, N], autograph=False)
    tf.saved_model.save(module, str(folder), signatures=module.call)
    return str(folder), module.call


@pytest.fixture(name="saved", params=[powers, either, growing, nested], ids=lambda build: build.__name__)
def fixture_saved(request, tmp_path):
    return save(request.param, tmp_path / "model")


def given(rows, n):
    x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
    return {"x": x, "n": np.array(n, np.int32)}


CALLS = [(2, 0), (2, 3), (5, 7)]


def agrees_whole(folder, function):
    engine = graft.compile(folder, **FAST)
    for rows, n in CALLS:
        feeds = given(rows, n)
        expected = function(**{name: tf.constant(value) for name, value in feeds.items()})["y"].numpy()
        close(np.asarray(engine.run(feeds)["y"]), expected)


def test_control_flow_compiles_whole(saved):
    agrees_whole(*saved)


def test_a_number_is_a_condition(tmp_path):
    agrees_whole(*save(counted, tmp_path / "model"))


def test_control_flow_is_inside_of_engines(saved):
    folder, function = saved
    converter = graft.tensorflow.Converter(folder, minimum_segment_size=1, strict=True, **FAST)
    fast = converter.convert()
    made = converter._made  # pylint: disable=protected-access
    assert len(engines_of(made)) == 1
    assert not {node.op for node in made.node} & {"If", "StatelessIf", "While", "StatelessWhile", "PartitionedCall"}
    for rows, n in CALLS:
        feeds = {name: tf.constant(value) for name, value in given(rows, n).items()}
        close(fast(**feeds)["y"].numpy(), function(**feeds)["y"].numpy())


def test_calls_of_functions_become_nodes_of_the_engine():
    @tf.function(autograph=False)
    def layer(x, w):
        return tf.nn.relu(x @ w + 1.0)

    def build():
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        tf.identity(layer(layer(x, weights(4, 4)), weights(4, 4)) * 2.0, name="y")

    graph = graph_of(build)
    assert sum("PartitionedCall" in node.op for node in graph.node) == 2
    made = graft.tensorflow.create_inference_graph(graph, ["y"], minimum_segment_size=1, strict=True, **FAST)
    assert [node.op for node in made.node] == ["Placeholder", "GraftEngine", "Identity"]
    x = given(3, 0)["x"]
    close(run_graph(made, ["y"], {"x": x})[0], run_graph(graph, ["y"], {"x": x})[0])


def odd_branch():
    """A branch with an operator that no engine has."""
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    y = tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.math.digamma(x), lambda: x * 2.0)
    tf.nn.relu(tf.exp(y) * 0.5, name="y")


def test_what_has_an_operator_without_a_converter_stays_and_the_report_names_that():
    graph = graph_of(odd_branch)
    made = graft.tensorflow.create_inference_graph(graph, ["y"], strict=True, minimum_segment_size=2, **FAST)
    assert sum("If" in node.op for node in made.node) == 1 and len(engines_of(made)) == 1
    report = graft.embed(graph, ["y"], **FAST).report
    assert "then_branch" in report and "there is no converter for Digamma" in report
    for sign in (1, -1):
        x = np.full((2, 4), 0.7 * sign, np.float32)
        close(run_graph(made, ["y"], {"x": x})[0], run_graph(graph, ["y"], {"x": x})[0])


def test_a_function_that_calls_itself_stays():
    graph = graph_of(odd_branch)
    function = next(each for each in graph.library.function if "true" in each.signature.name)
    node = function.node_def[0]
    node.op = "PartitionedCall"
    node.attr["f"].func.name = function.signature.name
    made = graft.embed(graph, ["y"], **FAST)
    assert "its function 'then_branch' is not known" in made.report
