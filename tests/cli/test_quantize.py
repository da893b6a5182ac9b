# SPDX-License-Identifier: Apache-2.0
"""`--precision int8`: calibration, the written model in ONNX Runtime, the bound, and errors that say what to do."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """A graph of ONNX, node by node; a node's result has its name."""

    def __init__(self, seed):
        self.random, self.nodes, self.constants = np.random.default_rng(seed), [], []

    def constant(self, name, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def weights(self, name, *shape):
        scale = 1 / np.sqrt(np.prod(shape[1:]))
        return self.constant(name, self.random.standard_normal(shape) * scale)

    def node(self, operator, inputs, name, **attributes):
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def save(self, path, inputs, result, shape):
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, of_input)
                  for name, of_input in inputs.items()]
        results = [helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self.nodes, "network", values, results, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)
        onnx.checker.check_model(model)
        onnx.save(model, path)


def convolutional(path, seed=0, batch="n"):
    """Batch normalisation, a residual sum, a depthwise convolution, poolings and a dense layer."""
    net = Builder(seed)
    x = net.node("Conv", ["x", net.weights("w0", 16, 3, 3, 3), net.weights("b0", 16)], "stem", pads=[1] * 4)
    norms = [net.constant(f"bn{n}", net.random.uniform(0.5, 2, 16)) for n in range(4)]
    x = net.node("Relu", [net.node("BatchNormalization", [x, *norms], "norm")], "r0")
    p = net.node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    b = net.node("Relu", [net.node("Conv", [p, net.weights("w1", 16, 16, 3, 3)], "inner", pads=[1] * 4)], "r1")
    b = net.node("Conv", [b, net.weights("w2", 16, 1, 3, 3)], "depthwise", pads=[1] * 4, group=16)
    x = net.node("Relu", [net.node("Add", [b, p], "sum")], "r2")
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x], "average")], "flat")
    net.node("Gemm", [x, net.weights("w3", 10, 16), net.weights("b3", 10)], "y", transB=1)
    net.save(path, {"x": [batch, 3, 16, 16]}, "y", [batch, 10])


@pytest.fixture
def samples(tmp_path):
    """Five batches, the last one short, and one sample without the leading axis."""
    folder = tmp_path / "samples"
    folder.mkdir()
    random = np.random.default_rng(1)
    for n, count in enumerate((8, 8, 8, 8, 3)):
        np.save(folder / f"{n}.npy", random.standard_normal((count, 3, 16, 16)).astype(np.float32))
    np.save(folder / "one.npy", random.standard_normal((3, 16, 16)).astype(np.float32))
    return folder


