# SPDX-License-Identifier: Apache-2.0
"""`--precision fp8`: standard Q/DQ of e4m3 with powers of two as scales, results near fp32, and a bound that holds."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper
from test_quantize import convolutional, samples  # noqa: F401  (a fixture)


@pytest.fixture
def network(tmp_path):
    convolutional(tmp_path / "net.onnx")
    return tmp_path


def without_optimisations(path, x):
    """ONNX Runtime's; its optimisations take products of floats of 8 bits for integer ones."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def test_the_model_is_standard_and_its_scales_are_powers_of_two(graft, network, samples):  # noqa: F811
    done = graft("convert", "net.onnx", "--precision", "fp8", "--calibrate", samples, "-o", "q.onnx", "--json", "-")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["quantization"]
    assert report["weights"] == "fp8" and report["method"] == "minmax" and 0 < report["error"] < 0.1
    model = onnx.load(network / "q.onnx")
    onnx.checker.check_model(model, full_check=True)
    constants = {each.name: each for each in model.graph.initializer}
    quantizers = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
    assert quantizers and all(constants[node.input[2]].data_type == TensorProto.FLOAT8E4M3FN for node in quantizers)
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear":
            scales = numpy_helper.to_array(constants[node.input[1]])
            assert np.array_equal(np.exp2(np.round(np.log2(scales))), scales)
    x = np.load(samples / "0.npy")
    exact, found = without_optimisations(network / "net.onnx", x), without_optimisations(network / "q.onnx", x)
    assert np.abs(found - exact).max() < 0.1 * np.ptp(exact)
    np.save(network / "x.npy", x)
    ran = graft("run", "q.onnx", "--input", "x=x.npy", "--output", "out.npz")
    assert ran.returncode == 0, ran.stderr
    assert np.abs(np.load(network / "out.npz")["y"] - found).max() < 0.05 * np.ptp(exact)


def test_a_bound_keeps_layers_in_floats_or_is_refused(graft, network, samples):  # noqa: F811
    done = graft("compile", "net.onnx", "--precision", "fp8", "--calibrate", str(samples), "--max-error", "0.05", "-o",
                 "net.graft", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["quantization"]["error"] <= 0.05
    done = graft("compile", "net.onnx", "--precision", "fp8", "--calibrate", str(samples), "--max-error", "1e-9", "-o",
                 "none.graft")
    assert done.returncode != 0 and "fp8" in done.stderr and not (network / "none.graft").exists()


@pytest.mark.parametrize("words, message", [
    (("--activations", "dynamic"), "rows with a scale of their own are integers"),
    (("--block", "32"), "blocks are of 4 bits"),
    (("--smooth", "auto"), "with fp8 they are floats"),
    ((), "--precision fp8 needs samples"),
])
def test_what_fp8_has_not_is_refused(graft, network, words, message):
    done = graft("convert", "net.onnx", "--precision", "fp8", *words, "-o", "q.onnx")
    assert done.returncode == 2 and message in done.stderr and not (network / "q.onnx").exists()
