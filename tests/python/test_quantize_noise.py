# SPDX-License-Identifier: Apache-2.0
"""`graft.quantize` without a bound: layers stay fp32 where all of them in 8 bits would drown the outputs in noise."""

import graft
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(15)
WIDTH, LARGE = 24, 1000
W1 = (RANDOM.standard_normal((WIDTH, 32)) / 4).astype(np.float32)
W2 = (RANDOM.standard_normal((32, 6)) / 5).astype(np.float32)
X = RANDOM.standard_normal((48, WIDTH)).astype(np.float32)


def network(scale=1.0, is_divided=False):
    """y = relu(x times w1) times w2; the first channel of x is `scale` times as large, and its weights as small. With
    `is_divided` a second output is a tiny part of the first product."""
    w1 = W1.copy()
    w1[0] /= scale
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["p"], "first"), helper.make_node("Relu", ["p"], ["r"], "relu"),
             helper.make_node("MatMul", ["r", "w2"], ["y"], "second")]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 6])]
    constants = [numpy_helper.from_array(w1, "w1"), numpy_helper.from_array(W2, "w2")]
    if is_divided:
        nodes += [helper.make_node("MatMul", ["q", "w3"], ["z"], "third")]
        outputs.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 6]))
        constants.append(numpy_helper.from_array((1e-3 * W2[:WIDTH] / np.r_[scale, np.ones(WIDTH - 1)][:, None])
                                                 .astype(np.float32), "w3"))
        nodes[-1].input[0] = "x"
    graph = helper.make_graph(nodes, "network", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])],
                              outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def samples(scale=1.0):
    x = X.copy()
    x[:, 0] *= scale
    return x


def precisions(made):
    return {layer.node: layer.precision for layer in made.report.layers}


def test_the_noisy_layer_stays_fp32_and_the_report_says_so():
    x = samples(LARGE)
    made = graft.quantize(network(LARGE), x, tune="off")
    assert precisions(made) == {"first": "fp32", "second": "int8"}
    assert made.report.noise_db_all_layers < 20 <= made.report.noise_db_worst_output
    reason = next(layer.reason for layer in made.report.layers if layer.node == "first")
    assert "int8 of it alone leaves the outputs" in reason and "dB signal to noise" in reason
    assert "the noisiest layers stay fp32" in str(made.report)
    expected = np.maximum(X @ W1, 0) @ W2
    noise = np.mean((made.engine(x) - expected) ** 2) / np.var(expected)
    assert noise < 0.01


def test_a_quiet_network_has_all_layers_in_8_bits():
    made = graft.quantize(network(), samples(), tune="off")
    assert precisions(made) == {"first": "int8", "second": "int8"}
    assert made.report.noise_db_all_layers is None and "noisiest" not in str(made.report)


def test_the_least_ratio_is_a_choice():
    made = graft.quantize(network(LARGE), samples(LARGE), min_snr=0, tune="off")
    assert precisions(made) == {"first": "int8", "second": "int8"}
    with pytest.raises(graft.InvalidArgumentError, match="number of decibels"):
        graft.quantize(network(), samples(), min_snr=-1)


def test_measuring_layers_changes_no_layer():
    x = samples(LARGE)
    made = graft.quantize(network(LARGE), x, per_layer=True, tune="off")
    assert precisions(made) == {"first": "fp32", "second": "int8"}
    assert made.report.noise_db_all_layers < 20 and [point.chosen for point in made.curve].count(True) == 1


def test_a_small_output_counts_as_much_as_a_large_one():
    made = graft.quantize(network(LARGE, is_divided=True), samples(LARGE), tune="off")
    assert precisions(made)["third"] == "fp32"


def test_a_bound_is_the_callers_own_measure():
    made = graft.quantize(network(LARGE), samples(LARGE), max_error=10, tune="off")
    assert made.report.noise_db_all_layers is None


def test_a_calibration_file_keeps_the_layers(tmp_path):
    file = tmp_path / "ranges.json"
    first = graft.quantize(network(LARGE), samples(LARGE), calibration_file=file, tune="off")
    without_samples = graft.quantize(network(LARGE), calibration_file=file, tune="off")
    again = graft.quantize(network(LARGE), samples(LARGE), calibration_file=file, tune="off")
    assert precisions(without_samples) == precisions(again) == precisions(first)
    assert without_samples.model == first.model
