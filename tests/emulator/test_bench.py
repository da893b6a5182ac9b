# SPDX-License-Identifier: Apache-2.0
"""`graft bench` on the emulated GPU: the copies to the device, the kernels and the copies back, each by itself."""

import json
import os
import pathlib
import subprocess

import onnx
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build"))
EMULATOR = BUILD / "emulator"
LARGE, SMALL = 1 << 22, 64

pytestmark = pytest.mark.skipif(not (EMULATOR / "libcuda.so.1").exists(), reason="this build has no emulated GPU")


def model_of(nodes, size_in, size_out, constants=()):
    graph = helper.make_graph(nodes, "parts", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size_in])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [size_out])],
                              [helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
                               for name, values in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    return model


def much_in():
    """The first elements of many."""
    nodes = [helper.make_node("Slice", ["x", "begin", "end"], ["h"]), helper.make_node("Neg", ["h"], ["y"])]
    return model_of(nodes, LARGE, SMALL, [("begin", [0]), ("end", [SMALL])])


def much_out():
    """A few elements, repeated."""
    nodes = [helper.make_node("Neg", ["x"], ["h"]), helper.make_node("Expand", ["h", "shape"], ["y"])]
    return model_of(nodes, 1, LARGE, [("shape", [LARGE])])


def bench(model, folder, *words):
    """The row of a bench, and what it prints."""
    onnx.save(model, folder / "model.onnx")
    environment = {**os.environ, "GRAFT_CACHE": "/dev/null", "GRAFT_DISABLE": "cublaslt,cudnn",
                   "LD_PRELOAD": f"{EMULATOR}/libcuda.so.1:{EMULATOR}/libnvrtc.so.13"}
    done = subprocess.run([BUILD / "bin/graft", "bench", "model.onnx", "--device", "cuda", "--tune", "off", "--warmup",
                           "1", "--iterations", "2", "--json", "row.json", *words],
                          cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((folder / "row.json").read_text())
    return row, done.stdout


def test_what_goes_in_counts_as_a_copy_to_the_device(tmp_path):
    row, _ = bench(much_in(), tmp_path)
    assert row["h2d_ms"] > row["d2h_ms"] > 0 and row["compute_ms"] > 0


def test_what_comes_out_counts_as_a_copy_to_the_host(tmp_path):
    row, _ = bench(much_out(), tmp_path)
    assert row["d2h_ms"] > row["h2d_ms"] > 0 and row["compute_ms"] > 0


def test_the_parts_are_told_beside_the_time_of_a_run(tmp_path):
    row, text = bench(much_in(), tmp_path, "--host-io")
    assert (f"apart: inputs to the device {row['h2d_ms']:.3f} ms, compute {row['compute_ms']:.3f}, outputs to the host "
            f"{row['d2h_ms']:.3f}") in text
    assert row["graft_ms"] > 0 and "inputs and outputs on the host" in text
