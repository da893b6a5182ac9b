# SPDX-License-Identifier: Apache-2.0
"""Sizes that only a run knows, among generated kernels: one session, several sizes, against ONNX Runtime."""

import graft
import numpy as np
import onnx.reference
import pytest
from onnx import helper

from onnx_models import BOOL, FLOAT, INT64, agree, constant, model_of, value

RNG = np.random.default_rng(11)
WEIGHTS = RNG.standard_normal((4, 3)).astype(np.float32)


def rows(*shape):
    """Standard normal values."""
    return RNG.standard_normal(shape).astype(np.float32)


def node(op, inputs, outputs="y", **attributes):
    """A node whose operands are words; `_` is one that is left out."""
    names = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(op, names, outputs.split(), **attributes)


def integers(*values):
    """An i64 list."""
    return np.array(values, np.int64)


def between(nodes, inputs, shape, feeds, constants=(), computed=None):
    """The nodes take `a`, rows of four that a kernel makes, and give `b`, which another one reads."""
    before = [node("Relu", "x", "r"), node("Sub", "r half", "a")]
    after = [node("Cast", "b", "f", to=FLOAT), node("Tanh", "f", "t"), node("Add", "t half")]
    model = model_of([*before, *nodes, *after], [value("x", FLOAT, ["n", 4]), *inputs], [value("y", FLOAT, shape)],
                     [constant("half", np.float32(0.5)), *constants])
    return agree(model, feeds, computed)


def test_rows_that_are_not_zero():
    nodes = [node("NonZero", "r", "places"), node("Gather", "places first", "at", axis=0),
             node("Gather", "a at", "chosen", axis=0), node("MatMul", "chosen w", "b")]
    between(nodes, [], ["k", 3], [{"x": rows(n, 4)} for n in (5, 1, 9)] + [{"x": -np.ones((3, 4), np.float32)}],
            [constant("first", np.int64(0)), constant("w", WEIGHTS)], computed=True)


def test_values_that_differ():
    nodes = [node("Round", "a", "whole"), node("Unique", "whole", "values at back counts"),
             node("Cast", "counts", "numbers", to=FLOAT), node("Mul", "values numbers", "b")]
    between(nodes, [], ["k"], [{"x": rows(n, 4)} for n in (5, 1, 9)], computed=True)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_what_a_condition_leaves(axis):
    attributes = {} if axis is None else {"axis": axis}
    nodes = [node("Compress", "a keep", "b", **attributes)]
    keep = {0: [1, 0, 1, 1, 0], 1: [0, 1, 1, 0], None: [1, 1, 0, 1, 0, 1]}[axis]
    feeds = [{"x": rows(n, 4), "keep": np.array(keep, bool)} for n in (5, 7)]
    feeds.append({"x": rows(5, 4), "keep": np.zeros(len(keep), bool)})
    between(nodes, [value("keep", BOOL, [len(keep)])], ["k", 4] if axis == 0 else ["n", "k"] if axis == 1 else ["k"],
            feeds, computed=True)


def test_a_range_of_floats():
    nodes = [node("Range", "start end step", "steps"), node("ReduceSum", "a _", "total", keepdims=0),
             node("Mul", "steps total", "b")]
    feeds = [{"x": rows(2, 4), "start": np.array(start, np.float32), "end": np.array(end, np.float32),
              "step": np.array(step, np.float32)}
             for start, end, step in ((0, 1, 0.1), (3, -2, -0.7), (0, 5, 5), (1, 1, 1), (-1e3, 1e3, 250))]
    between(nodes, [value(name, FLOAT, []) for name in ("start", "end", "step")], ["k"], feeds, computed=True)


@pytest.mark.parametrize("name, inputs, node_, shape, given", [
    ("reshape", [("shape", 3)], node("Reshape", "a shape", "b"), ["p", "q", "s"],
     [(3, integers(2, -1, 2)), (5, integers(5, 2, 2)), (2, integers(1, 8, 1))]),
    ("slice", [("starts", 2), ("ends", 2), ("steps", 2)], node("Slice", "a starts ends axes steps", "b"), ["p", "q"],
     [(6, integers(1, 0), integers(5, 4), integers(2, 1)), (6, integers(-2, 3), integers(-10, -9), integers(-1, -2)),
      (3, integers(0, 1), integers(100, 3), integers(1, 1)), (3, integers(2, 0), integers(2, 9), integers(1, 3))]),
    ("tile", [("repeats", 2)], node("Tile", "a repeats", "b"), ["p", "q"],
     [(3, integers(2, 1)), (1, integers(1, 3)), (2, integers(4, 2))]),
    ("pad", [("pads", 4)], node("Pad", "a pads value", "b", mode="constant"), ["p", "q"],
     [(3, integers(1, 0, 2, 1)), (1, integers(0, 0, 0, 0)), (4, integers(0, 2, 3, 0)), (4, integers(-1, 0, -2, 1))]),
    ("pad_edge", [("pads", 4)], node("Pad", "a pads", "b", mode="edge"), ["p", "q"],
     [(3, integers(1, 0, 2, 1)), (4, integers(0, 5, 3, 0))]),
    ("pad_reflect", [("pads", 4)], node("Pad", "a pads", "b", mode="reflect"), ["p", "q"],
     [(3, integers(1, 0, 2, 1)), (4, integers(0, 3, 3, 0))]),
    ("expand", [("shape", 3)], node("Expand", "a shape", "b"), ["p", "q", "s"],
     [(3, integers(2, 3, 4)), (1, integers(1, 5, 1)), (2, integers(3, 1, 1))]),
    ("top_k", [("k", 1)], node("TopK", "a k", "b at", axis=1), ["n", "q"],
     [(3, integers(2)), (1, integers(4)), (5, integers(1))])])
