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


def message(*fields):
    """A protobuf message of (number, bytes or text or number)."""
    def varint(number):
        return bytes([number]) if number < 128 else bytes([number % 128 + 128]) + varint(number // 128)

    made = b""
    for number, value in fields:
        value = value.encode() if isinstance(value, str) else value
        made += varint(number * 8) + varint(value) if isinstance(value, int) else (
            varint(number * 8 + 2) + varint(len(value)) + value)
    return made


def frozen_graph():
    """y = neg(mystery(relu(x))), as TensorFlow's GraphDef; it has no operator `Mystery`, and nobody has."""
    def node(name, operator, inputs, *attributes):
        return (1, message((1, name), (2, operator), *((3, each) for each in inputs),
                           *((5, message((1, key), (2, value))) for key, value in attributes)))

    floats = message((6, 1))
    shape = message((7, message((2, message((1, 3))), (2, message((1, 4))))))
    return message(node("x", "Placeholder", [], ("dtype", floats), ("shape", shape)),
                   node("net/relu", "Relu", ["x"], ("T", floats)),
                   node("net/mystery", "Mystery", ["net/relu"], ("_output_shapes", message(
                       (1, message((7, message((2, message((1, 3))), (2, message((1, 4)))))))))),
                   node("y", "Neg", ["net/mystery"], ("T", floats)), (4, message((1, 1882))))


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
