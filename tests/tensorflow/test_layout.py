# SPDX-License-Identifier: Apache-2.0
"""What becomes of TensorFlow's layout, its paddings and its decomposed normalisations: no step of their own."""

import numpy as np
import pytest
import tensorflow as tf
from conftest import FAST, close, graph_of, run_graph, v1, weights

import graft

SHAPE = [None, 17, 15, 32]


def image(batch):
    return np.random.default_rng(batch).standard_normal((batch, *SHAPE[1:])).astype(np.float32)


def conv(x, outer, kernel, strides=1, padding="SAME"):
    """A convolution as old models of TF Slim freeze it: normalised by a product and a sum that constants give."""
    x = tf.nn.conv2d(x, weights(kernel, kernel, x.shape[-1], outer), strides, padding, name="conv")
    scale = tf.math.rsqrt(tf.abs(weights(outer)) + 0.5) * (weights(outer) + 1.5)
    return tf.nn.relu(x * scale + (weights(outer) - weights(outer) * 0.3 * scale), name="relu")


def scoped(name, *arguments):
    with tf.name_scope(name):
        return conv(*arguments)


def inception():
    """Four 1x1 convolutions of x, two of which others follow, and a pool with another 1x1 behind it."""
    x = v1.placeholder(tf.float32, SHAPE, name="x")
    parts = [scoped("single", x, 32, 1), scoped("plain", x, 16, 1)]
    parts.append(scoped("after3", scoped("before3", x, 24, 1), 48, 3))
    parts.append(scoped("after5", scoped("before5", x, 8, 1), 56, 5))
    parts.append(scoped("pooled", tf.nn.max_pool2d(x, 3, 1, "SAME"), 64, 1))
    tf.concat(parts, -1, name="y")


def mobile():
    """Strides whose SAME padding is not the same on both sides, of all kinds of windows."""
    x = v1.placeholder(tf.float32, SHAPE, name="x")
    x = scoped("first", x, 16, 3, 2)
    x = tf.nn.depthwise_conv2d(x, weights(3, 3, 16, 1), [1, 2, 2, 1], "SAME")
    x = scoped("second", tf.nn.avg_pool2d(x, 2, 1, "SAME"), 8, 2, 1)
    x = tf.nn.max_pool2d(x, 2, 2, "SAME")
    tf.nn.softmax(tf.reduce_mean(x, [1, 2]) @ weights(8, 5), name="y")


def steps_of(build, **options):
    engine = graft.compile(graph_of(build), outputs="y", **FAST, **options)
    for batch in (1, 3):
        close(np.asarray(engine(image(batch))), run_graph(graph_of(build), ["y"], {"x": image(batch)})[0])
    return [step for step in engine.describe()["steps"] if step["way"] not in ("none", "folded")]


def convolutions_of(steps):
    return [step["nodes"] for step in steps if "Conv" in step["operators"]]


@pytest.mark.parametrize("build", [inception, mobile])
@pytest.mark.parametrize("libraries", [True, False])
def test_no_step_transposes_pads_or_normalizes(build, libraries):
    steps = steps_of(build, disable="" if libraries else "onednn")
    for step in steps:
        alone = set(step["operators"]) & {"Transpose", "Pad", "Mul", "Sqrt", "Reciprocal", "Sub"}
        assert not alone, step


def test_the_four_1x1_convolutions_of_an_inception_module_are_one_kernel():
    before, after = steps_of(inception, disable="merge_parallel_convolutions,onednn"), steps_of(inception,
                                                                                               disable="onednn")
    assert len(convolutions_of(before)) == 7 and len(convolutions_of(after)) == 4
    assert len(before) - len(after) == 3
    joint = [nodes[0] for nodes in convolutions_of(after) if "before3/" in nodes[0]]
    assert len(joint) == 1
    assert sorted(part.partition("/")[0] for part in joint[0].split(" + ")) == ["before3", "before5", "plain", "single"]
