# SPDX-License-Identifier: Apache-2.0
"""`--activations dynamic|float` and `--precision int4`: without samples, in files that ONNX Runtime reads as well; and
`--metric`, a function of the user's."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

WIDTH, INNER = 70, 160


def network(path, conv=False):
    """A MatMul, a Gemm of turned weights with a bias, and a MatMul; in front of them a convolution, if wanted."""
    random = np.random.default_rng(3)

    def weights(name, *shape):
        return numpy_helper.from_array((random.standard_normal(shape) / np.sqrt(WIDTH)).astype(np.float32), name)

    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Gemm", ["b", "w2", "c2"], ["c"], name="second", transB=1),
             helper.make_node("MatMul", ["c", "w3"], ["y"], name="third")]
    constants = [weights("w1", WIDTH, INNER), weights("w2", INNER, INNER), weights("c2", INNER),
                 weights("w3", INNER, 24)]
    if conv:
        nodes.insert(0, helper.make_node("Reshape", ["u", "flat"], ["x"]))
        nodes.insert(0, helper.make_node("Conv", ["image", "k"], ["u"], name="stem"))
        constants += [weights("k", 7, 3, 1, 1), numpy_helper.from_array(np.array([-1, WIDTH]), "flat")]
    given = helper.make_tensor_value_info("image" if conv else "x", TensorProto.FLOAT,
                                          ["n", 3, 2, 5] if conv else ["n", WIDTH])
    graph = helper.make_graph(nodes, "network", [given],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 24])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def rows(count=12):
    x = np.random.default_rng(4).standard_normal((count, WIDTH)).astype(np.float32)
    x[1], x[2], x[3] = 0, x[2] * 1e4, x[3] * 1e-6
    return x


def in_onnxruntime(path, x, name="x"):
    """Node by node: its own fusion of DequantizeLinear and MatMul rounds activations to 8 bits."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: x})[0]


def run(graft, folder, model, x):
    np.save(folder / "x.npy", x)
    done = graft("run", model, "--input", "x.npy", "--output", "y.npy")
    assert done.returncode == 0, done.stderr
    return np.load(folder / "y.npy")


def convert(graft, folder, *words):
    done = graft("convert", "net.onnx", *words, "-o", "q.onnx", "--json", "report.json")
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(str(folder / "q.onnx"), full_check=True)
    return json.loads((folder / "report.json").read_text())["quantization"]


CHOICES = {  # words, largest error as a share of the row's range, opset
    "dynamic": (("--precision", "int8", "--activations", "dynamic"), 0.05, 18),
    "float": (("--precision", "int8", "--activations", "float"), 0.05, 17),
    "int4": (("--precision", "int4"), 0.5, 21),
    "int4 of 128": (("--precision", "int4", "--block", "128"), 0.6, 21),
}


@pytest.mark.parametrize("words, most, opset", CHOICES.values(), ids=CHOICES)
def test_the_file_is_near_f32_and_means_the_same_in_onnxruntime(graft, tmp_path, words, most, opset):
    network(tmp_path / "net.onnx")
    report = convert(graft, tmp_path, *words)
    assert [layer["precision"] for layer in report["layers"]] == [words[1]] * 3
    assert not report["measured"] and report["method"] is None
    assert onnx.load(tmp_path / "q.onnx").opset_import[0].version == opset
    x = rows()
    exact, expected, result = (in_onnxruntime(tmp_path / "net.onnx", x), in_onnxruntime(tmp_path / "q.onnx", x),
                               run(graft, tmp_path, "q.onnx", x))
    scale = np.abs(exact).max(axis=1, keepdims=True)
    assert (np.abs(expected - exact) / scale).max() < most
    np.testing.assert_allclose(result / scale, expected / scale, atol=1e-5)


@pytest.mark.parametrize("words, most", [(words, most) for words, most, _ in CHOICES.values()], ids=CHOICES)
def test_tables_of_embeddings(graft, tmp_path, words, most):
    """The table is read by rows twice, and as the weights of the last product."""
    random = np.random.default_rng(7)
    table = random.standard_normal((700, 96)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"], name="rows"),
             helper.make_node("ReduceMin", ["ids"], ["least"]),
             helper.make_node("Gather", ["table", "least"], ["first"], name="first"),
             helper.make_node("Add", ["rows", "first"], ["sum"]),
             helper.make_node("Transpose", ["table"], ["turned"], perm=[1, 0]),
             helper.make_node("MatMul", ["sum", "turned"], ["y"], name="last")]
    graph = helper.make_graph(nodes, "network", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", "m"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "m", 700])],
                              [numpy_helper.from_array(table, "table")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              tmp_path / "net.onnx")
    report = convert(graft, tmp_path, *words)
    assert {layer["node"]: layer["precision"] for layer in report["layers"]} == dict.fromkeys(
        ("rows", "first", "last"), words[1])
    ids = random.integers(0, 700, (3, 5))
    exact, expected = (in_onnxruntime(tmp_path / name, ids, "ids") for name in ("net.onnx", "q.onnx"))
    assert np.abs(expected - exact).max() < 0.5 * most * np.abs(exact).max()
    np.save(tmp_path / "ids.npy", ids)
    assert graft("run", "q.onnx", "--input", "ids.npy", "--output", "y.npy").returncode == 0
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, atol=2e-4)
    done = graft("compile", "q.onnx", "--tune", "off", "-o", "q.graft", "--json", "-")
    assert json.loads(done.stdout)["constant_bytes"] < (0.35 if words[1] == "int4" else 0.55) * 2 * table.nbytes


