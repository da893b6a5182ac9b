# SPDX-License-Identifier: Apache-2.0
"""Branches and loops as generated kernels, against ONNX Runtime and against operators that mean the same."""

import time

import graft
import numpy as np
import pytest
from onnx import helper

from onnx_models import BOOL, FLOAT, INT64, agree, body_of, constant, model_of, value

def loop_inputs(*carried):
    """The inputs of a Loop's body."""
    return [value("i", INT64, []), value("c", BOOL, []), *carried]


def powers_model():
    """x, x w, x w^2 ... of `limit` rounds; each round collects its sum of rows."""
    rng = np.random.default_rng(1)
    body = body_of([helper.make_node("MatMul", ["s", "w"], ["p"]), helper.make_node("Tanh", ["p"], ["next"]),
                    helper.make_node("ReduceSum", ["next", "axes"], ["row"], keepdims=0),
                    helper.make_node("Identity", ["c"], ["more"])],
                   loop_inputs(value("s", FLOAT, ["n", 32])),
                   [value("more", BOOL, []), value("next", FLOAT, ["n", 32]), value("row", FLOAT, ["n"])])
    return model_of([helper.make_node("Loop", ["limit", "", "x"], ["y", "rows"], body=body)],
                    [value("x", FLOAT, ["n", 32]), value("limit", INT64, [])],
                    [value("y", FLOAT, ["n", 32]), value("rows", FLOAT, ["r", "n"])],
                    [constant("w", rng.standard_normal((32, 32)).astype(np.float32) / 4),
                     constant("axes", np.array([1], np.int64))])


def test_a_loop_of_a_limit_given_at_run_time():
    rng = np.random.default_rng(2)
    feeds = [{"x": rng.standard_normal((n, 32)).astype(np.float32), "limit": np.array(limit, np.int64)}
             for n, limit in ((1, 3), (4, 0), (4, 17), (2, 1))]
    agree(powers_model(), feeds)


def test_a_loop_with_branches_that_its_condition_ends():
    then = body_of([helper.make_node("Add", ["s", "two"], ["t"])], [], [value("t")], [constant("two", np.float32(2))])
    other = body_of([helper.make_node("Add", ["s", "s"], ["e"])], [], [value("e")])
    body = body_of([helper.make_node("Mod", ["i", "even"], ["m"]), helper.make_node("Cast", ["m"], ["odd"], to=BOOL),
                    helper.make_node("If", ["odd"], ["next"], then_branch=then, else_branch=other),
                    helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0),
                    helper.make_node("Less", ["sum", "bound"], ["more"])],
                   loop_inputs(value("s", FLOAT, ["n"])), [value("more", BOOL, []), value("next", FLOAT, ["n"])],
                   [constant("even", np.int64(2))])
    model = model_of([helper.make_node("Loop", ["", "going", "x"], ["y"], body=body)],
                     [value("x", FLOAT, ["n"]), value("bound", FLOAT, []), value("going", BOOL, [])],
                     [value("y", FLOAT, ["n"])])
    agree(model, [{"x": np.ones(n, np.float32), "bound": np.array(bound, np.float32), "going": np.array(going)}
                  for n, bound, going in ((3, 100, True), (1, 1e6, True), (5, 100, False))])


def test_a_carried_tensor_that_grows():
    body = body_of([helper.make_node("Concat", ["s", "x"], ["next"], axis=0),
                    helper.make_node("Identity", ["c"], ["more"])],
                   loop_inputs(value("s", FLOAT, None)), [value("more", BOOL, []), value("next", FLOAT, None)])
    model = model_of([helper.make_node("Loop", ["limit", "", "x"], ["y"], body=body),
                      helper.make_node("Exp", ["y"], ["z"])],
                     [value("x", FLOAT, ["n", 2]), value("limit", INT64, [])], [value("z", FLOAT, ["m", 2])])
    agree(model, [{"x": np.full((n, 2), 0.5, np.float32), "limit": np.array(limit, np.int64)}
                  for n, limit in ((1, 5), (3, 0), (2, 30))], computed=True)


def test_branches_of_other_shapes():
    then = body_of([helper.make_node("Concat", ["x", "x"], ["t"], axis=0)], [], [value("t")])
    other = body_of([helper.make_node("Neg", ["x"], ["e"])], [], [value("e")])
    model = model_of([helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
                      helper.make_node("Exp", ["y"], ["z"])],
                     [value("x", FLOAT, ["n", 2]), value("c", BOOL, [])], [value("z", FLOAT, ["m", 2])])
    agree(model, [{"x": np.full((3, 2), 0.5, np.float32), "c": np.array(c)} for c in (True, False)], computed=True)


