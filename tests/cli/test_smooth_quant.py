# SPDX-License-Identifier: Apache-2.0
"""SmoothQuant: outlying channels of a transformer's activations move into weights, and the error falls."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_quantize import in_onnxruntime
from test_quantize_budget import convert

WIDTH, LENGTH, OUTLIERS = 64, 12, (3, 17, 40)


def transformer(path, outlier=50.0):
    """Two layers in which a few channels of each normalisation are far larger than the others, as in trained language
    models; what reads them has small weights there."""
    random, nodes, constants = np.random.default_rng(11), [], []

    def constant(array, kind=np.float32):
        name = f"c{len(constants)}"
        constants.append(numpy_helper.from_array(np.asarray(array, kind), name))
        return name

    def node(operator, inputs, name, **attributes):
        nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def product(x, rows, columns, name, behind_norm=False):
        weights = random.standard_normal((rows, columns)) / np.sqrt(rows)
        if behind_norm:
            weights[list(OUTLIERS)] /= outlier
        bias = constant(random.standard_normal(columns) / 4)
        return node("Add", [node("MatMul", [x, constant(weights)], name), bias], f"{name}_bias")

    def norm(x, name):
        scale = np.ones(WIDTH)
        scale[list(OUTLIERS)] = outlier
        return node("LayerNormalization", [x, constant(scale), constant(random.standard_normal(WIDTH) / 8)], name)

    x = "x"
    for n in range(2):
        a = norm(x, f"norm{n}")
        q, k, v = (product(a, WIDTH, WIDTH, f"{part}{n}", True) for part in "qkv")
        scores = node("MatMul", [q, node("Transpose", [k], f"turned{n}", perm=[0, 2, 1])], f"scores{n}")
        weights = node("Softmax", [node("Mul", [scores, constant(1 / 8)], f"scaled{n}")], f"softmax{n}", axis=-1)
        mixed = product(node("MatMul", [weights, v], f"mixed{n}"), WIDTH, WIDTH, f"out{n}")
        x = node("Add", [x, mixed], f"sum{n}")
        wide = product(norm(x, f"norm_b{n}"), WIDTH, 2 * WIDTH, f"up{n}", True)
        narrow = product(node("Relu", [wide], f"relu{n}"), 2 * WIDTH, WIDTH, f"down{n}")
        x = node("Add", [x, narrow], f"sum_b{n}")
    product(x, WIDTH, 10, "y")
    shape = ["batch", LENGTH, WIDTH]
    graph = helper.make_graph(nodes, "network", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y_bias", TensorProto.FLOAT, ["batch", LENGTH, 10])],
                              constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


@pytest.fixture
def network(tmp_path):
    transformer(tmp_path / "net.onnx")
    random = np.random.default_rng(12)
    np.save(tmp_path / "samples.npy", random.standard_normal((24, LENGTH, WIDTH)).astype(np.float32))
    return random.standard_normal((6, LENGTH, WIDTH)).astype(np.float32)  # not among the samples


@pytest.mark.parametrize("activations", ["static", "dynamic"])
def test_the_error_falls_by_a_factor(graft, tmp_path, network, activations):
    exact = in_onnxruntime(tmp_path / "net.onnx", x=network)
    errors = {}
    for smooth in ("off", "auto"):
        # All layers are quantised, however noisy they are.
        report, said = convert(graft, tmp_path, "--activations", activations, "--smooth", smooth, "--min-snr", "0")
        assert report["smoothed"] == (4 if smooth == "auto" else 0)
        assert ("SmoothQuant" in said) == (smooth == "auto")
        found = in_onnxruntime(tmp_path / "q.onnx", x=network)
        errors[smooth] = np.linalg.norm(found - exact) / np.linalg.norm(exact)
        if smooth == "auto":
            assert report["noise_db"] > report["noise_db_unsmoothed"] + 6
    assert errors["auto"] < 0.4 * errors["off"]


def test_a_network_without_outliers_is_left_alone(graft, tmp_path, network):
    transformer(tmp_path / "net.onnx", outlier=1.0)
    assert convert(graft, tmp_path)[0]["smoothed"] == 0


def test_the_calibration_file_has_the_scales(graft, tmp_path, network):
    first, _ = convert(graft, tmp_path, "--calibration-file", "ranges.json")
    made = (tmp_path / "q.onnx").read_bytes()
    document = json.loads((tmp_path / "ranges.json").read_text())
    assert set(document["smoothed"]) == {"norm0", "norm_b0", "norm1", "norm_b1"}
    done = graft("convert", "net.onnx", "--precision", "int8", "--calibration-file", "ranges.json", "-o", "q.onnx")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "q.onnx").read_bytes() == made
    again, _ = convert(graft, tmp_path, "--calibration-file", "ranges.json")
    assert again["error"] == first["error"] and again["smoothed"] == 4
    for change, reason in (({"norm0": [1, 2]}, "do not fit the network"), ({"none": [1] * WIDTH}, "do not fit"),
                           ({"norm0": "x"}, "are no list"), ({"norm0": ["x"] * WIDTH}, "is no exponent"),
                           ({"norm0": [1e9] * WIDTH}, "is no exponent"), ([], "'smoothed' of the right type")):
        (tmp_path / "ranges.json").write_text(json.dumps({**document, "smoothed": change}))
        done = graft("convert", "net.onnx", "--precision", "int8", "--calibration-file", "ranges.json", "-o", "q.onnx")
        assert done.returncode == 1 and reason in done.stderr and "ranges.json" in done.stderr


def test_a_bound_with_smoothing(graft, tmp_path, network):
    free, _ = convert(graft, tmp_path)
    bound, _ = convert(graft, tmp_path, "--max-error", str(0.7 * free["error"]), "--html", "report.html")
    assert bound["error"] <= 0.7 * free["error"] and bound["smoothed"] == 4
