# SPDX-License-Identifier: Apache-2.0
"""Results whose size is known only after a run: the plugin tells it as a further output, which it declares to TensorRT
10 and 11 as a size tensor."""

import numpy as np
import onnx
import pytest
import workshop
from onnx import TensorProto, helper, numpy_helper

VERSIONS = ["10.16", "11.1"]


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def saved(folder, nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "counted", inputs, [value(name, kind, None) for name, kind in outputs],
                              [numpy_helper.from_array(array, name) for name, array in weights])
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def run(model, folder, words, name, arrays, headers, harness, version):
    """The plugin of a part, for each of some arrays by name; gives its report and what the harness says."""
    made = folder / "made"
    report = workshop.generate(model, made, *words, "--name", name, "--target", "sm_90a", emulated=True)
    library = workshop.build_library(made, headers[version])
    said = ""
    for number, given in enumerate(arrays):
        cases = folder / f"cases_{number}"
        workshop.write_case(made / "parts" / f"{name}.onnx", cases, given, {})
        said += workshop.checked([harness(version), library, name, cases], env=workshop.preloaded("libcuda.so.1"))
    return report["plugins"][0], said


def chosen(shares, seed, shape):
    """Truth values of which so many hold."""
    return np.random.default_rng(seed).random(shape) < shares


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compress_says_how_many_it_keeps(headers, harness, tmp_path, version, axis):
    attributes = {} if axis is None else {"axis": axis}
    node = helper.make_node("Compress", ["x", "kept"], ["y"], name="compress", **attributes)
    length = {None: 33, 0: "rows", 1: 7}[axis]
    inputs = [value("x", TensorProto.FLOAT, ["rows", 7]), value("kept", TensorProto.BOOL, [length])]
    model = saved(tmp_path, [node], inputs, [("y", TensorProto.FLOAT)])
    arrays = []
    for seed, (rows, share) in enumerate([(5, 0.5), (5, 0), (5, 1), (40, 0.1)]):
        count = {None: 33, 0: rows, 1: 7}[axis]
        arrays.append({"x": np.random.default_rng(seed).standard_normal((rows, 7)).astype(np.float32),
                       "kept": chosen(share, seed, count)})
    plugin, said = run(model, tmp_path, ["--nodes", "compress"], "Kept", arrays, headers, harness, version)
    assert plugin["counted"] == [{"output": 0, "axis": axis or 0, "told_by": 1}] and plugin["outputs"] == 2
    assert said.count("all good") == len(arrays), said
    [call] = onnx.load(tmp_path / "made" / "model.onnx").graph.node
    assert list(call.output) == ["y"], "the model has no use for the size"


@pytest.mark.parametrize("attributes", [{}, {"sorted": 0}, {"axis": 0}, {"axis": 1, "sorted": 0}])
def test_unique_says_how_many_there_are(headers, harness, tmp_path, attributes):
    node = helper.make_node("Unique", ["x"], ["y", "first", "inverse", "counts"], name="unique", **attributes)
    model = saved(tmp_path, [node], [value("x", TensorProto.INT32, ["rows", 4])],
                  [("y", TensorProto.INT32), *((name, TensorProto.INT64) for name in ("first", "inverse", "counts"))])
    random = np.random.default_rng(4)
    arrays = [{"x": random.integers(0, most, (rows, 4)).astype(np.int32)} for rows, most in [(3, 2), (17, 3), (9, 1)]]
    plugin, said = run(model, tmp_path, ["--nodes", "unique"], "Different", arrays, headers, harness, "10.16")
    assert {(each["output"], each["axis"]) for each in plugin["counted"]} == {(0, attributes.get("axis", 0)), (1, 0),
                                                                             (3, 0)}
    assert {each["told_by"] for each in plugin["counted"]} == {4} and plugin["outputs"] == 5
    assert said.count("all good") == len(arrays), said


def test_kernels_behind_it_read_the_size(headers, harness, tmp_path):
    """NonZero's places stand in rows whose length is the number of them; a Gather behind it has so many points."""
    nodes = [helper.make_node("NonZero", ["x"], ["places"], name="places"),
             helper.make_node("Gather", ["table", "places"], ["y"], name="look_up"),
             helper.make_node("Neg", ["y"], ["turned"], name="turn")]
    table = np.random.default_rng(5).standard_normal((50, 3)).astype(np.float32)
    model = saved(tmp_path, nodes, [value("x", TensorProto.FLOAT, ["rows", 6])],
                  [("places", TensorProto.INT64), ("turned", TensorProto.FLOAT)], [("table", table)])
    arrays = [{"x": (chosen(share, seed, (rows, 6)) * 1.5).astype(np.float32), "table": table}
              for seed, (rows, share) in enumerate([(4, 0.5), (50, 0.3), (2, 0), (3, 1)])]
    plugin, said = run(model, tmp_path, ["--nodes", "places,look_up,turn"], "Places", arrays, headers, harness, "11.1")
    assert plugin["counted"] == [{"output": 0, "axis": 1, "told_by": 2}, {"output": 1, "axis": 1, "told_by": 2}]
    assert said.count("all good") == len(arrays), said
    header = (tmp_path / "made" / "Places.h").read_text()
    assert "kCounts = 1" in header and "const void* s0 = memory + offsets[" in header


@pytest.mark.parametrize("words, said", [
    (["--tensorrt", "8.6"], "which a plugin of TensorRT 8.6 cannot say, from TensorRT 10 on it can"),
    (["--for", "torch"], "which a plugin for PyTorch cannot say"),
    (["--for", "tensorflow"], "which a plugin for TensorFlow cannot say"),
])
def test_who_cannot_be_told_a_size_gets_no_plugin(tmp_path, words, said):
    model = saved(tmp_path, [helper.make_node("NonZero", ["x"], ["places"], name="places")],
                  [value("x", TensorProto.FLOAT, ["rows", 6])], [("places", TensorProto.INT64)])
    with pytest.raises(AssertionError, match=said):
        workshop.generate(model, tmp_path / "made", "--nodes", "places", *words)
    assert not (tmp_path / "made").exists()


def test_a_size_that_is_computed_with_is_refused(tmp_path):
    """Twice as many as there are: no output of the plugin tells that."""
    nodes = [helper.make_node("NonZero", ["x"], ["places"], name="places"),
             helper.make_node("Concat", ["places", "places"], ["y"], name="twice", axis=1)]
    model = saved(tmp_path, nodes, [value("x", TensorProto.FLOAT, ["rows", 6])], [("y", TensorProto.INT64)])
    with pytest.raises(AssertionError, match="node 'places': others compute with the size of its output"):
        workshop.generate(model, tmp_path / "made", "--nodes", "places,twice")