def scan_model(axes, **attributes):
    """Running sums of two sequences along axes, one of them given back."""
    shapes = [[4, "t"] if axis else ["t", 4] for axis in axes]
    body = body_of([helper.make_node("Add", ["s", "a"], ["t"]), helper.make_node("Add", ["t", "b"], ["next"]),
                    helper.make_node("Mul", ["next", "a"], ["out"])],
                   [value("s", FLOAT, [4]), value("a", FLOAT, [4]), value("b", FLOAT, [4])],
                   [value("next", FLOAT, [4]), value("out", FLOAT, [4])])
    return model_of([helper.make_node("Scan", ["s0", "xs", "ys"], ["last", "all"], body=body, num_scan_inputs=2,
                                      **attributes)],
                    [value("s0", FLOAT, [4]), value("xs", FLOAT, shapes[0]), value("ys", FLOAT, shapes[1])],
                    [value("last", FLOAT, [4]), value("all", FLOAT, ["a", "b"])])


@pytest.mark.parametrize("attributes", [
    {}, {"scan_input_directions": [1, 0]}, {"scan_input_axes": [1, 0]}, {"scan_input_axes": [-1, -2]},
    {"scan_output_axes": [1]}, {"scan_output_axes": [-1], "scan_output_directions": [1]},
    {"scan_output_directions": [1]}])
def test_a_scan_of_all_axes_and_directions(attributes):
    rng = np.random.default_rng(3)
    axes = [a % 2 for a in attributes.get("scan_input_axes", [0, 0])]
    model = scan_model(axes, **attributes)
    feeds = []
    for length in (5, 1):
        feed = {"s0": rng.standard_normal(4).astype(np.float32)}
        for name, axis in zip(("xs", "ys"), axes):
            feed[name] = rng.standard_normal((4, length) if axis else (length, 4)).astype(np.float32)
        feeds.append(feed)
    agree(model, feeds, computed=False)


@pytest.mark.parametrize("lengths", [None, [5, 5, 5], [2, 5, 1]])
@pytest.mark.parametrize("directions", [[0, 0], [1, 0]])
def test_a_scan_of_opset_8_takes_each_sample_to_its_length(lengths, directions):
    body = body_of([helper.make_node("Add", ["s", "a"], ["t"]), helper.make_node("Mul", ["t", "scale"], ["next"]),
                    helper.make_node("Sub", ["next", "b"], ["out"])],
                   [value("s", FLOAT, [4]), value("a", FLOAT, [4]), value("b", FLOAT, [4])],
                   [value("next", FLOAT, [4]), value("out", FLOAT, [4])])
    scan = helper.make_node("Scan", ["" if lengths is None else "lengths", "s0", "xs", "ys"], ["last", "all"],
                            body=body, num_scan_inputs=2, directions=directions)
    inputs = [value("s0", FLOAT, ["n", 4]), value("xs", FLOAT, ["n", "t", 4]), value("ys", FLOAT, ["n", "t", 4]),
              value("scale", FLOAT, [1])] + ([value("lengths", INT64, ["n"])] if lengths else [])
    outputs = [value("last", FLOAT, ["n", 4]), value("all", FLOAT, ["n", "t", 4])]
    graph = helper.make_graph([scan], "test", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=4)
    rng = np.random.default_rng(9)
    feed = {name: rng.standard_normal(shape).astype(np.float32)
            for name, shape in {"s0": (3, 4), "xs": (3, 5, 4), "ys": (3, 5, 4), "scale": (1,)}.items()}
    if lengths:
        feed["lengths"] = np.array(lengths, np.int64)
    agree(model, [feed])


