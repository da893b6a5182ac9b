# SPDX-License-Identifier: Apache-2.0
"""Models in f16 between quantizers with scales in f16, as ModelOpt writes them: products of integers, as in f32."""

import json

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def model(path, seed=0):
    """x -> Q/DQ -> MatMul with weights per column -> Add -> Relu, all in f16."""
    random, nodes, constants = np.random.default_rng(seed), [], []

    def constant(name, array):
        constants.append(numpy_helper.from_array(array, name))
        return name

    step, zero = constant("step", np.float16(0.03)), constant("zero", np.uint8(120))
    nodes.append(helper.make_node("QuantizeLinear", ["x", step, zero], ["codes"]))
    nodes.append(helper.make_node("DequantizeLinear", ["codes", step, zero], ["dx"]))
    weights = constant("w", random.integers(-127, 128, (96, 64)).astype(np.int8))
    scales = constant("scales", random.uniform(0.001, 0.01, 64).astype(np.float16))
    zeros = constant("zeros", np.zeros(64, np.int8))
    nodes.append(helper.make_node("DequantizeLinear", [weights, scales, zeros], ["dw"], axis=1))
    nodes.append(helper.make_node("MatMul", ["dx", "dw"], ["m"], name="product"))
    nodes.append(helper.make_node("Add", ["m", constant("b", random.standard_normal(64).astype(np.float16))], ["s"]))
    nodes.append(helper.make_node("Relu", ["s"], ["y"]))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape)
              for name, shape in (("x", ["n", 96]), ("y", ["n", 64]))]
    graph = helper.make_graph(nodes, "halves", values[:1], values[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def test_products_are_of_integers_and_near_onnxruntime(graft, tmp_path):
    model(tmp_path / "net.onnx")
    x = np.random.default_rng(1).standard_normal((33, 96)).astype(np.float16)
    np.save(tmp_path / "x.npy", x)
    done = graft("run", "net.onnx", "--input", "x=x.npy", "--output", "y.npz")
    assert done.returncode == 0, done.stderr
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), options, providers=["CPUExecutionProvider"])
    wanted, found = session.run(None, {"x": x})[0].astype(float), np.load(tmp_path / "y.npz")["y"].astype(float)
    assert np.abs(found - wanted).max() < 4e-3 * np.abs(wanted).max()
    # A target that has a unit for it, whatever this machine is.
    made = graft("compile", "net.onnx", "--target", "armv8.6-a+i8mm+bf16", "-o", "net.graft")
    assert made.returncode == 0, made.stderr
    plan = graft("inspect", "net.graft", "--no-run", "--json", "plan.json")
    assert plan.returncode == 0, plan.stderr
    steps = json.loads((tmp_path / "plan.json").read_text())["steps"]
    assert any("MatMulInteger" in step["operators"] for step in steps), steps
