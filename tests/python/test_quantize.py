# SPDX-License-Identifier: Apache-2.0
"""`graft.quantize`: samples of every form in memory, a metric as the bound, and errors of callers that come out
whole."""

import json

import graft
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(5)
W1 = (RANDOM.standard_normal((12, 32)) / 3).astype(np.float32)
W2 = (RANDOM.standard_normal((32, 4)) / 4).astype(np.float32)
X = RANDOM.standard_normal((40, 12)).astype(np.float32)


def model_of(batch="n", inputs=("x",)):
    """y = relu(sum of inputs times w1) times w2."""
    nodes = [helper.make_node("MatMul", [name, "w1"], [f"p_{name}"], f"p_{name}") for name in inputs]
    total = f"p_{inputs[0]}"
    for name in inputs[1:]:
        nodes.append(helper.make_node("Add", [total, f"p_{name}"], [f"s_{name}"], f"s_{name}"))
        total = f"s_{name}"
    nodes += [helper.make_node("Relu", [total], ["r"], "r"), helper.make_node("MatMul", ["r", "w2"], ["y"], "y")]
    graph = helper.make_graph(
        nodes, "network", [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 12]) for name in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 4])],
        [numpy_helper.from_array(W1, "w1"), numpy_helper.from_array(W2, "w2")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def exact(x):
    return np.maximum(x @ W1, 0) @ W2


def scales_of(quantized):
    import onnx
    model = onnx.load_from_string(quantized.model)
    return {each.name: numpy_helper.to_array(each).tolist() for each in model.graph.initializer
            if each.name.endswith("/scale")}


class Loader:
    """Batches that can be gone through again, as of a DataLoader: of any size, the last one short, with labels."""

    def __init__(self):
        self.passes = 0

    def __len__(self):
        return 3

    def __iter__(self):
        self.passes += 1
        for first, last in ((0, 7), (7, 37), (37, 40)):
            yield X[first:last], np.zeros(last - first)


def test_the_result_as_model_plan_and_engine(tmp_path):
    made = graft.quantize(model_of(), X, output=tmp_path / "q.onnx", tune="off")
    assert [layer.precision for layer in made.report.layers] == ["int8", "int8"]
    assert 0 < made.report.error < 0.05 and made.report.noise_db > 25 and made.report.samples == 40
    assert "2 of 2 layers are int8" in str(made.report) and made.report.as_dict()["method"] == "mse"
    expected = onnxruntime.InferenceSession(made.model, providers=["CPUExecutionProvider"]).run(None, {"x": X})[0]
    span = np.ptp(exact(X))
    assert np.abs(expected - exact(X)).max() <= 1.05 * made.report.error * span
    for engine in (made.engine, graft.load(made.plan), graft.compile(tmp_path / "q.onnx", tune="off")):
        assert np.abs(engine(X) - expected).max() < 0.01 * span
    made.save(tmp_path / "q.graft")
    assert np.array_equal(graft.load(tmp_path / "q.graft")(X), made.engine(X))


@pytest.mark.parametrize("data", [
    lambda: X, lambda: [X], lambda: list(X), lambda: Loader(), lambda: [{"x": X, "label": 1}], lambda: {"x": X},
    lambda: (X[n] for n in range(40)), lambda: iter([X[:8], X[8:]]), lambda: (lambda: iter([X])),
    lambda: [(X, 0)], lambda: [({"x": X}, 0)], lambda: [((X,), 0)],
], ids=["array", "list", "samples", "loader", "dictionaries", "dictionary", "generator", "iterator", "function",
        "tuple", "nested-dictionary", "nested-tuple"])
def test_every_form_of_data_gives_the_same_ranges(data):
    made = graft.quantize(model_of(), data(), method="minmax")
    assert made.report.samples == 40
    for name, scale in scales_of(graft.quantize(model_of(), [X], method="minmax")).items():
        np.testing.assert_allclose(scales_of(made)[name], scale, rtol=1e-5)


def test_a_generator_is_read_once_and_may_use_its_memory_again():
    buffer, batches = np.empty((8, 12), np.float32), []

    def generator():
        for first in range(0, 40, 8):
            buffer[:] = X[first:first + 8]
            batches.append(first)
            yield buffer

    made = graft.quantize(model_of(), generator(), method="minmax")
    assert batches == list(range(0, 40, 8))
    assert scales_of(made) == scales_of(graft.quantize(model_of(), [X], method="minmax"))


def test_data_that_can_be_gone_through_again_is_not_kept():
    loader = Loader()
    graft.quantize(model_of(), loader)
    assert loader.passes == 2, "once to calibrate, once to measure"
    made = graft.quantize(model_of(), loader, batches=1)
    assert made.report.samples == 7


def test_a_network_that_takes_a_fixed_number_of_samples():
    made = graft.quantize(model_of(batch=8), Loader())
    assert (made.report.samples, made.report.as_dict()["samples_left_out"]) == (40, 0)
    made = graft.quantize(model_of(batch=16), Loader())
    assert (made.report.samples, made.report.as_dict()["samples_left_out"]) == (32, 8)
    assert "8 samples at the end were left out" in made.report.text
    with pytest.raises(graft.InvalidArgumentError, match="40 samples, and the network takes 64 at a time"):
        graft.quantize(model_of(batch=64), Loader())


def test_several_inputs_by_order_and_by_name():
    model = model_of(inputs=("a", "b"))
    by_order = graft.quantize(model, [(X, -X[::-1])])
    by_name = graft.quantize(model, [{"b": -X[::-1], "a": X}])
    assert scales_of(by_order) == scales_of(by_name)
    with pytest.raises(graft.InvalidArgumentError, match="batch 0 of data has no 'b', which the model takes; it has a"):
        graft.quantize(model, [{"a": X}])
    with pytest.raises(graft.InvalidArgumentError, match="batch 1 of data has 1 of 2 inputs: the model takes a, b"):
        graft.quantize(model, [(X, X), X])
    with pytest.raises(graft.InvalidArgumentError, match="'a' has 40 samples and 'b' 3"):
        graft.quantize(model, [(X, X[:3])])


def right(engine):
    """The share of samples whose largest output is that of the exact network."""
    return float((engine(X).argmax(1) == exact(X).argmax(1)).mean())


def test_a_metric_decides_which_layers_stay_fp32():
    def distance(engine):
        return -float(np.abs(engine(X) - exact(X)).max())

    free = graft.quantize(model_of(), X, metric=distance)
    assert free.report.metric_fp32 > -1e-4 and free.report.metric < free.report.metric_fp32
    drop = free.report.metric_fp32 - free.report.metric
    same = graft.quantize(model_of(), X, metric=distance, max_drop=1.01 * drop)
    assert all(layer.precision == "int8" for layer in same.report.layers)
    bound = graft.quantize(model_of(), X, metric=distance, max_drop=0.9 * drop)
    kept = [layer for layer in bound.report.layers if layer.precision == "fp32"]
    assert len(kept) == 1 and "bound" in kept[0].reason
    assert bound.report.metric_fp32 - bound.report.metric <= 0.9 * drop
    assert np.isclose(distance(bound.engine), bound.report.metric, rtol=1e-3)
    with pytest.raises(graft.UnsupportedError, match="loses at most 1e-07 of the metric: the best that was found has"):
        graft.quantize(model_of(), X, metric=distance, max_drop=1e-7)
    assert graft.quantize(model_of(), X, metric=right, max_drop=0.1).report.metric_fp32 == 1


def test_the_error_as_the_bound(tmp_path):
    free = graft.quantize(model_of(), X).report.error
    assert graft.quantize(model_of(), X, max_error=0.9 * free).report.error <= 0.9 * free
    with pytest.raises(graft.UnsupportedError, match="the best that was found has"):
        graft.quantize(model_of(), X, max_error=1e-9, output=tmp_path / "q.onnx")
    assert not (tmp_path / "q.onnx").exists()


class Stopped(Exception):
    pass


def test_exceptions_of_the_caller_come_out_unchanged():
    def data():
        yield X
        raise Stopped("no more")

    def metric(_):
        raise Stopped("no score")

    with pytest.raises(Stopped, match="no more"):
        graft.quantize(model_of(), data())
    with pytest.raises(Stopped, match="no score"):
        graft.quantize(model_of(), X, metric=metric)
    with pytest.raises(KeyboardInterrupt):
        graft.quantize(model_of(), X, progress=interrupt)
    with pytest.raises(graft.CancelledError):
        graft.quantize(model_of(), X, progress=lambda stage, *_: stage != "quantize")
    assert graft.quantize(model_of(), X).report.error < 0.05


def interrupt(stage, *_):
    if stage == "quantize":
        raise KeyboardInterrupt


@pytest.mark.parametrize("data, message", [
    ([], "there are no samples to calibrate with"),
    (iter(()), "there are no samples to calibrate with"),
    (X[:0], "there are no samples to calibrate with"),
    (np.full((3, 12), np.nan, np.float32), "elements of 'x' are NaN or infinite"),
    (X.astype(np.float64), "it is of f64, and the input 'x' of f32: convert it with array.astype"),
    (X[:, :5], r"its shape is \[40, 5\], and the input 'x' takes"),
    ([{"y": X}], "has no 'x', which the model takes; it has y"),
    ([object()], "'x' of batch 0 of data is no array, but of type object"),
    ([([[1, 2], [3]],)], "'x' of batch 0 of data is no array"),
    (7, "data is a int: give something that gives batches when iterated"),
], ids=["empty", "empty-iterator", "no-samples", "nan", "type", "shape", "name", "object", "ragged", "number"])
def test_data_that_does_not_fit(data, message):
    with pytest.raises(graft.InvalidArgumentError, match=message):
        graft.quantize(model_of(), data)


@pytest.mark.parametrize("arguments, message", [
    ({"metric": lambda run: None}, "metric gave None: it has to give a number"),
    ({"metric": lambda run: "0.5"}, "metric gave '0.5'"),
    ({"metric": lambda run: float("nan")}, "of the network in f32 it is nan: it has to be a finite number"),
    ({"metric": 0.5}, "metric is 0.5: give a function"),
    ({"max_drop": 0.5}, "there is no metric"),
    ({"metric": right, "max_drop": -1}, "0 or more"),
    ({"max_error": -1}, "above 0"),
    ({"max_error": float("inf")}, "max_error is inf: give a finite number"),
    ({"method": "best"}, "'best' is not mse, entropy, percentile or minmax"),
    ({"output": "q.pt"}, "give FILE.onnx for the model or FILE.graft for the plan"),
    ({"batches": -1}, "batches is -1"),
    ({"weights": "int2"}, "'int2' is not int8, fp8 or int4"),
    ({"activations": "none"}, "'none' is not static, dynamic or float"),
    ({"block": 32}, "blocks are of 4 bits"),
    ({"weights": "int4", "block": 48}, "'48' is not 16, 32, 64, 128 or 256"),
    ({"weights": "fp8", "block": 32}, "blocks are of 4 bits"),
    ({"weights": "int4", "method": "mse"}, "chooses ranges of static activations"),
    ({"preset": "mixed"}, "preset"),
])
def test_arguments_that_make_no_sense(arguments, message):
    with pytest.raises(graft.InvalidArgumentError, match=message):
        graft.quantize(model_of(), X, **arguments)


def test_a_calibration_file_stands_for_the_data(tmp_path):
    first = graft.quantize(model_of(), X, calibration_file=tmp_path / "ranges.json")
    assert first.report.as_dict()["calibration"]["written"]
    made = graft.quantize(model_of(), calibration_file=tmp_path / "ranges.json")
    assert made.model == first.model and np.isnan(made.report.error) and "not known" in made.report.text
    scored = graft.quantize(model_of(), calibration_file=tmp_path / "ranges.json", metric=right, max_drop=0.1)
    assert scored.report.metric > 0.8
    with pytest.raises(graft.InvalidArgumentError, match="needs samples of the inputs, or a calibration file"):
        graft.quantize(model_of())
    with pytest.raises(graft.InvalidArgumentError, match="none.json: there is no such file, and there are no samples"):
        graft.quantize(model_of(), calibration_file=tmp_path / "none.json")
    with pytest.raises(graft.InvalidArgumentError, match="calibrated for another network"):
        graft.quantize(model_of(inputs=("a", "b")), calibration_file=tmp_path / "ranges.json")


def test_floats_of_8_bits():
    made = graft.quantize(model_of(), X, weights="fp8")
    assert {layer.precision for layer in made.report.layers} == {"fp8"} and 0 < made.report.error < 0.1
    exact = graft.compile(model_of())(X)
    assert np.abs(made.engine(X) - exact).max() < 0.1 * np.ptp(exact)


@pytest.mark.parametrize("choices, name", [({"activations": "dynamic"}, "int8"), ({"activations": "float"}, "int8"),
                                           ({"weights": "int4", "block": 16}, "int4")])
def test_without_samples(tmp_path, choices, name):
    made = graft.quantize(model_of(), **choices)
    report = made.report
    assert {layer.precision for layer in report.layers} == {name} and report.weights == name and np.isnan(report.error)
    assert report.activations == choices.get("activations", "float")
    exact, found = graft.compile(model_of())(X), made.engine(X)
    assert np.abs(found - exact).max() < (0.3 if name == "int4" else 0.05) * np.ptp(exact)
    made.save(tmp_path / "q.graft")
    assert graft.load(tmp_path / "q.graft")(X).tobytes() == found.tobytes()
    measured = graft.quantize(model_of(), Loader(), metric=right, max_drop=0.2, **choices)
    assert measured.report.metric >= measured.report.metric_fp32 - 0.2 and measured.report.error > 0


def test_progress_and_models_that_cannot_be_quantised():
    told = []
    graft.quantize(model_of(), Loader(), progress=lambda *step: told.append(step))
    assert ("quantize", "calibrating", 2, 3) in told and ("quantize", "measuring", 0, 3) in told
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 12])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 12])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(graft.UnsupportedError, match="has no Conv, MatMul or Gemm"):
        graft.quantize(model, X)
    with pytest.raises(graft.UnsupportedError, match="quantised already"):
        graft.quantize(graft.quantize(model_of(), X).model, X)
    with pytest.raises(graft.MissingFileError, match="none.onnx"):
        graft.quantize("none.onnx", X)