def in_onnxruntime(path, **inputs):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, inputs)[0]


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("seed", range(3))
def test_the_written_model_is_near_f32_and_the_same_everywhere(graft, tmp_path, samples, seed):
    convolutional(tmp_path / "net.onnx", seed)
    before = (tmp_path / "net.onnx").read_bytes()
    done = graft("convert", "net.onnx", "--precision", "int8", "--calibrate", "samples", "-o", "q.onnx")
    assert done.returncode == 0, done.stderr
    assert "4 of 4 layers are int8" in done.stdout
    assert (tmp_path / "net.onnx").read_bytes() == before
    onnx.checker.check_model(str(tmp_path / "q.onnx"), full_check=True)
    assert onnx.load(tmp_path / "q.onnx").opset_import[0].version == 17  # which TensorRT and OpenVINO read, too
    assert "BatchNormalization" not in operators(tmp_path / "q.onnx")
    x = np.random.default_rng(2).standard_normal((5, 3, 16, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    exact, expected = in_onnxruntime(tmp_path / "net.onnx", x=x), in_onnxruntime(tmp_path / "q.onnx", x=x)
    assert np.linalg.norm(expected - exact) < 0.05 * np.linalg.norm(exact)
    assert graft("run", "q.onnx", "--input", "x.npy", "--output", "y.npy").returncode == 0
    result = np.load(tmp_path / "y.npy")
    assert np.abs(result - expected).max() < 0.02 * np.ptp(exact)


@pytest.mark.parametrize("method", ["mse", "entropy", "percentile", "minmax"])
def test_methods_and_the_report(graft, tmp_path, samples, method):
    convolutional(tmp_path / "net.onnx")
    done = graft("convert", "net.onnx", "--precision", "int8", "--calibrate", "samples", "--method", method,
                 "-o", "q.onnx", "--json", "report.json")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())["quantization"]
    assert report["method"] == method
    assert {layer["node"] for layer in report["layers"]} == {"stem", "inner", "depthwise", "y"}
    assert 0 < report["error"] < 0.1 and report["noise_db"] > 20


def test_the_result_does_not_depend_on_the_division_into_files(graft, tmp_path, samples):
    convolutional(tmp_path / "net.onnx")
    files = sorted(samples.iterdir())
    whole = np.concatenate([np.load(file).reshape(-1, 3, 16, 16) for file in files])
    np.save(tmp_path / "whole.npy", whole)
    np.savez(tmp_path / "whole.npz", x=whole)
    scales = []
    for data in ("samples", "whole.npy", "whole.npz"):
        done = graft("convert", "net.onnx", "--precision", "int8", "--calibrate", data, "-o", "q.onnx")
        assert done.returncode == 0, done.stderr
        model = onnx.load(tmp_path / "q.onnx")
        scales.append({c.name: numpy_helper.to_array(c).tolist() for c in model.graph.initializer
                       if c.name.endswith("/scale")})
    assert scales[0].keys() == scales[1].keys() == scales[2].keys()
    for name in scales[0]:  # convolutions of other batches may sum in another order
        np.testing.assert_allclose(scales[0][name], scales[1][name], rtol=0.02)
    assert scales[1] == scales[2]


def test_the_bound_is_met_or_refused(graft, tmp_path, samples):
    convolutional(tmp_path / "net.onnx")
    words = ["convert", "net.onnx", "--precision", "int8", "--calibrate", "samples", "-o", "q.onnx"]
    assert graft(*words, "--json", "free.json").returncode == 0
    free = json.loads((tmp_path / "free.json").read_text())["quantization"]["error"]
    for share in (2, 0.7, 0.4):
        done = graft(*words, "--max-error", share * free, "--json", "bound.json")
        if done.returncode == 0:
            report = json.loads((tmp_path / "bound.json").read_text())["quantization"]
            assert report["error"] <= share * free
            kept = [layer for layer in report["layers"] if layer["precision"] == "fp32"]
            assert kept or share > 1
            slower = [layer for layer in kept if "int8 is not faster here" in layer["reason"]]
            assert share < 1 or kept == slower
            assert all("bound" in layer["reason"] for layer in kept if layer not in slower)
        else:
            assert "the best that was found has" in done.stderr
    (tmp_path / "q.onnx").unlink()
    done = graft(*words, "--max-error", "1e-9")
    assert done.returncode == 1 and "the best that was found has" in done.stderr
    assert not (tmp_path / "q.onnx").exists()
    for wrong in ("-1", "0", "nan", "much"):
        done = graft(*words, f"--max-error={wrong}")
        assert done.returncode == 2 and "a share of an output's range" in done.stderr


def test_a_plan_in_one_command(graft, tmp_path, samples):
    convolutional(tmp_path / "net.onnx")
    done = graft("compile", "net.onnx", "--precision", "int8", "--calibrate", "samples", "-o", "q.graft")
    assert done.returncode == 0, done.stderr
    assert "4 of 4 layers are int8" in done.stdout
    x = np.random.default_rng(2).standard_normal((5, 3, 16, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    assert graft("run", "q.graft", "--input", "x.npy", "--output", "y.npy").returncode == 0
    exact = in_onnxruntime(tmp_path / "net.onnx", x=x)
    assert np.linalg.norm(np.load(tmp_path / "y.npy") - exact) < 0.05 * np.linalg.norm(exact)


def test_products_of_two_inputs(graft, tmp_path):
    net = Builder(3)
    a = net.node("MatMul", ["a", net.weights("wa", 8, 6)], "pa")
    b = net.node("MatMul", ["b", net.weights("wb", 4, 6)], "pb")
    net.node("Add", [a, b], "y")
    net.save(tmp_path / "net.onnx", {"a": ["n", 8], "b": ["n", 4]}, "y", ["n", 6])
    random = np.random.default_rng(4)
    arrays = {"a": random.standard_normal((50, 8)), "b": random.standard_normal((50, 4))}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    np.savez(tmp_path / "data.npz", **arrays)
    words = ["convert", "net.onnx", "--precision", "int8", "-o", "q.onnx", "--calibrate"]
    done = graft(*words, "data.npz")
    assert done.returncode == 0, done.stderr
    exact = in_onnxruntime(tmp_path / "net.onnx", **arrays)
    assert np.abs(in_onnxruntime(tmp_path / "q.onnx", **arrays) - exact).max() < 0.05 * np.ptp(exact)
    np.save(tmp_path / "data.npy", arrays["a"])
    assert "the names of inputs as keywords" in graft(*words, "data.npy").stderr
    np.savez(tmp_path / "data.npz", a=arrays["a"])
    assert "it has no entry 'b'" in graft(*words, "data.npz").stderr
    np.savez(tmp_path / "data.npz", a=arrays["a"], b=arrays["b"][:3])
    assert "'a' has 50 samples and 'b' 3" in graft(*words, "data.npz").stderr


@pytest.mark.parametrize("array, reason", [
    (np.zeros((2, 3, 16, 16)), "it is of f64, and the input 'x' of f32"),
    (np.zeros((2, 3, 16, 15), np.float32), "its shape is [2, 3, 16, 15]"),
    (np.zeros((0, 3, 16, 16), np.float32), "it has no samples"),
    (np.full((2, 3, 16, 16), np.nan, np.float32), "elements of"),
])
def test_data_that_does_not_fit(graft, tmp_path, array, reason):
    convolutional(tmp_path / "net.onnx")
    np.save(tmp_path / "data.npy", array)
    done = graft("convert", "net.onnx", "--precision", "int8", "--calibrate", "data.npy", "-o", "q.onnx")
    assert done.returncode == 1 and reason in done.stderr, done.stderr
    assert not (tmp_path / "q.onnx").exists()


def test_constant_data_and_a_fixed_batch(graft, tmp_path):
    convolutional(tmp_path / "net.onnx", batch=2)
    words = ["convert", "net.onnx", "--precision", "int8", "--calibrate", "data.npy", "-o", "q.onnx"]
    np.save(tmp_path / "data.npy", np.zeros((4, 3, 16, 16), np.float32))
    done = graft(*words)
    assert done.returncode == 0, done.stderr
    np.save(tmp_path / "data.npy", np.zeros((5, 3, 16, 16), np.float32))
    assert "1 samples at the end were left out: the network takes a fixed number at a time" in graft(*words).stdout
    np.save(tmp_path / "data.npy", np.zeros((1, 3, 16, 16), np.float32))
    assert "1 samples, and the network takes 2 at a time" in graft(*words).stderr


def test_what_is_asked_for_must_be_possible(graft, tmp_path, samples):
    convolutional(tmp_path / "net.onnx")
    words = ["convert", "net.onnx", "--precision", "int8", "-o", "q.onnx"]
    done = graft(*words)
    assert done.returncode == 2 and "--calibrate FOLDER" in done.stderr
    assert "--calibrate FOLDER" in graft("compile", "net.onnx", "--precision", "int8").stderr
    assert "--calibrate SAMPLES" in graft("run", "net.onnx", "--precision", "int8").stderr
    assert "for --precision int8" in graft("compile", "net.onnx", "--calibrate", "samples").stderr
    (tmp_path / "empty").mkdir()
    assert "has no .npy or .npz file" in graft(*words, "--calibrate", "empty").stderr
    assert "no such file" in graft(*words, "--calibrate", "none").stderr
    assert not (tmp_path / "q.onnx").exists()
    net = Builder(0)
    net.node("Exp", ["x"], "y")
    net.save(tmp_path / "net.onnx", {"x": ["n", 3, 16, 16]}, "y", ["n", 3, 16, 16])
    assert "has no Conv, MatMul or Gemm" in graft(*words, "--calibrate", "samples").stderr
    net.node("MatMul", ["x", "y"], "z")
    net.save(tmp_path / "net.onnx", {"x": ["n", 3, 16, 16]}, "z", ["n", 3, 16, 16])
    assert "z (MatMul): its weights are no constant" in graft(*words, "--calibrate", "samples").stderr


def test_a_quantised_model_is_not_quantised_again(graft, tmp_path, samples):
    convolutional(tmp_path / "net.onnx")
    words = ["--precision", "int8", "--calibrate", "samples", "-o"]
    assert graft("convert", "net.onnx", *words, "q.onnx").returncode == 0
    done = graft("convert", "q.onnx", *words, "again.onnx")
    assert done.returncode == 1 and "quantised already" in done.stderr


def quantise(graft, folder, *words):
    """Runs convert on net.onnx; gives the report."""
    done = graft("convert", "net.onnx", "--precision", "int8", "-o", "q.onnx", "--json", "report.json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "report.json").read_text())["quantization"], done.stdout


def test_a_calibration_file_stands_for_the_samples(graft, tmp_path, samples):
    convolutional(tmp_path / "net.onnx")
    first, said = quantise(graft, tmp_path, "--calibrate", "samples", "--calibration-file", "ranges.json")
    assert first["calibration"]["written"] and "ranges.json: ranges written, of 36 samples" in said
    made = (tmp_path / "q.onnx").read_bytes()
    document = json.loads((tmp_path / "ranges.json").read_text())
    assert document["method"] == "mse" and document["samples"] == 36 and "x" in document["tensors"]
    again, said = quantise(graft, tmp_path, "--calibration-file", "ranges.json")
    assert (tmp_path / "q.onnx").read_bytes() == made
    assert not again["measured"] and again["error"] is None and again["batches"] == 0
    assert "the error is not known: measuring it needs samples" in said
    assert [layer["noise_db"] for layer in again["layers"]] == pytest.approx(
        [layer["noise_db"] for layer in first["layers"]])
    same, _ = quantise(graft, tmp_path, "--calibration-file", "ranges.json", "--calibrate", "samples")
    assert same["error"] == first["error"] and same["calibration"]["same_samples"] is True
    np.save(tmp_path / "other.npy", np.random.default_rng(9).standard_normal((4, 3, 16, 16)).astype(np.float32))
    other, said = quantise(graft, tmp_path, "--calibration-file", "ranges.json", "--calibrate", "other.npy")
    assert (tmp_path / "q.onnx").read_bytes() == made and other["calibration"]["same_samples"] is False
    assert "the error was measured with other samples" in said
    done = graft("compile", "net.onnx", "--precision", "int8", "--calibration-file", "ranges.json", "--dim", "n=2",
                 "-o", "q.graft")
    assert done.returncode == 0, done.stderr


def test_the_hash_of_samples_does_not_depend_on_their_order(graft, tmp_path, samples):
    convolutional(tmp_path / "net.onnx")
    quantise(graft, tmp_path, "--calibrate", "samples", "--calibration-file", "a.json")
    whole = np.concatenate([np.load(file).reshape(-1, 3, 16, 16) for file in sorted(samples.iterdir())])
    np.save(tmp_path / "whole.npy", whole[::-1].copy())
    report, _ = quantise(graft, tmp_path, "--calibrate", "whole.npy", "--calibration-file", "a.json")
    assert report["calibration"]["same_samples"] is True


def test_a_stale_calibration_file_is_refused(graft, tmp_path, samples):
    convolutional(tmp_path / "net.onnx")
    words = ["convert", "net.onnx", "--precision", "int8", "--calibration-file", "ranges.json", "-o", "q.onnx"]
    assert graft(*words, "--calibrate", "samples", "--method", "entropy").returncode == 0
    before = (tmp_path / "ranges.json").read_bytes()
    (tmp_path / "q.onnx").unlink()
    done = graft(*words, "--method", "minmax")
    assert done.returncode == 1 and "by the method entropy, and minmax is asked for" in done.stderr
    done = graft(*words, "--max-error", "0.1")
    assert done.returncode == 1 and "the error is measured with samples, and there are none" in done.stderr
    convolutional(tmp_path / "net.onnx", seed=1)
    done = graft(*words)
    assert done.returncode == 1 and "calibrated for another network" in done.stderr
    assert not (tmp_path / "q.onnx").exists() and (tmp_path / "ranges.json").read_bytes() == before
    (tmp_path / "ranges.json").unlink()
    done = graft(*words)
    assert done.returncode == 2 and "ranges.json is not there yet" in done.stderr
    done = graft(*words, "--calibrate", "samples", "-o", "ranges.json")
    assert done.returncode == 2, done.stderr


@pytest.mark.parametrize("change, reason", [
    (lambda text: text[:len(text) // 2], "it is no JSON"),
    (lambda text: "", "it is no JSON"),
    (lambda text: "[" * 100000, "nested more than"),
    (lambda text: "[]", "neither a calibration file"),
    (lambda text: text.replace("calibration 1", "calibration 2"), "neither a calibration file"),
    (lambda text: text.replace('"mse"', '"magic"'), "its method is not mse"),
    (lambda text: text.replace('"low"', '"lowest"', 1), "it has no 'low' of the right type"),
    (lambda text: text.replace('"low": ', '"low": "none", "l": ', 1), "it has no 'low' of the right type"),
    (lambda text: text.replace('"low": ', '"low": 1e300, "l": ', 1), "is no finite one around 0"),
    (lambda text: text.replace('"high": ', '"high": -1, "h": ', 1), "is no finite one around 0"),
    (lambda text: text.replace('"noise": ', '"noise": -1, "n": ', 1), "is negative"),
    (lambda text: text.replace('"samples": ', '"samples": 0, "s": ', 1), "number of samples is not above 0"),
    (lambda text: text.replace('"x"', '"z"', 1), "it has no range of 'x'"),
    (lambda text: "TRT-8501-EntropyCalibration2\n", "has no tensors"),
    (lambda text: "TRT-8501-EntropyCalibration2\nx: 3c01\ny 3c010a14\n", "line 3 is not"),
    (lambda text: "TRT-8501-EntropyCalibration2\nx: 3c010a141\n", "line 2 is not"),
    (lambda text: "TRT-8501-EntropyCalibration2\nx: 7fc00000\n", "is no finite one around 0"),
    (lambda text: "TRT-8501-EntropyCalibration2\nx: bc010a14\n", "is no finite one around 0"),
])
def test_a_damaged_calibration_file(graft, tmp_path, samples, change, reason):
    convolutional(tmp_path / "net.onnx")
    quantise(graft, tmp_path, "--calibrate", "samples", "--calibration-file", "ranges.json")
    (tmp_path / "q.onnx").unlink()
    (tmp_path / "ranges.json").write_text(change((tmp_path / "ranges.json").read_text()))
    done = graft("convert", "net.onnx", "--precision", "int8", "--calibration-file", "ranges.json", "-o", "q.onnx")
    assert done.returncode == 1 and reason in done.stderr, done.stderr
    assert "ranges.json" in done.stderr and not (tmp_path / "q.onnx").exists()


def cache_of(ranges, left_out=()):
    """A calibration cache as TensorRT writes it: the scale of each tensor, the bits of a big-endian f32."""
    lines = [f"{name}: {np.float32(max(-each['low'], each['high']) / 127).view(np.uint32):08x}"
             for name, each in ranges.items() if name not in left_out]
    return "TRT-8501-EntropyCalibration2\n" + "\n".join(lines) + "\n(Unnamed Layer* 3) [Shuffle]_output: 3c010a14\n"


def test_a_cache_of_tensorrt(graft, tmp_path, samples):
    convolutional(tmp_path / "net.onnx")
    first, _ = quantise(graft, tmp_path, "--calibrate", "samples", "--method", "minmax", "--calibration-file", "r.json")
    ranges = json.loads((tmp_path / "r.json").read_text())["tensors"]
    (tmp_path / "calib.cache").write_text(cache_of(ranges))
    report, said = quantise(graft, tmp_path, "--calibration-file", "calib.cache", "--calibrate", "samples")
    assert (tmp_path / "calib.cache").read_text() == cache_of(ranges)
    assert report["calibration"] == {"file": "calib.cache", "written": False, "samples": 0, "missing": [],
                                     "same_samples": None}
    assert report["error"] < 3 * first["error"] and "calib.cache: ranges read" in said
    scale = {c.name: numpy_helper.to_array(c) for c in onnx.load(tmp_path / "q.onnx").graph.initializer}["x/scale"]
    assert scale == pytest.approx(2 * max(-ranges["x"]["low"], ranges["x"]["high"]) / 255, rel=1e-5)
    alone, _ = quantise(graft, tmp_path, "--calibration-file", "calib.cache")
    assert not alone["measured"] and all(layer["precision"] == "int8" for layer in alone["layers"])
    assert all(layer["noise_db"] is None for layer in alone["layers"])
    # what it lacks comes from the samples, or stays fp32
    (tmp_path / "calib.cache").write_text(cache_of(ranges, left_out=["x"]))
    report, said = quantise(graft, tmp_path, "--calibration-file", "calib.cache", "--calibrate", "samples")
    assert report["calibration"]["missing"] == ["x"] and "it has none of x" in said
    assert all(layer["precision"] == "int8" for layer in report["layers"])
    alone, said = quantise(graft, tmp_path, "--calibration-file", "calib.cache")
    kept = {layer["node"]: layer["reason"] for layer in alone["layers"] if layer["precision"] == "fp32"}
    assert kept == {"stem": "calib.cache has no range of 'x'"} and alone["calibration"]["missing"] == ["x"]
    assert in_onnxruntime(tmp_path / "q.onnx", x=np.zeros((1, 3, 16, 16), np.float32)).shape == (1, 10)
    (tmp_path / "calib.cache").write_text(cache_of({"other": ranges["x"]}))
    done = graft("convert", "net.onnx", "--precision", "int8", "--calibration-file", "calib.cache", "-o", "q.onnx")
    assert done.returncode == 1 and "nothing can be quantised" in done.stderr and "has no range of 'x'" in done.stderr
