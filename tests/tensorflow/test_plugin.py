# SPDX-License-Identifier: Apache-2.0
"""`graft plugin --for tensorflow`: the folder builds, and its operators give shapes while a graph is built."""

import pathlib
import sys

import pytest
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import plugin_folder  # noqa: E402

TENSORFLOW = f"-DTENSORFLOW={tf.sysconfig.get_lib()}"
v1 = tf.compat.v1


@pytest.fixture(name="operators", scope="module")
def fixture_operators(tmp_path_factory):
    """What loading the library gives."""
    folder = plugin_folder.made_folder("tensorflow", tmp_path_factory.mktemp("plugin"))
    plugin_folder.built(folder, TENSORFLOW, "-DSHAPES_ONLY=ON")
    return tf.load_op_library(str(folder / "build/libgraft_tensorflow_ops.so"))


def shapes_of(operators, shape, kind=tf.float32):
    """The results' shapes as a graph knows them."""
    with v1.Graph().as_default():
        weight = v1.placeholder(tf.float32, [48])
        results = operators.twice(v1.placeholder(kind, shape), weight, weight)
        assert {result.dtype for result in results} == {tf.float32}
        return [result.shape.as_list() for result in results]


def test_it_builds_with_its_kernels(tmp_path):
    folder = plugin_folder.built(plugin_folder.made_folder("tensorflow", tmp_path), TENSORFLOW)
    assert (folder / "build/libgraft_tensorflow_ops.so").exists()


@pytest.mark.parametrize("shape, results", [
    ([3, 5, 48], [[3, 10, 48], [3, 5, 1]]),
    ([None, 5, 48], [[None, 10, 48], [None, 5, 1]]),
    ([3, None, None], [[3, None, 48], [3, None, 1]]),
])
def test_shapes_follow_from_the_arguments(operators, shape, results):
    assert shapes_of(operators, shape) == results


@pytest.mark.parametrize("shape, kind, error, said", [
    ([2, 3, 40], tf.float32, ValueError, "axis 2 of input x is not 48"),
    ([65, 3, 48], tf.float32, ValueError, "batch is more than 64"),
    ([3, 48], tf.float32, ValueError, "must be rank 3"),
    ([2, 3, 48], tf.float16, TypeError, "float32"),
])
def test_what_does_not_fit_is_said(operators, shape, kind, error, said):
    with pytest.raises(error, match=said):
        shapes_of(operators, shape, kind)