def test_shapes_that_are_given_at_run_time(name, inputs, node_, shape, given):
    feeds = [{"x": rows(n, 4)} | {key: array for (key, _), array in zip(inputs, arrays)} for n, *arrays in given]
    constants = [constant("axes", integers(0, 1))] if name == "slice" else []
    constants += [constant("value", np.float32(3))] if name == "pad" else []
    between([node_], [value(key, INT64, [size]) for key, size in inputs], shape, feeds, constants)


def resized(attributes, inputs, given, side_of):
    """A Resize between two kernels of pictures, its sizes or scales given at run time."""
    operands = "a _ scales" if "scales" in inputs else "a _ _ sizes"
    model = model_of([node("Relu", "x", "a"), node("Resize", operands, "b", **attributes), node("Tanh", "b")],
                     [value("x", FLOAT, [1, 2, "h", "w"]),
                      value(inputs, FLOAT if inputs == "scales" else INT64, [side_of])],
                     [value("y", FLOAT, ["p", "q", "r", "s"])])
    return agree(model, [{"x": rows(1, 2, *side), inputs: array} for side, array in given])


@pytest.mark.parametrize("attributes", [
    {"mode": "nearest"}, {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "linear"}, {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "cubic", "cubic_coeff_a": -0.5}, {"mode": "linear", "antialias": 1}, {"mode": "cubic", "antialias": 1}])
def test_pictures_resized_by_scales_of_the_run(attributes):
    given = [((6, 8), [1, 1, 0.5, 0.75]), ((5, 4), [1, 1, 2, 1.5]), ((7, 9), [1, 1, 0.4, 2]), ((4, 4), [1, 1, 1, 1])]
    if attributes.get("coordinate_transformation_mode") == "align_corners":
        given[2] = ((5, 9), [1, 1, 0.4, 2])  # of a size that is not whole ONNX Runtime takes other corners than ONNX
    resized(attributes, "scales", [(side, np.array(scales, np.float32)) for side, scales in given], 4)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_corners_are_those_of_the_size_before_it_is_rounded_as_onnx_says(mode):
    model = model_of([node("Resize", "x _ scales", "y", mode=mode, coordinate_transformation_mode="align_corners")],
                     [value("x", FLOAT, [1, 1, "h", "w"]), value("scales", FLOAT, [4])],
                     [value("y", FLOAT, ["p", "q", "r", "s"])])
    session = graft.Session(graft.compile(model, tune="off"))
    for side, scales in [((7, 9), [1, 1, 0.4, 2]), ((4, 5), [1, 1, 0.6, 0.6]), ((3, 3), [1, 1, 1.5, 2.5])]:
        feed = {"x": rows(1, 1, *side), "scales": np.array(scales, np.float32)}
        expected = onnx.reference.ReferenceEvaluator(model).run(None, feed)[0]
        np.testing.assert_allclose(session.run(feed)["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", [{"mode": "linear"}, {"mode": "nearest"}, {"mode": "linear", "antialias": 1}])
def test_pictures_resized_to_sizes_of_the_run_that_keep_their_aspect(policy, mode):
    given = [((6, 8), integers(3, 5)), ((5, 4), integers(10, 9)), ((7, 9), integers(4, 18))]
    attributes = mode | {"keep_aspect_ratio_policy": policy, "axes": [2, 3]}
    resized(attributes, "sizes", given, 2)


def test_boxes_that_survive_are_gathered():
    nodes = [node("NonMaxSuppression", "boxes scores most overlap least", "kept"),
             node("Gather", "kept last", "at", axis=1), node("Squeeze", "boxes zero", "all"),
             node("Gather", "all at", "chosen", axis=0), node("Relu", "chosen")]
    model = model_of(nodes, [value("boxes", FLOAT, [1, "n", 4]), value("scores", FLOAT, [1, 3, "n"])],
                     [value("y", FLOAT, ["k", 4])],
                     [constant("most", integers(4)), constant("overlap", np.array([0.4], np.float32)),
                      constant("least", np.array([0.2], np.float32)), constant("last", np.int64(2)),
                      constant("zero", integers(0))])
    feeds = []
    for count in (20, 1, 70):
        low = RNG.uniform(0, 5, (1, count, 2)).astype(np.float32)
        feeds.append({"boxes": np.concatenate([low, low + RNG.uniform(1, 3, (1, count, 2)).astype(np.float32)], axis=2),
                      "scores": RNG.uniform(0, 1, (1, 3, count)).astype(np.float32)})
    agree(model, feeds, computed=True)


def test_one_unknown_size_decides_another():
    nodes = [node("NonZero", "r", "places"), node("Shape", "places", "shape"), node("Gather", "shape one", "count"),
             node("Range", "zero count one", "numbers"), node("Cast", "numbers", "floats", to=FLOAT),
             node("Unsqueeze", "floats last", "column"), node("Greater", "floats limit", "late"),
             node("Compress", "column late", "b", axis=0)]
    between(nodes, [], ["k", 1], [{"x": rows(n, 4)} for n in (5, 1, 9)],
            [constant("zero", np.int64(0)), constant("one", np.int64(1)), constant("last", integers(1)),
             constant("limit", np.float32(2))], computed=True)
