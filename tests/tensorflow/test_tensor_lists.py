# SPDX-License-Identifier: Apache-2.0
"""Lists of tensors (TensorArray): in engines, against TensorFlow; never across an engine's border."""

import numpy as np
import pytest
import tensorflow as tf
from conftest import FAST, close, engines_of, run_graph
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

import graft.tensorflow

X = tf.TensorSpec([None, 4], tf.float32, name="x")
N = tf.TensorSpec([], tf.int32, name="n")


def collected(x, n):
    """As many rounds as a run says, each of whose results is kept, of a size that nobody stated before."""
    kept = tf.TensorArray(tf.float32, size=n, element_shape=[None, 4])
    return tf.while_loop(lambda i, *_: i < n, lambda i, y, kept: (i + 1, tf.tanh(y * 1.5) - 0.1, kept.write(i, y)),
                         [0, x, kept])[2].stack()


def some_set(x, n):
    """Elements that nobody sets are zeros; numbers of axes without a size."""
    kept = tf.TensorArray(tf.float32, size=5, element_shape=[])
    return tf.while_loop(lambda i, *_: i < n, lambda i, kept: (i + 2, kept.write(i, tf.reduce_sum(x) + float(3))),
                         [0, kept])[1].stack()


def taken(x, n):
    """Rows of a tensor, read in another order."""
    rows = tf.TensorArray(tf.float32, size=4, element_shape=[None]).unstack(tf.transpose(x))
    zero = tf.zeros([tf.shape(x)[0]])
    return tf.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, y * 0.5 + rows.read(3 - i)), [0, zero])[1]


def mended(x, n):
    """Elements of a list that a tensor was taken apart into, changed one after another."""
    rows = tf.TensorArray(tf.float32, size=4, element_shape=[None], clear_after_read=False).unstack(tf.transpose(x))
    return tf.while_loop(lambda i, _: i < n, lambda i, kept: (i + 1, kept.write(i, kept.read(i) * 2.0)),
                         [0, rows])[1].stack()


def growing(size, stated):
    """A list that each round makes longer, by an element of a size that nobody stated or of no stated axes."""
    def build(x, n):
        kept = tf.TensorArray(tf.float32, size=size, dynamic_size=True, infer_shape=stated,
                              element_shape=[None, 4] if stated else None)
        return tf.while_loop(lambda i, *_: i < n, lambda i, y, kept: (i + 1, tf.tanh(y * 1.5), kept.write(i, y)),
                             [0, x, kept])[2].stack()
    build.__name__ = f"growing_from_{size}_{'stated' if stated else 'any'}"
    return build


def of_any_axes(x, n):
    """As vectorised maps and time-distributed layers keep their results."""
    return tf.map_fn(lambda row: tf.tanh(row) * tf.cast(n, tf.float32), x)


def grown_by_hand(x, n):
    """Elements one behind the other, one of them beyond the end."""
    kept = tf.TensorArray(tf.float32, size=1, dynamic_size=True, clear_after_read=False).write(0, x).write(3, x * 2.0)
    return kept.write(kept.size(), x + tf.cast(n, tf.float32)).stack()


def frozen_of(build):
    function = tf.function(build, input_signature=[X, N], autograph=False).get_concrete_function()
    frozen = convert_variables_to_constants_v2(function, lower_control_flow=False)
    return frozen.graph.as_graph_def(), [tensor.op.name for tensor in frozen.inputs], frozen.outputs[0].op.name


def feeds_of(names, rows, n):
    x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
    return dict(zip(names, (x, np.array(n, np.int32))))


BUILDS = [collected, some_set, taken, mended, growing(0, True), growing(2, True), growing(0, False), of_any_axes,
          grown_by_hand]


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.__name__)
def test_a_loop_over_lists_is_an_engine(build):
    graph, inputs, output = frozen_of(build)
    made = graft.tensorflow.create_inference_graph(graph, [output], minimum_segment_size=1, strict=True, **FAST)
    left = {node.op for node in made.node} - {"Placeholder", "GraftEngine", "Identity", "NoOp", "Const"}
    assert len(engines_of(made)) == 1 and not left
    for rows, n in [(2, 3), (1, 4), (3, 1)]:
        feeds = feeds_of(inputs, rows, n)
        close(run_graph(made, [output], feeds)[0], run_graph(graph, [output], feeds)[0])


def test_lists_stay_with_the_loop_that_stays():
    def build(x, n):
        kept = tf.TensorArray(tf.float32, size=n, element_shape=[None, 4])
        y = tf.nn.relu(x * 2.0 + 1.0)
        made = tf.while_loop(lambda i, *_: i < n,
                             lambda i, y, kept: (i + 1, tf.math.digamma(y + 2.0), kept.write(i, y)), [0, y, kept])
        return made[2].stack() * 3.0 + 1.0

    graph, inputs, output = frozen_of(build)
    made = graft.tensorflow.create_inference_graph(graph, [output], minimum_segment_size=1, **FAST)
    left = {node.op for node in made.node}
    assert {"StatelessWhile", "TensorListReserve", "TensorListStack"} <= left and len(engines_of(made)) >= 1
    feeds = feeds_of(inputs, 2, 3)
    close(run_graph(made, [output], feeds)[0], run_graph(graph, [output], feeds)[0])
