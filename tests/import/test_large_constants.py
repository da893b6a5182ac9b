# SPDX-License-Identifier: Apache-2.0
"""Looking at a model allocates no tensor that the model only speaks of: neither folded nor measured."""

import os
import pathlib
import resource
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COMMAND = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")) / "bin" / "graft"
MEMORY = 6 << 30
ELEMENTS = 1 << 31


def check(model, folder):
    """`graft check` with little memory and no kernels or times of before."""
    path = folder / "large.onnx"
    onnx.save(model, path)
    return subprocess.run([COMMAND, "check", path], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "GRAFT_CACHE": str(folder / "cache")},
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)))


@pytest.mark.parametrize("size", [np.array([ELEMENTS], np.int64), np.array([ELEMENTS], np.float32)])
def test_a_constant_of_eight_gigabytes_is_not_made(size, tmp_path):
    # Of a float's value inference knows nothing: the size is known only once the Cast is folded.
    nodes = [helper.make_node("Cast", ["size"], ["shape"], to=TensorProto.INT64),
             helper.make_node("ConstantOfShape", ["shape"], ["y"])]
    graph = helper.make_graph(nodes, "large", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(size, "size")])
    done = check(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ConstantOfShape" in done.stdout


@pytest.mark.parametrize("shape", [[1 << 40, 1 << 40], [1 << 62, 4]])
def test_sizes_that_overflow_are_refused(shape, tmp_path):
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "large", values[:1], values[1:])
    done = check(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path)
    assert done.returncode == 1
    assert "value 'x'" in done.stderr and "overflows 64 bits" in done.stderr


def test_declared_outputs_and_initializers_that_overflow_are_refused(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1 << 40, 1 << 40])
    huge = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1 << 40, 1 << 40], raw_data=b"1234")
    for outputs, weights in (([y], []), ([helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])], [huge])):
        node = helper.make_node("Add", ["x", "w" if weights else "x"], ["y"])
        graph = helper.make_graph([node], "large", [x], outputs, weights)
        done = check(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path)
        assert done.returncode == 1
        assert ("'w'" if weights else "'y'") in done.stderr, done.stderr
