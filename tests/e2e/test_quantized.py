# SPDX-License-Identifier: Apache-2.0
"""Networks that ONNX Runtime's quantisers wrote, beside ONNX Runtime: Q/DQ around layers, and dynamic quantisation.

Integer products are exact and the arithmetic around them is the same, so that results agree to rounding; a quantisation
step of a result apart would be far more. Where this processor has units for 8-bit integers, the plan says that each
product of more than one row runs on one."""

import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COMMAND = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")) / "bin" / "graft"
TYPES = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}
random = np.random.default_rng(5)


@pytest.fixture(scope="module", autouse=True)
def environment(tmp_path_factory):
    """A kernel cache of the tests' own."""
    os.environ["GRAFT_CACHE"] = str(tmp_path_factory.mktemp("cache") / "kernels")


def weights(*shape):
    """Of a layer whose results have the scale of what it is given."""
    return (random.normal(size=shape) / np.sqrt(np.prod(shape[1:]) if len(shape) > 2 else shape[0])).astype(np.float32)


def save(path, nodes, shape, result, tensors):
    initializers = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in tensors.items()]
    graph = helper.make_graph(nodes, "network", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def perceptron(path):
    node = helper.make_node
    save(path, [node("MatMul", ["x", "w1"], ["a"]), node("Add", ["a", "b1"], ["b"]), node("Relu", ["b"], ["c"]),
                node("MatMul", ["c", "w2"], ["d"]), node("Relu", ["d"], ["e"]),
                node("Gemm", ["e", "w3", "b3"], ["y"], transB=1)],
         ["n", 96], ["n", 33], {"w1": weights(96, 150), "b1": random.normal(size=150), "w2": weights(150, 64),
                                "w3": weights(64, 33).T, "b3": random.normal(size=33)})
    return (37, 96), 3


def convolutions(path):
    node = helper.make_node
    save(path, [node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["b"]),
                node("Conv", ["b", "w2"], ["c"], pads=[2, 1, 0, 1], strides=[1, 2]), node("Relu", ["c"], ["d"]),
                node("Conv", ["d", "w3", "b3"], ["y"], dilations=[2, 1])],
         [2, 24, 13, 11], [2, 20, 9, 6], {"w1": weights(64, 24, 3, 3), "b1": random.normal(size=64),
                                          "w2": weights(40, 64, 3, 3), "w3": weights(20, 40, 3, 1),
                                          "b3": random.normal(size=20)})
    return (2, 24, 13, 11), 3


class Samples(CalibrationDataReader):
    """Of inputs whose zero is no code in the middle."""

    def __init__(self, shape):
        self.left = [{"x": (random.normal(size=shape) + 0.5).astype(np.float32)} for _ in range(3)]

    def get_next(self):
        return self.left.pop() if self.left else None


def run(*arguments):
    result = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


def compare(model, shape, tmp_path):
    x = (random.normal(size=shape) + 0.5).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # As the model says it: ONNX Runtime's own rewrites of Q/DQ round elsewhere.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    run("run", model, "--tune", "off", "--input", f"x={tmp_path / 'x.npy'}", "-o", tmp_path / "y.npy")
    actual = np.load(tmp_path / "y.npy")
    apart = np.abs(actual - expected[0])
    # Where a sum of ONNX Runtime, which it rounds, lies at the border of two codes, one code differs.
    assert np.percentile(apart, 99) <= 1e-4, apart.max()
    assert apart.max() <= 0.05 * np.abs(expected[0]).max(), apart.max()


def check_units(model, products):
    features = run("env")
    if "+avx512vnni" not in features:
        return
    plan = run("compile", model, "--tune", "off", "--compile-to", "plan")
    assert len(re.findall(r"\buse .* unit=\w+", plan)) == products, plan


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("activations", ["u8", "s8"])
@pytest.mark.parametrize("network", [perceptron, convolutions])
def test_layers_between_q_and_dq_multiply_integers(network, activations, per_channel, tmp_path):
    shape, products = network(tmp_path / "float.onnx")
    model = tmp_path / "quantised.onnx"
    quantize_static(tmp_path / "float.onnx", model, Samples(shape), quant_format=QuantFormat.QDQ,
                    per_channel=per_channel, activation_type=TYPES[activations], weight_type=QuantType.QInt8)
    compare(model, shape, tmp_path)
    if activations == "u8":  # byte products of vectors take no others
        check_units(model, products)


@pytest.mark.parametrize("type_of_weights", ["u8", "s8"])
def test_dynamic_quantisation_multiplies_integers(type_of_weights, tmp_path):
    shape, products = perceptron(tmp_path / "float.onnx")
    model = tmp_path / "quantised.onnx"
    quantize_dynamic(tmp_path / "float.onnx", model, weight_type=TYPES[type_of_weights])
    compare(model, shape, tmp_path)
    if type_of_weights == "s8":
        check_units(model, products)
