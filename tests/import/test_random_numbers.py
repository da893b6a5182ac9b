# SPDX-License-Identifier: Apache-2.0
"""Random numbers in models: what a seed says, what differs from run to run, and how the numbers are distributed."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import library

MODES = ["generated", "interpret"]
COUNT = 100_000


def model_of(nodes, outputs, inputs=(), constants=()):
    """A model whose results have no declared types."""
    graph = helper.make_graph(nodes, "random", list(inputs),
                              [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
                              [numpy_helper.from_array(value, name) for name, value in dict(constants).items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    model.ir_version = 10
    return model


def runs(graft, model, feeds=None, mode="generated", count=2):
    """The results of several runs of one engine."""
    protos = [(name, numpy_helper.from_array(value, name)) for name, value in (feeds or {}).items()]
    names = [output.name for output in model.graph.output]
    with library.Engine(graft, model.SerializeToString(), [("mode", mode)]) as engine:
        return [[numpy_helper.to_array(proto) for proto in engine.run(protos, names)] for _ in range(count)]


def normal(name, output, **attributes):
    return helper.make_node(name, [], [output], shape=[COUNT], **attributes)


@pytest.mark.parametrize("mode", MODES)
def test_without_seeds_runs_and_nodes_differ(graft, mode):
    model = model_of([normal("RandomNormal", "a"), normal("RandomNormal", "b")], [("a", 1), ("b", 1)])
    first, second = runs(graft, model, mode=mode)
    drawn = [first[0], first[1], second[0], second[1]]
    for k, one in enumerate(drawn):
        for other in drawn[k + 1:]:
            assert np.mean(one == other) < 1e-3
            assert abs(np.corrcoef(one, other)[0, 1]) < 0.02


@pytest.mark.parametrize("mode", MODES)
def test_a_seed_gives_the_same_in_each_run_and_engine(graft, mode):
    model = model_of([normal("RandomUniform", "a", seed=7.0), normal("RandomUniform", "b", seed=8.0)],
                     [("a", 1), ("b", 1)])
    first, second = runs(graft, model, mode=mode)
    again = runs(graft, model, mode="generated")[0]
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, again, rtol=0, atol=1e-6)
    assert np.mean(first[0] == first[1]) < 1e-3


def test_numbers_have_the_distribution_that_the_node_says(graft):
    model = model_of([normal("RandomNormal", "n", mean=2.0, scale=3.0),
                      normal("RandomUniform", "u", low=-1.0, high=4.0),
                      normal("RandomNormal", "d", dtype=TensorProto.DOUBLE),
                      normal("RandomUniform", "h", dtype=TensorProto.FLOAT16)],
                     [("n", 1), ("u", 1), ("d", 11), ("h", 10)])
    n, u, d, h = runs(graft, model, count=1)[0]
    assert abs(n.mean() - 2) < 0.06 and abs(n.std() - 3) < 0.05
    assert abs(np.mean(n > 5) - 0.158655) < 0.006
    assert u.min() >= -1 and u.max() < 4 and abs(u.mean() - 1.5) < 0.03 and abs(u.std() - 5 / 12 ** 0.5) < 0.02
    assert d.dtype == np.float64 and abs(d.mean()) < 0.02 and abs(d.std() - 1) < 0.02
    assert h.dtype == np.float16 and h.min() >= 0 and h.max() < 1
    histogram = np.histogram(u, bins=50, range=(-1, 4))[0]
    assert ((histogram - COUNT / 50) ** 2 / (COUNT / 50)).sum() < 100  # chi squared of 49 degrees


def test_classes_are_drawn_as_often_as_their_probabilities_say(graft):
    logits = np.log(np.array([[0.5, 0.25, 0.125, 0.125, 1e-30], [0.1, 0.2, 0.3, 0.4, 1e-30]], np.float32))
    node = helper.make_node("Multinomial", ["x"], ["y"], sample_size=COUNT, dtype=TensorProto.INT64)
    model = model_of([node], [("y", 7)], [helper.make_tensor_value_info("x", 1, [2, 5])])
    drawn = runs(graft, model, {"x": logits}, count=1)[0][0]
    for row, probabilities in zip(drawn, np.exp(logits)):
        shares = np.bincount(row, minlength=5) / COUNT
        np.testing.assert_allclose(shares, probabilities / probabilities.sum(), atol=0.01)
        assert shares[4] == 0


def test_rounds_of_a_loop_draw_anew(graft):
    body = helper.make_graph([helper.make_node("RandomNormal", [], ["r"], shape=[64]),
                              helper.make_node("Identity", ["c"], ["d"])], "body",
                             [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, [])],
                             [helper.make_tensor_value_info("d", 9, []), helper.make_tensor_value_info("r", 1, [64])])
    model = model_of([helper.make_node("Loop", ["count", "on"], ["y"], body=body)], [("y", 1)],
                     [helper.make_tensor_value_info("count", 7, [])], {"on": np.array(True)})
    first, second = runs(graft, model, {"count": np.array(5, np.int64)})
    rows = np.concatenate([first[0], second[0]])
    assert rows.shape == (10, 64)
    assert len(np.unique(rows[:, 0])) == 10


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [3, 1000])
def test_dropout_with_a_seed_draws_what_numpy_does(graft, mode, size):
    x = np.random.default_rng(1).standard_normal((size, 7)).astype(np.float32)
    np.random.seed(11)
    mask = np.random.uniform(0, 1, x.shape) >= 0.4
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "mask"], seed=11)
    model = model_of([node], [("y", 1), ("mask", 9)],
                     [helper.make_tensor_value_info("x", 1, ["n", 7]), helper.make_tensor_value_info("ratio", 1, []),
                      helper.make_tensor_value_info("training", 9, [])])
    feeds = {"x": x, "ratio": np.array(0.4, np.float32), "training": np.array(True)}
    y, kept = runs(graft, model, feeds, mode, count=1)[0]
    np.testing.assert_array_equal(kept, mask)
    np.testing.assert_allclose(y, np.where(mask, x / 0.6, 0), rtol=1e-5)
    y, kept = runs(graft, model, feeds | {"training": np.array(False)}, mode, count=1)[0]
    np.testing.assert_array_equal(y, x)
    assert kept.all()


def test_dropout_without_a_seed_keeps_the_mean(graft):
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y"])
    model = model_of([node], [("y", 1)], [helper.make_tensor_value_info("x", 1, [COUNT])],
                     {"ratio": np.array(0.25, np.float32), "training": np.array(True)})
    first, second = runs(graft, model, {"x": np.ones(COUNT, np.float32)})
    assert abs(np.mean(first[0] == 0) - 0.25) < 0.01 and abs(first[0].mean() - 1) < 0.01
    assert 0.2 < np.mean((first[0] == 0) != (second[0] == 0)) < 0.55