def test_a_row_does_not_depend_on_the_others(graft, tmp_path):
    network(tmp_path / "net.onnx")
    convert(graft, tmp_path, "--precision", "int8", "--activations", "dynamic")
    x = rows()
    whole = run(graft, tmp_path, "q.onnx", x)
    for n in range(4):
        assert run(graft, tmp_path, "q.onnx", x[n:n + 1]).tobytes() == whole[n:n + 1].tobytes()


@pytest.mark.parametrize("block", [16, 32, 64, 128, 256])
def test_blocks_round_by_their_own_scale(graft, tmp_path, block):
    """Nothing is further from its weight than half a step, or clipped beyond what the smallest square error takes."""
    network(tmp_path / "net.onnx")
    convert(graft, tmp_path, "--precision", "int4", "--block", str(block))
    tensors = {each.name: each for each in onnx.load(tmp_path / "q.onnx").graph.initializer}
    before = {each.name: numpy_helper.to_array(each) for each in onnx.load(tmp_path / "net.onnx").graph.initializer}
    for node, name, axis in (("first", "w1", 0), ("second", "w2", 1), ("third", "w3", 0)):
        codes = numpy_helper.to_array(tensors[f"{node}/weights/quantized"]).astype(np.float32)
        scales = numpy_helper.to_array(tensors[f"{node}/weights/scale"])
        assert scales.shape[axis] == -(-codes.shape[axis] // block)
        wide = np.take(scales, np.arange(codes.shape[axis]) // block, axis=axis)
        steps = np.abs(before[name] / wide - codes)
        inside = (codes > -8) & (codes < 7)
        assert steps[inside].max() <= 0.5001 and np.mean(inside) > 0.8
        assert codes.min() == -8 and codes.max() == 7


def test_plans_are_as_small_as_their_weights(graft, tmp_path):
    network(tmp_path / "net.onnx")
    sizes = {}
    for name, words in {"fp32": (), "int8": ("--precision", "int8", "--activations", "float"),
                        "int4": ("--precision", "int4")}.items():
        done = graft("compile", "net.onnx", *words, "--tune", "off", "-o", f"{name}.graft", "--json", f"{name}.json")
        assert done.returncode == 0, done.stderr
        sizes[name] = json.loads((tmp_path / f"{name}.json").read_text())["constant_bytes"]
    second = 4 * INNER * INNER  # bytes of f32; the other products are too small to stay packed
    assert sizes["fp32"] - sizes["int8"] > 0.65 * second and sizes["fp32"] - sizes["int4"] > 0.75 * second


def test_samples_measure_the_error_and_the_bound_holds(graft, tmp_path):
    network(tmp_path / "net.onnx")
    np.save(tmp_path / "samples.npy", np.random.default_rng(5).standard_normal((40, WIDTH)).astype(np.float32))
    words = ("--precision", "int8", "--activations", "dynamic", "--calibrate", "samples.npy")
    free = convert(graft, tmp_path, *words)
    assert free["measured"] and free["samples"] == 40 and 0 < free["error"] < 0.05
    bound = convert(graft, tmp_path, *words, "--max-error", str(0.8 * free["error"]))
    assert bound["error"] <= 0.8 * free["error"]
    assert 0 < sum(layer["precision"] == "int8" for layer in bound["layers"]) < 3


SCORE = """
import numpy as np
import helper_of_mine

def score(run):
    print("asked")
    return -helper_of_mine.far(run(np.load("x.npy")), np.load("exact.npy"))

def nothing(run):
    return None

def fails(run):
    raise RuntimeError("my own fault")
"""


@pytest.fixture
def script(graft, tmp_path):
    """A metric: minus the largest difference from the results of the fp32 network."""
    network(tmp_path / "net.onnx")
    x = np.random.default_rng(6).standard_normal((30, WIDTH)).astype(np.float32)
    np.save(tmp_path / "exact.npy", run(graft, tmp_path, "net.onnx", x))
    (tmp_path / "scores").mkdir()
    (tmp_path / "scores/mine.py").write_text(SCORE)
    (tmp_path / "scores/helper_of_mine.py").write_text("def far(a, b):\n    return abs(a - b).max()\n")
    return "scores/mine.py"


def test_a_metric_in_python_bounds_what_is_lost(graft, tmp_path, script):
    words = ("--precision", "int4", "--metric", f"{script}:score")
    free = convert(graft, tmp_path, *words)["metric"]
    assert free["fp32"] == 0 and free["quantized"] < 0
    bound = convert(graft, tmp_path, *words, "--max-drop", str(-0.8 * free["quantized"]))
    assert bound["metric"]["quantized"] >= 0.8 * free["quantized"]
    assert 0 < sum(layer["precision"] == "int4" for layer in bound["layers"]) < 3
    done = graft("compile", "net.onnx", *words, "--tune", "off", "-o", "q.graft", "--json", "-")
    assert done.returncode == 0 and "asked" in done.stderr
    assert json.loads(done.stdout)["quantization"]["metric"] == free


@pytest.mark.parametrize("function, status, reason", [
    ("nothing", 1, "nothing gave None: it has to give a number"),
    ("fails", 1, "RuntimeError: my own fault"),
    ("absent", 1, "has no function 'absent'"),
    ("", 2, "--metric is SCRIPT.py:FUNCTION"),
])
def test_a_metric_that_gives_no_number(graft, tmp_path, script, function, status, reason):
    done = graft("convert", "net.onnx", "--precision", "int4", "--metric", f"{script}:{function}", "-o", "q.onnx")
    assert done.returncode == status and reason in done.stderr and not (tmp_path / "q.onnx").exists()


def test_convolutions_stay_f32_and_say_so(graft, tmp_path):
    network(tmp_path / "net.onnx", conv=True)
    layers = {layer["node"]: layer for layer in convert(graft, tmp_path, "--precision", "int4")["layers"]}
    assert layers["stem"]["precision"] == "fp32" and "static activations" in layers["stem"]["reason"]
    assert layers["first"]["precision"] == "int4"


@pytest.mark.parametrize("words, reason", [
    (("--precision", "int8"), "--activations dynamic or float, which need none"),
    (("--precision", "fp16", "--activations", "dynamic"), "are for --precision int8, fp8, int4"),
    (("--precision", "int4", "--activations", "dynamic"), "their products take floats"),
    (("--precision", "int8", "--activations", "float", "--block", "32"), "blocks are of 4 bits"),
    (("--precision", "int8", "--activations", "dynamic", "--method", "mse"), "ranges of static activations"),
    (("--precision", "int4", "--calibration-file", "f.json"), "ranges of static activations"),
    (("--precision", "int4", "--max-error", "0.1"), "measured with samples"),
    (("--precision", "int4", "--block", "33"), "--block"),
    (("--precision", "int4", "--max-drop", "1"), "there is no metric"),
    (("--precision", "int4", "--metric", "none.py:score"), "there is no file 'none.py'"),
])
def test_what_does_not_go_together(graft, tmp_path, words, reason):
    network(tmp_path / "net.onnx")
    for command in ("convert", "compile"):
        done = graft(command, "net.onnx", *words, "-o", "q.onnx" if command == "convert" else "q.graft")
        assert done.returncode == 2 and reason in done.stderr
    assert not (tmp_path / "q.onnx").exists() and not (tmp_path / "q.graft").exists()


@pytest.mark.parametrize("block", ["32", "128"])
def test_samples_round_weights_of_4_bits(graft, tmp_path, block):
    """Channels of the inputs depend on each other, as those of activations do: products lose less than by nearest."""
    network(tmp_path / "net.onnx")
    random = np.random.default_rng(8)
    mixture = random.standard_normal((12, WIDTH))

    def draw(count):
        return (random.standard_normal((count, 12)) @ mixture / 4 + random.standard_normal((count, WIDTH)) / 5
                ).astype(np.float32)

    np.save(tmp_path / "samples.npy", draw(300))
    x, lost = draw(50), {}
    exact = in_onnxruntime(tmp_path / "net.onnx", x)
    for rounding in ("nearest", "auto"):
        report = convert(graft, tmp_path, "--precision", "int4", "--block", block, "--calibrate", "samples.npy",
                         "--rounding", rounding)
        assert report["rounded_by_samples"] == (3 if rounding == "auto" else 0)
        lost[rounding] = np.linalg.norm(in_onnxruntime(tmp_path / "q.onnx", x) - exact)
    assert lost["auto"] < 0.75 * lost["nearest"]
    np.save(tmp_path / "samples.npy", np.full((4, WIDTH), np.nan, np.float32))
    done = graft("convert", "net.onnx", "--precision", "int4", "--calibrate", "samples.npy", "-o", "q.onnx")
    assert done.returncode == 1 and "NaN or infinite" in done.stderr
