# SPDX-License-Identifier: Apache-2.0
"""The package of the build tree, and small models."""

import os
import pathlib
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build"))
sys.path.insert(0, str(BUILD / "python"))
WEIGHTS = np.random.default_rng(7).standard_normal((4, 3)).astype(np.float32)


def model_of(nodes, inputs, outputs, constants=()):
    """A checked model; inputs and outputs are (name, element type, shape)."""
    graph = helper.make_graph(nodes, "small", [helper.make_tensor_value_info(*value) for value in inputs],
                              [helper.make_tensor_value_info(*value) for value in outputs],
                              [onnx.numpy_helper.from_array(array, name) for name, array in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    onnx.checker.check_model(model)
    return model


def layer_model():
    """y = relu(x w) with a named batch."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    return model_of(nodes, [("x", TensorProto.FLOAT, ["batch", 4])], [("y", TensorProto.FLOAT, ["batch", 3])],
                    [("w", WEIGHTS)])


def expected(x):
    """What it computes."""
    return np.maximum(x @ WEIGHTS, 0)


@pytest.fixture(name="engine", scope="session")
def fixture_engine():
    """The layer for batches of 1 to 64."""
    import graft
    return graft.compile(layer_model(), dims={"batch": (1, 8, 64)}, tune="off")


@pytest.fixture(name="x")
def fixture_x():
    """Five rows."""
    return np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)
