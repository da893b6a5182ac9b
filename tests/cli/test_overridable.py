# SPDX-License-Identifier: Apache-2.0
"""Inputs of ONNX models that have an initializer: constant, or given in each run."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture
def scaled(tmp_path):
    """y = x * scale + shift; both have initializers and are inputs, `fixed` is no input."""
    def tensor(name, *shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    weights = [numpy_helper.from_array(np.full(3, value, np.float32), name)
               for name, value in (("scale", 2), ("shift", 1), ("fixed", 0))]
    nodes = [helper.make_node("Mul", ["x", "scale"], ["scaled"]),
             helper.make_node("Add", ["scaled", "shift"], ["moved"]),
             helper.make_node("Add", ["moved", "fixed"], ["y"])]
    graph = helper.make_graph(nodes, "scaled", [tensor("x", "n", 3), tensor("scale", 3), tensor("shift", 3)],
                              [tensor("y", "n", 3)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
              tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    np.save(tmp_path / "scale.npy", np.array([5, 6, 7], np.float32))


RUN = ("run", "model.onnx", "--dim", "n=1:2:4", "--tune", "off", "--input", "x=x.npy", "-o", "y.npy")


def test_an_initializer_counts_unless_the_caller_says_otherwise(graft, scaled, tmp_path):
    assert graft(*RUN).returncode == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.full((2, 3), 3))
    done = graft(*RUN, "--overridable", "scale", "--input", "scale=scale.npy")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), [[6, 7, 8]] * 2)


@pytest.mark.parametrize("name", ["fixed", "x", "nothing"])
def test_other_names_are_refused_with_those_that_there_are(graft, scaled, name):
    done = graft("compile", "model.onnx", "-o", "model.graft", "--overridable", name)
    said = f"'{name}' is no input with an initializer; the model has scale, shift"
    assert done.returncode == 1 and said in done.stderr, done.stderr


def test_another_format_is_refused(graft, tmp_path):
    (tmp_path / "net-symbol.json").write_text('{"nodes": [], "arg_nodes": [], "heads": []}')
    done = graft("check", "net-symbol.json", "--overridable", "w")
    assert done.returncode != 0 and "--overridable" in done.stderr and "ONNX" in done.stderr, done.stderr
