# SPDX-License-Identifier: Apache-2.0
"""Sizes, orders and values that models of exporters have and that only a run knows, against ONNX Runtime."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import library
from support.run_model import by_graft

MODES = pytest.mark.parametrize("mode", ["generated", "interpret"])
RANDOM = np.random.default_rng(34)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), name=outputs.split(maxsplit=1)[0], **attributes)


def model_of(nodes, shapes, feeds, constants=(), opset=18):
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(feeds[name].dtype), shape)
              for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "main", inputs, [helper.make_empty_tensor_value_info("y")],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def by_onnxruntime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"]).run(None, feeds)[0]


def check(graft, model, feeds, mode):
    expected = by_onnxruntime(model, feeds)
    found = by_graft(graft, model, feeds, mode)[0][0]
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


BROADCASTS = {
    "a_timestep_and_a_batch": ([node("Add", "x t", "a"), node("Mul", "a x", "b"), node("Add", "b t", "y")],
                               {"x": ["batch", 4, "w"], "t": ["steps", 4, 1]},
                               [((2, 4, 9), (1, 4, 1)), ((1, 4, 9), (3, 4, 1)), ((2, 4, 9), (2, 4, 1)),
                                ((0, 4, 9), (1, 4, 1))]),
    "the_last_axis": ([node("Add", "x t", "y")], {"x": ["a", "n"], "t": ["b", "m"]},
                      [((3, 17), (1, 1)), ((1, 1), (4, 33)), ((3, 17), (3, 17)), ((3, 1), (1, 17))]),
    "against_a_known_size": ([node("Add", "x t", "y")], {"x": [3, 8], "t": ["n", "m"]},
                             [((3, 8), (1, 8)), ((3, 8), (3, 1)), ((3, 8), (3, 8))]),
    "three_that_meet": ([node("Where", "c x t", "a"), node("Sub", "a x", "y")],
                        {"c": ["k", "n"], "x": ["a", "n"], "t": ["b", 1]},
                        [((1, 5), (4, 5), (1, 1)), ((3, 5), (1, 5), (3, 1)), ((1, 5), (1, 5), (2, 1))]),
    "batches_of_products": ([node("MatMul", "x t", "y")], {"x": ["a", "n", 8], "t": ["b", 8, "m"]},
                            [((4, 5, 8), (1, 8, 6)), ((1, 5, 8), (4, 8, 6)), ((3, 5, 8), (3, 8, 6))]),
    "normalized_afterwards": ([node("Add", "x t", "a"), node("Softmax", "a", "b", axis=-1), node("MatMul", "b v", "y")],
                              {"x": ["b", 2, "l", "l"], "t": ["one", 1, 1, "l"], "v": ["b", 2, "l", 4]},
                              [((3, 2, 5, 5), (1, 1, 1, 5), (3, 2, 5, 4)), ((3, 2, 5, 5), (3, 1, 1, 5), (3, 2, 5, 4))]),
    "a_count_of_the_run": ([node("Transpose", "z", "r", perm=[1, 0]), node("Cast", "r", "f", to=TensorProto.FLOAT),
                            node("Mul", "f x", "y")], {"c": ["n"], "x": ["k", 1]},
                           [((4,), (1, 1)), ((4,), (4, 1))]),
}


@MODES
@pytest.mark.parametrize("name", BROADCASTS)
def test_a_dynamic_size_of_1_repeats(graft, name, mode):
    nodes, shapes, runs = BROADCASTS[name]
    for given in runs:
        feeds = {key: floats(*shape) for key, shape in zip(shapes, given)}
        if "c" in feeds:
            feeds["c"] = feeds["c"] > (-10 if name.startswith("a_count") else 0)
        first = [node("NonZero", "c", "z")] if name.startswith("a_count") else []
        check(graft, model_of(first + nodes, shapes, feeds), feeds, mode)


def test_sizes_that_do_not_broadcast_are_named_with_their_values(graft):
    feeds = {"x": floats(2, 4), "t": floats(3, 4)}
    model = model_of([node("Add", "x t", "y")], {"x": ["batch", 4], "t": ["steps", 4]}, feeds)
    with pytest.raises(library.GraftError, match=r"node 'y': .*\(batch and steps\): batch = 2, steps = 3"):
        by_graft(graft, model, feeds, "generated")


def network(order):
    """Three layers, the nodes in another order; a branch reads what is computed outside of it."""
    then = helper.make_graph([helper.make_node("Add", ["c", "a"], ["t"], name="t")], "then", [],
                             [helper.make_empty_tensor_value_info("t")])
    otherwise = helper.make_graph([helper.make_node("Identity", ["d"], ["e"], name="e"),
                                   helper.make_node("Neg", ["a"], ["d"], name="d")], "else", [],
                                  [helper.make_empty_tensor_value_info("e")])
    nodes = [node("Exp", "x", "a"), node("Neg", "a", "b"), node("Mul", "a b", "c"),
             helper.make_node("If", ["flag"], ["y"], name="y", then_branch=then, else_branch=otherwise)]
    return [nodes[k] for k in order]


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (1, 0, 3, 2), (0, 2, 1, 3)])
def test_nodes_in_another_order_are_sorted(graft, order):
    for flag in (True, False):
        feeds = {"x": floats(2, 3), "flag": np.array(flag)}
        shapes = {"x": ["n", 3], "flag": []}
        found = by_graft(graft, model_of(network(order), shapes, feeds), feeds, "generated")[0][0]
        a = np.exp(feeds["x"])
        np.testing.assert_allclose(found, a - a * a if flag else -a, rtol=1e-5)


def test_a_cycle_of_nodes_is_named(graft):
    feeds = {"x": floats(3)}
    nodes = [node("Add", "x c", "a"), node("Neg", "a", "b"), node("Abs", "b", "c"), node("Abs", "c", "y")]
    with pytest.raises(library.GraftError, match="3 nodes in a cycle: .*'a'.*; export"):
        by_graft(graft, model_of(nodes, {"x": [3]}, feeds), feeds, "interpret")


@MODES
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("attributes", [{"kernel_shape": [2, 2], "strides": [2, 2]},
                                        {"kernel_shape": [3, 3], "strides": [3, 3]},
                                        {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "VALID"},
                                        {"kernel_shape": [5, 5], "strides": [3, 3], "pads": [1, 1, 1, 1]},
                                        {"kernel_shape": [3, 3], "strides": [3, 3], "count_include_pad": 1}],
                         ids=["2", "3", "valid", "padded", "counted"])
def test_a_window_that_exceeds_the_map_by_less_than_a_stride_is_one(graft, op, attributes, mode):
    if "count_include_pad" in attributes and op != "AveragePool":
        pytest.skip("it counts nothing")
    for height in (1, 2, 3, 7):
        feeds = {"x": floats(1, 2, height, 9)}
        model = model_of([node(op, "x", "y", **attributes)], {"x": ["b", 2, "h", "w"]}, feeds, opset=17)
        try:
            by_onnxruntime(model, feeds)
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
            continue  # larger by more than a stride
        check(graft, model, feeds, mode)


@MODES
@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_a_list_of_one_scale_is_for_all_channels(graft, op, mode):
    """Whether there is one scale, or one for each channel, only a run knows."""
    for channels, scales in ((3, 3), (3, 1), (1, 1)):
        feeds = {"x": floats(2, channels), "s": np.abs(floats(scales)) + 0.1, "z": np.arange(scales).astype(np.uint8)}
        if op == "DequantizeLinear":
            feeds["x"] = RANDOM.integers(0, 255, (2, channels)).astype(np.uint8)
        model = model_of([node(op, "x s z", "y", axis=1)], {"x": ["n", "c"], "s": ["d"], "z": ["e"]}, feeds)
        check(graft, model, feeds, mode)


@MODES
@pytest.mark.parametrize("op", ["GatherElements", "ScatterElements"])
def test_indices_that_reach_beyond_the_data_are_refused(graft, op, mode):
    """In an axis that they do not index, where ONNX asks for at most as many as the data has."""
    feeds = {"x": floats(1, 5), "i": np.array([[1, 2], [0, 1]]), "u": floats(2, 2)}
    if op == "GatherElements":
        del feeds["u"]
    for shape in (["a", 5], [1, 5]):
        shapes = {"x": shape, "i": ["n", 2], "u": ["n", 2]}
        model = model_of([node(op, " ".join(feeds), "y", axis=1)], {name: shapes[name] for name in feeds}, feeds)
        with pytest.raises(library.GraftError, match="its data is smaller than its indices"):
            by_graft(graft, model, feeds, mode)


def attention(hides):
    """Attention spelled out, with a mask that is added or chosen by."""
    masked = [node("Add", "s m", "h")] if hides == "added" else [node("Where", "m s low", "h")]
    return [node("Transpose", "k", "kt", perm=[0, 1, 3, 2]), node("MatMul", "q kt", "p"), node("Mul", "p scale", "s"),
            *masked, node("Softmax", "h", "w", axis=-1), node("MatMul", "w v", "y")]


@MODES
@pytest.mark.parametrize("hides", ["added", "chosen"])
def test_rows_that_are_hidden_throughout_are_not_numbers(graft, hides, mode):
    mask = np.zeros((2, 1, 5, 7), np.float32)
    mask[0, 0, 1] = mask[1, 0, 3, 2:] = -np.inf
    feeds = {"q": floats(2, 3, 5, 8), "k": floats(2, 3, 7, 8), "v": floats(2, 3, 7, 8),
             "m": mask if hides == "added" else np.isfinite(mask)}
    shapes = {"q": ["b", 3, "l", 8], "k": ["b", 3, "t", 8], "v": ["b", 3, "t", 8], "m": ["b", 1, "l", "t"]}
    model = model_of(attention(hides), shapes, feeds,
                     [("scale", np.float32(0.35)), ("low", np.float32(-np.inf))][:1 if hides == "added" else 2])
    assert np.isnan(by_onnxruntime(model, feeds)).sum() == 3 * 8
    check(graft, model, feeds, mode)


@MODES
@pytest.mark.parametrize("size", [(14, 20), (5, 3), (9, 1)])
@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_half_pixels_of_tensorflow_as_opset_11_has_them(graft, nearest, size, mode):
    feeds = {"x": floats(1, 3, 7, 10)}
    resize = node("Resize", "x roi none sizes", "y", mode="nearest", nearest_mode=nearest,
                  coordinate_transformation_mode="tf_half_pixel_for_nn")
    empty = np.zeros(0, np.float32)
    check(graft, model_of([resize], {"x": ["n", 3, "h", "w"]}, feeds,
                          [("roi", empty), ("none", empty), ("sizes", np.array([1, 3, *size]))], 11), feeds, mode)


@MODES
def test_linear_interpolation_of_integers_is_cut_off(graft, mode):
    feeds = {"x": (np.arange(24).reshape(1, 2, 3, 4) * 10).astype(np.uint8)}
    resize = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], name="y", mode="linear")
    check(graft, model_of([resize], {"x": [1, 2, "h", "w"]}, feeds, [("sizes", np.array([1, 2, 6, 8]))]), feeds, mode)


@MODES
@pytest.mark.parametrize("op", ["ReduceLogSum", "ReduceLogSumExp"])
@pytest.mark.parametrize("kind", ["i4", "i8"])
def test_logarithms_of_sums_of_integers(graft, op, kind, mode):
    feeds = {"x": RANDOM.integers(1, 20, (3, 4)).astype(kind)}
    model = model_of([node(op, "x axes", "y")], {"x": ["n", 4]}, feeds, [("axes", np.array([1]))])
    expected = np.log((feeds["x"] if op == "ReduceLogSum" else np.exp(feeds["x"].astype(float))).sum(1, keepdims=True))
    found = by_graft(graft, model, feeds, mode)[0][0]
    np.testing.assert_array_equal(found, expected.astype(kind))


@MODES
@pytest.mark.parametrize("bounds", [(3, -2**63, -1), (-2**63, 2**63 - 1, 2), (2**63 - 1, -2**63, -2)])
def test_slices_to_the_ends_of_numbers(graft, bounds, mode):
    feeds = {"x": floats(3, 5)} | {name: np.array([bound]) for name, bound in zip(("s", "e", "t"), bounds)}
    model = model_of([node("Slice", "x s e axes t", "y")], {"x": ["n", 5], "s": [1], "e": [1], "t": [1]}, feeds,
                     [("axes", np.array([1]))])
    check(graft, model, feeds, mode)


DEPTHWISE = [(5, 1, 1), (7, 1, 1), (3, 1, 2), (5, 2, 1)]  # kernel, stride, dilation


@pytest.mark.parametrize("kernel, stride, dilation", DEPTHWISE)
def test_maps_narrower_than_the_padding_run_inside_the_compiled_range(graft, kernel, stride, dilation):
    """Channels that fill no whole number of vectors, between two convolutions that keep them last in memory."""
    pads = [kernel // 2 * dilation] * 4
    constants = [("w0", floats(24, 3, 1, 1)), ("wd", floats(24, 1, kernel, kernel)), ("w1", floats(8, 24, 1, 1))]
    nodes = [node("Conv", "x w0", "a"), node("Clip", "a zero six", "c"),
             node("Conv", "c wd", "d", pads=pads, strides=[stride] * 2, dilations=[dilation] * 2, group=24),
             node("HardSwish", "d", "s"), node("Conv", "s w1", "y")]
    constants += [("zero", np.float32(0)), ("six", np.float32(6))]
    feeds = {"x": floats(1, 3, 1, 1)}
    model = model_of(nodes, {"x": ["b", 3, "h", "w"]}, feeds, constants)
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with library.Engine(graft, model.SerializeToString(), [("mode", "generated")]) as engine:
        for height, width in [(1, 1), (3, 1), (1, 2), (2, 3), (9, 4), (20, 20)]:
            x = floats(2, 3, height, width)
            found = engine.run([("x", numpy_helper.from_array(x, "x"))], ["y"])[0]
            np.testing.assert_allclose(numpy_helper.to_array(found), reference.run(None, {"x": x})[0], rtol=1e-4,
                                       atol=1e-5)