def test_an_lstm_as_a_scan_is_the_operator():
    rng = np.random.default_rng(4)
    hidden, features, batch = 24, 16, 3
    w = rng.standard_normal((1, 4 * hidden, features)).astype(np.float32) / 4
    r = rng.standard_normal((1, 4 * hidden, hidden)).astype(np.float32) / 4
    nodes = [helper.make_node("MatMul", ["x", "wt"], ["a"]), helper.make_node("MatMul", ["h", "rt"], ["b"]),
             helper.make_node("Add", ["a", "b"], ["g"]),
             helper.make_node("Split", ["g"], ["gi", "go", "gf", "gc"], axis=1, num_outputs=4),
             *[helper.make_node("Sigmoid", ["g" + k], [k]) for k in "iof"], helper.make_node("Tanh", ["gc"], ["n"]),
             helper.make_node("Mul", ["f", "c"], ["kept"]), helper.make_node("Mul", ["i", "n"], ["added"]),
             helper.make_node("Add", ["kept", "added"], ["c1"]), helper.make_node("Tanh", ["c1"], ["tc"]),
             helper.make_node("Mul", ["o", "tc"], ["h1"]), helper.make_node("Identity", ["h1"], ["y1"])]
    body = body_of(nodes, [value("h", FLOAT, [batch, hidden]), value("c", FLOAT, [batch, hidden]),
                           value("x", FLOAT, [batch, features])],
                   [value("h1", FLOAT, [batch, hidden]), value("c1", FLOAT, [batch, hidden]),
                    value("y1", FLOAT, [batch, hidden])])
    scan = model_of([helper.make_node("Scan", ["z", "z", "xs"], ["h", "c", "y"], body=body, num_scan_inputs=1)],
                    [value("xs", FLOAT, ["t", batch, features])], [value("y", FLOAT, ["t", batch, hidden])],
                    [constant("wt", w[0].T.copy()), constant("rt", r[0].T.copy()),
                     constant("z", np.zeros((batch, hidden), np.float32))])
    lstm = model_of([helper.make_node("LSTM", ["xs", "w", "r"], ["y4"], hidden_size=hidden),
                     helper.make_node("Squeeze", ["y4", "one"], ["y"])],
                    [value("xs", FLOAT, [7, batch, features])], [value("y", FLOAT, [7, batch, hidden])],
                    [constant("w", w), constant("r", r), constant("one", np.array([1], np.int64))])
    xs = rng.standard_normal((7, batch, features)).astype(np.float32)
    agree(scan, [{"xs": xs}, {"xs": xs[:1]}, {"xs": np.concatenate([xs] * 4)}], computed=False)
    np.testing.assert_allclose(graft.compile(scan, tune="off")(xs), graft.compile(lstm, tune="off")(xs), atol=1e-5)


def test_a_loop_is_the_same_from_its_plan(tmp_path):
    model = powers_model()
    engine = graft.compile(model, tune="off")
    engine.save(tmp_path / "loop.graft")
    feed = {"x": np.ones((2, 32), np.float32), "limit": np.array(6, np.int64)}
    again = graft.load(tmp_path / "loop.graft")
    for name, wanted in graft.Session(engine).run(feed).items():
        np.testing.assert_array_equal(graft.Session(again).run(feed)[name], wanted)


def test_an_endless_loop_ends_by_its_deadline():
    body = body_of([helper.make_node("Neg", ["s"], ["next"]), helper.make_node("Identity", ["c"], ["more"])],
                   loop_inputs(value("s", FLOAT, [2])), [value("more", BOOL, []), value("next", FLOAT, [2])])
    model = model_of([helper.make_node("Loop", ["", "", "x"], ["y"], body=body)], [value("x", FLOAT, [2])],
                     [value("y", FLOAT, [2])])
    session = graft.Session(graft.compile(model, tune="off"))
    session.set_deadline(0.1)
    started = time.monotonic()
    with pytest.raises(graft.CancelledError):
        session.run({"x": np.ones(2, np.float32)})
    assert time.monotonic() - started < 5


def nested_model(depth):
    """Branches in branches."""
    plain = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "plain", [], [value("e")])
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    for _ in range(depth):
        deep = helper.make_graph(nodes, "deep", [], [value("y")])
        nodes = [helper.make_node("If", ["c"], ["y"], then_branch=deep, else_branch=plain)]
    graph = helper.make_graph(nodes, "test", [value("x", FLOAT, [2]), value("c", BOOL, [])], [value("y", FLOAT, [2])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_branches_in_branches():
    agree(nested_model(6), [{"x": np.ones(2, np.float32), "c": np.array(c)} for c in (True, False)])


def test_graphs_nested_too_deeply_are_refused():
    with pytest.raises(graft.UnsupportedError, match="nested more than 16 deep"):
        graft.compile(nested_model(20).SerializeToString(), tune="off")


def field(number, payload):
    """A field of a message as its bytes."""
    length, size = len(payload), b""
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + payload


def test_graphs_nested_a_thousand_deep_are_refused():
    graph = b""
    for level in range(1000):
        attribute = field(1, b"then_branch") + field(6, graph)
        graph = field(1, field(3, f"branch {level}".encode()) + field(4, b"If") + field(5, attribute))
    with pytest.raises(graft.UnsupportedError, match=r"node 'branch 982' \(If\).*nested more than 16 deep"):
        graft.compile(b"\x08\x08" + field(7, graph) + field(8, b"\x10\x12"), tune="off")
