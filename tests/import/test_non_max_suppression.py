# SPDX-License-Identifier: Apache-2.0
"""NonMaxSuppression against ONNX Runtime: by generated kernels and by the interpreter."""

import functools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import library
from support.run_model import by_graft

INPUTS = ("boxes", "scores", "limit", "overlap", "threshold")
TYPES = {"limit": TensorProto.INT64}
SHAPES = {"boxes": ["images", "boxes_of_one", 4], "scores": ["images", "classes", "boxes_of_one"]}


def model_of(given, center=0, inside_branch=False):
    """NonMaxSuppression of the inputs that are given, all sizes open; also as one branch of an If."""
    node = helper.make_node("NonMaxSuppression", [name if name in given else "" for name in INPUTS], ["selected"],
                            name="detect", center_point_box=center)
    inputs = [helper.make_tensor_value_info(name, TYPES.get(name, TensorProto.FLOAT), SHAPES.get(name, []))
              for name in INPUTS if name in given]
    result = helper.make_tensor_value_info("selected", TensorProto.INT64, [None, 3])
    nodes = [node]
    if inside_branch:
        nothing = helper.make_node("Constant", [], ["selected"], value=numpy_helper.from_array(np.zeros((0, 3), int)))
        branches = [helper.make_graph([n], n.op_type, [], [result]) for n in (node, nothing)]
        nodes = [helper.make_node("If", ["wanted"], ["selected"], then_branch=branches[0], else_branch=branches[1])]
        inputs.append(helper.make_tensor_value_info("wanted", TensorProto.BOOL, []))
    graph = helper.make_graph(nodes, "detection", inputs, [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def boxes_and_scores(images, classes, boxes, seed, spread=100.0, levels=None):
    """Boxes of up to a fifth of the picture, the corners of some swapped; scores of few levels have ties."""
    random = np.random.default_rng(seed)
    first = random.uniform(0, spread, (images, boxes, 2))
    corners = [first, first + random.uniform(1, 20, first.shape)]
    corners = np.where(random.random((images, boxes, 1)) < 0.3, np.concatenate(corners[::-1], -1),
                       np.concatenate(corners, -1))
    scores = random.random((images, classes, boxes))
    if levels:
        scores = np.round(scores * levels) / levels
    return {"boxes": corners.astype(np.float32), "scores": scores.astype(np.float32)}


def limits(limit=None, overlap=None, threshold=None):
    given = {"limit": limit, "overlap": overlap, "threshold": threshold}
    return {name: np.array(value, np.int64 if name == "limit" else np.float32)
            for name, value in given.items() if value is not None}


CASES = {
    "one_row": {**boxes_and_scores(1, 1, 50, 1), **limits(100, 0.3)},
    "images_and_classes": {**boxes_and_scores(3, 4, 130, 2), **limits(200, 0.4, 0.2)},
    "rows_that_end_with_their_limit": {**boxes_and_scores(2, 3, 300, 3), **limits(7, 0.5, 0.1)},
    "limits_between_rounds": {**boxes_and_scores(1, 2, 400, 4, spread=1000.0), **limits(64, 0.5)},
    "many_rounds": {**boxes_and_scores(1, 1, 700, 5), **limits(10000, 0.7)},
    "equal_scores": {**boxes_and_scores(2, 2, 200, 6, levels=5), **limits(50, 0.4, 0.3)},
    "rows_without_boxes": {**boxes_and_scores(1, 40, 6, 7), **limits(3, 0.4, 0.93)},
    "nothing_scores": {**boxes_and_scores(2, 2, 9, 8), **limits(3, 0.4, 2.0)},
    "no_limit_is_no_box": {**boxes_and_scores(1, 1, 9, 9)},
    "any_overlap_is_one_too_many": {**boxes_and_scores(1, 2, 60, 10), **limits(60)},
    "no_boxes": {**boxes_and_scores(1, 2, 0, 11), **limits(3, 0.4, 0.1)},
}


@functools.cache
def expected(name, center):
    session = onnxruntime.InferenceSession(model_of(CASES[name], center).SerializeToString())
    return session.run(None, CASES[name])[0]


@pytest.mark.parametrize("mode", ["generated", "interpret"])
@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_selects_what_onnx_runtime_selects(graft, name, center, mode):
    (got,), ways = by_graft(graft, model_of(CASES[name], center), CASES[name], mode)
    np.testing.assert_array_equal(got, expected(name, center))
    assert mode == "interpret" or not ways.get("interpreter"), ways


@pytest.mark.parametrize("wanted", [True, False])
def test_runs_in_a_branch(graft, wanted):
    inputs = {**CASES["images_and_classes"], "wanted": np.array(wanted)}
    (got,), _ = by_graft(graft, model_of(CASES["images_and_classes"], inside_branch=True), inputs, "generated")
    selected = expected("images_and_classes", 0)
    np.testing.assert_array_equal(got, selected if wanted else selected[:0])


def test_names_the_node_whose_boxes_have_no_corners(graft):
    model = model_of(CASES["one_row"])
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 5
    with pytest.raises(library.GraftError, match="detect"):
        by_graft(graft, model, CASES["one_row"], "generated")
