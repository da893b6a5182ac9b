# SPDX-License-Identifier: Apache-2.0
"""Loops and conditionals of TensorFlow 1, in engines and in whole models, against TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from conftest import FAST, close, engines_of, run_graph, v1, weights

import graft
import graft.tensorflow

FLOWS = {"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"}


def graph_of(build):
    """A frozen graph with the control flow of TensorFlow 1."""
    v1.disable_control_flow_v2()
    try:
        with v1.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [None, 4], name="x")
            n = v1.placeholder(tf.int32, [], name="n")
            tf.identity(build(x, n), name="y")
        made = graph.as_graph_def()
    finally:
        v1.enable_control_flow_v2()
    assert {node.op for node in made.node} & FLOWS
    return made


def powers(x, n):
    """A loop that reads a weight and an argument, of so many rounds."""
    w = weights(4, 4)
    return tf.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, tf.nn.relu(y @ w) + 0.1 * x), [0, x * 0.5])[1] + 1.0


def either(x, n):
    """Branches that capture other things."""
    w = weights(4, 4)
    return v1.cond(n > 2, lambda: tf.reduce_sum(x @ w, 1, keepdims=True) + x, lambda: tf.exp(x) * 2.0)


def several(x, n):
    """Branches with several results, one of them a constant, another what was given."""
    a, b, c = v1.cond(n > 2, lambda: (x * 2.0, tf.constant(3.0), x), lambda: (tf.exp(x), tf.constant(-1.0), x + 1.0))
    return a * b + c


def one_behind_the_other(x, n):
    """Conditionals by one predicate, of which the second takes what the first gives."""
    flag = n > 2
    y = v1.cond(flag, lambda: x * 2.0, lambda: x - 1.0)
    return v1.cond(flag, lambda: tf.exp(y), lambda: tf.nn.relu(y)) + y


def branch_in_a_loop(x, n):
    def step(i, y):
        return i + 1, v1.cond(tf.reduce_sum(y) > 0.0, lambda: y * 0.5, lambda: y + 1.0)

    return tf.while_loop(lambda i, _: i < n, step, [0, x])[1]


def loop_in_a_branch(x, n):
    def loop():
        return tf.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, y * 0.5 + x), [0, x])[1]

    return v1.cond(n > 2, loop, lambda: x * 3.0)


def nested(x, n):
    """A loop in a loop, and a branch in a branch in that."""
    def choose(y):
        return v1.cond(tf.reduce_sum(y) > 0.0,
                       lambda: v1.cond(tf.reduce_max(y) > 1.0, lambda: y * 0.25, lambda: y * 0.5), lambda: y + 1.0)

    def outer(i, y):
        return i + 1, tf.while_loop(lambda j, _: j < i, lambda j, z: (j + 1, choose(z)), [0, y])[1] - 0.25

    return tf.while_loop(lambda i, _: i < n, outer, [0, x])[1]


def recurrent(x, n):
    """What tf.nn.dynamic_rnn writes: arrays that are read and written round by round, a state beside them."""
    words = tf.transpose(tf.reshape(tf.concat([x, x * 0.5, x + 1.0], 1), [-1, 3, 4]), [1, 0, 2])
    given = tf.TensorArray(tf.float32, tf.shape(words)[0]).unstack(words)
    made = tf.TensorArray(tf.float32, tf.shape(words)[0], element_shape=[None, 4])
    w, u = weights(4, 4), weights(8, 4)

    def step(i, state, made):
        state = tf.tanh(given.read(i) @ w + tf.concat([state, state], 1) @ u)
        return i + 1, state, made.write(i, state)

    _, state, made = tf.while_loop(lambda i, *_: i < 3, step, [0, tf.zeros_like(x), made])
    return tf.reduce_sum(made.stack(), 0) + state * tf.cast(n + made.size(), tf.float32)


BUILDS = [powers, either, several, one_behind_the_other, branch_in_a_loop, loop_in_a_branch, nested, recurrent]
CALLS = [(2, 0), (2, 3), (5, 7)]


def given(rows, n):
    x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
    return {"x": x, "n": np.array(n, np.int32)}


@pytest.fixture(name="graph", params=BUILDS, ids=lambda build: build.__name__)
def fixture_graph(request):
    return graph_of(request.param)


def agrees(made, graph):
    for rows, n in CALLS:
        close(run_graph(made, ["y"], given(rows, n))[0], run_graph(graph, ["y"], given(rows, n))[0])


def test_it_is_inside_of_one_engine(graph):
    made = graft.tensorflow.create_inference_graph(graph, ["y"], minimum_segment_size=1, strict=True, **FAST)
    assert {node.op for node in made.node} == {"Placeholder", "GraftEngine", "Identity"}
    assert len(engines_of(made)) == 1
    agrees(made, graph)


def test_it_compiles_whole(graph, tmp_path):
    path = tmp_path / "frozen.pb"
    path.write_bytes(graph.SerializeToString())
    engine = graft.compile(str(path), outputs="y", **FAST)
    for rows, n in CALLS:
        close(np.asarray(engine.run(given(rows, n))["y"]), run_graph(graph, ["y"], given(rows, n))[0])


def test_it_is_built_when_shapes_come(graph):
    made = graft.tensorflow.create_inference_graph(graph, ["y"], minimum_segment_size=1, is_dynamic_op=True, **FAST)
    before = graft.tensorflow.fallback_count()
    agrees(made, graph)
    assert graft.tensorflow.fallback_count() == before


def test_it_is_fallen_back_to(graph, tmp_path):
    made = graft.tensorflow.create_inference_graph(graph, ["y"], minimum_segment_size=1, is_dynamic_op=True,
                                                   record=str(tmp_path / "none.record"), **FAST)
    agrees(made, graph)


@pytest.mark.parametrize("inside", ["loop", "branch"])
def test_around_an_operator_that_no_engine_has_it_stays(inside):
    def build(x, n):
        y = tf.nn.relu(x * 2.0) + 1.0
        if inside == "loop":
            y = tf.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, tf.math.digamma(y + 2.0)), [0, y])[1]
        else:
            y = v1.cond(n > 2, lambda: tf.math.digamma(y + 2.0), lambda: y)
        return tf.nn.relu(y) * 0.5

    graph = graph_of(build)
    made = graft.tensorflow.create_inference_graph(graph, ["y"], minimum_segment_size=2, strict=True, **FAST)
    assert len(engines_of(made)) == 1 and {node.op for node in made.node} & FLOWS  # of what follows no rank is known
    agrees(made, graph)


def test_what_runs_behind_a_loop_runs_behind_its_engine():
    def build(x, n):
        y = tf.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, y * 0.5 + x), [0, x])[1]
        with v1.control_dependencies([y]):
            return tf.math.digamma(x + 5.0)

    graph = graph_of(build)
    made = graft.tensorflow.create_inference_graph(graph, ["y"], minimum_segment_size=1, strict=True, **FAST)
    agrees(made, graph)


def test_the_result_of_a_loop_is_an_output_by_its_name():
    graph = graph_of(powers)
    name = [node.name for node in graph.node if node.op == "Exit"][-1]
    made = graft.tensorflow.create_inference_graph(graph, [name], minimum_segment_size=1, strict=True, **FAST)
    for rows, n in CALLS:
        close(run_graph(made, [name], given(rows, n))[0], run_graph(graph, [name], given(rows, n))[0])
