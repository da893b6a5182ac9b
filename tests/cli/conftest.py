# SPDX-License-Identifier: Apache-2.0
"""The command as built, and a small model for it."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COMMAND = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")) / "bin" / "graft"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """A kernel cache of the tests' own."""
    folder = tmp_path_factory.mktemp("cache") / "kernels"
    os.environ["GRAFT_CACHE"] = str(folder)
    # `--reference onnxruntime` looks for a Python with it: this one has it.
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    return folder


@pytest.fixture
def graft(tmp_path):
    """Runs the command in a folder of the test's own; gives exit status, output and messages."""
    def run(*words, **options):
        return subprocess.run([str(COMMAND), *map(str, words)], capture_output=True, text=True,
                              cwd=tmp_path, timeout=300, **options)
    return run


def two_layers():
    """x[batch, 4] -> relu(x w + b) as a model proto; the weights are seeded."""
    random = np.random.default_rng(7)
    weights = numpy_helper.from_array(random.standard_normal((4, 33)).astype(np.float32), "w")
    bias = numpy_helper.from_array(random.standard_normal(33).astype(np.float32), "b")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["product"], name="multiply"),
             helper.make_node("Add", ["product", "b"], ["sum"], name="add"),
             helper.make_node("Relu", ["sum"], ["y"], name="clamp")]
    graph = helper.make_graph(
        nodes, "two_layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 33])], [weights, bias])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def expected(model, x):
    """What the model means, by numpy."""
    weights, bias = (numpy_helper.to_array(tensor) for tensor in model.graph.initializer)
    return np.maximum(x @ weights + bias, 0)


@pytest.fixture
def model(tmp_path):
    """The small model in the test's folder."""
    path = tmp_path / "model.onnx"
    onnx.save(two_layers(), path)
    return path
