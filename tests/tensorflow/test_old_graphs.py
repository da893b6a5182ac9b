# SPDX-License-Identifier: Apache-2.0
"""Graphs that TensorFlow 1 has written, with operators that today's TensorFlow does not run, or not on a processor."""

import numpy as np
import pytest
import tensorflow as tf
from conftest import FAST, close, graph_of, run_graph, v1, weights

import graft

X = np.random.default_rng(2).standard_normal((2, 7, 6, 3)).astype(np.float32)


def node(graph, name, op, *inputs, **attributes):
    """A node as a file has it, whose operator TensorFlow need not know."""
    made = graph.node.add(name=name, op=op, input=inputs)
    for key, value in attributes.items():
        if isinstance(value, tf.DType):
            made.attr[key].type = value.as_datatype_enum
        elif isinstance(value, list):
            made.attr[key].list.i.extend(value)
        else:
            made.attr[key].s = value.encode()
    return made


def compiled(graph, output):
    """The whole graph in memory as an engine."""
    return np.asarray(graft.compile(graph.SerializeToString(), outputs=output, **FAST)(X))


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("side, activation, filters", [(0.0, "Relu", "HWIO"), (0.5, "None", "OIHW")])
def test_a_convolution_that_was_fused_for_a_gpu(layout, side, activation, filters):
    def build():
        x = v1.placeholder(tf.float32, [None, 7, 6, 3], name="x")
        added = tf.nn.conv2d(x, weights(3, 3, 3, 3), 1, "SAME", name="other") * side
        made = tf.nn.conv2d(x, weights(2, 2, 3, 3), 1, "SAME") * 2.0 + added + weights(3)
        tf.identity(tf.nn.relu(made) if activation == "Relu" else made, name="y")

    def parts():
        x = v1.placeholder(tf.float32, [None, 7, 6, 3], name="x")
        w = weights(2, 2, 3, 3)
        added = tf.nn.conv2d(x, weights(3, 3, 3, 3), 1, "SAME")
        first = [0, 3, 1, 2]
        tf.identity(tf.transpose(x, first) if layout == "NCHW" else x, name="images")
        tf.identity(tf.transpose(added, first) if layout == "NCHW" else added, name="added")
        tf.identity(tf.transpose(w, [3, 2, 0, 1]) if filters == "OIHW" else w, name="filters")
        for name, value in (("bias", weights(3)), ("two", 2.0), ("side", side)):
            tf.identity(value, name=name)

    expected = run_graph(graph_of(build), ["y"], {"x": X})[0]
    graph = graph_of(parts)
    node(graph, "fused", "FusedConv2DBiasActivation", "images", "filters", "bias", "added", "two", "side", T=tf.float32,
         Tbias=tf.float32, strides=[1, 1, 1, 1], padding="SAME", data_format=layout, filter_format=filters,
         activation_mode=activation)
    result = compiled(graph, "fused")
    close(result.transpose([0, 2, 3, 1]) if layout == "NCHW" else result, expected)


def test_what_hands_a_tensor_to_a_gpu_hands_it_on():
    graph = graph_of(lambda: tf.nn.relu(v1.placeholder(tf.float32, [None, 7, 6, 3], name="x"), name="relu"))
    node(graph, "there", "_CopyFromHostToGpu", "relu", T=tf.float32)
    node(graph, "y", "Neg", "there", T=tf.float32)
    close(compiled(graph, "y"), -np.maximum(X, 0))


def test_a_shape_of_nothing_is_an_unknown_one_in_a_graph_before_version_24():
    graph = graph_of(lambda: tf.nn.relu(v1.placeholder(tf.float32, [None, 7, 6, 3], name="x"), name="y"))
    graph.versions.producer = 21
    del graph.node[0].attr["shape"].shape.dim[:]
    made = graft.embed(graph, ["y"], shapes={"x": X.shape}, **FAST)
    assert made.engines == 1
