# SPDX-License-Identifier: Apache-2.0
"""Small frozen graphs, and what TensorFlow and the rewritten ones make of them."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import tensorflow as tf  # noqa: E402

FAST = {"tune": "off"}  # how engines are compiled in tests: what is measured changes nothing about results
v1 = tf.compat.v1


def weights(*shape):
    """The same numbers for the same shape, of both signs."""
    made = np.random.default_rng(sum(shape)).standard_normal(shape) * 0.3
    return tf.constant(made.astype(np.float32))


def graph_of(build):
    """The GraphDef of a function that adds operators to the default graph."""
    with v1.Graph().as_default() as graph:
        build()
    return graph.as_graph_def()


def split_network(odd=tf.math.digamma, layout="NHWC", batch=None):
    """Convolutions around an operator that no engine has, as names in scopes."""
    image = v1.placeholder(tf.float32, [batch, 8, 8, 3], name="image")
    x = image if layout == "NHWC" else tf.transpose(image, [0, 3, 1, 2])
    channels = [8]
    pool = [1, 2, 2, 1] if layout == "NHWC" else [1, 1, 2, 2]
    with tf.name_scope("stem"):
        x = tf.nn.conv2d(x, weights(3, 3, 3, 8), 1, "SAME", data_format=layout, name="conv")
        x = v1.nn.fused_batch_norm(x, tf.fill(channels, 1.5), weights(8), weights(8) * 0.1, tf.fill(channels, 0.7),
                                   is_training=False, data_format=layout)[0]
        x = tf.nn.max_pool2d(tf.nn.relu(x), pool, pool, "SAME", data_format=layout)
    x = odd(x + 1.5)
    with tf.name_scope("head"):
        x = tf.nn.conv2d(x, weights(3, 3, 8, 8), 2, "SAME", data_format=layout)
        x = tf.nn.relu(tf.nn.bias_add(x, weights(8), data_format=layout))
        x = tf.reduce_mean(x, [1, 2] if layout == "NHWC" else [2, 3])
        x = tf.linalg.matmul(x, weights(8, 5)) + weights(5)
    return tf.nn.softmax(x, name="softmax")


def run_graph(graph_def, outputs, feeds):
    """Results in a session of its own."""
    with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        tf.import_graph_def(graph_def, name="")
        return session.run([f"{name}:0" if ":" not in name else name for name in outputs],
                           {f"{name}:0": value for name, value in feeds.items()})


def engines_of(graph_def):
    """The nodes that are engines."""
    return [node for node in graph_def.node if node.op == "GraftEngine"]


def close(result, expected):
    """Within 1e-4 of the range of what is expected."""
    expected = np.asarray(expected)
    assert result.shape == expected.shape and result.dtype == expected.dtype
    scale = max(1.0, float(np.abs(expected).max())) if expected.size and expected.dtype.kind == "f" else 0
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-4 * scale)


@pytest.fixture(name="image")
def fixture_image():
    """Batches of images by their size."""
    def make(batch):
        return np.random.default_rng(batch).standard_normal((batch, 8, 8, 3)).astype(np.float32)
    return make