def test_the_report_has_the_shape_of_its_schema():
    import jsonschema
    from conftest import ROOT
    schema = json.loads((ROOT / "docs/schemas/interface/graft_quantized_report.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    report = graft.quantize(model_of(), X, metric=right).report.as_dict()
    jsonschema.Draft202012Validator(schema).validate(report)
    for command in ("convert", "compile"):
        written = json.loads((ROOT / f"docs/schemas/{command}.json").read_text())["properties"]["quantization"]
        assert written["properties"] == schema["properties"] and written["required"] == schema["required"]


def test_the_curve_and_what_layers_cost():
    made = graft.quantize(model_of(), X)
    assert made.curve == [] and all(layer.error is None for layer in made.report.layers)
    made = graft.quantize(model_of(), X, per_layer=True)
    assert [point.layers for point in made.curve] == [0, 2] and made.curve[1].chosen
    assert made.curve[0].error == 0 and made.curve[1].error == made.report.error
    for layer in made.report.layers:
        assert layer.error > 0 and layer.milliseconds_won == layer.milliseconds_fp32 - layer.milliseconds_quantized
    bound = 0.9 * made.report.error
    try:
        made = graft.quantize(model_of(), X, max_error=bound)
    except graft.UnsupportedError as error:
        assert "ms (fp32: " in str(error)
    else:
        assert made.report.error <= bound
        assert [point for point in made.curve if point.chosen][0].error == made.report.error


def test_the_fastest_precision_within_a_bound():
    made = graft.quantize(model_of(), X, precision="auto", max_error=0.5, tune="off")
    assert [row.precision for row in made.report.tried][0] == "fp32"
    chosen, = (row for row in made.report.tried if row.chosen)
    assert chosen.precision == made.report.precision and chosen.within_bound
    assert np.abs(made.engine(X) - exact(X)).max() <= 0.6 * np.ptp(exact(X))
    assert "precision auto" in str(made.report)
    engine = graft.compile(model_of(), precision="auto", max_error=1e-9, tune="off")
    assert engine.quantization.precision == "fp32" and len(engine.quantization.tried) == 4
    np.testing.assert_allclose(engine(X), exact(X), rtol=1e-3, atol=1e-4)
    with pytest.raises(graft.InvalidArgumentError, match="precision auto takes the fastest network within a bound"):
        graft.compile(model_of(), precision="auto")
    with pytest.raises(graft.InvalidArgumentError, match="precision is 'fp16'"):
        graft.quantize(model_of(), X, precision="fp16")
    assert graft.compile(model_of(), tune="off").quantization is None
