# SPDX-License-Identifier: Apache-2.0
"""Control flow (_foreach, _while_loop, _cond): a part of engines, with the graphs that the operators have; and as whole
models without MXNet."""

import mxnet as mx
import numpy as np
import pytest
from conftest import FAST, agrees, close, operators, parameters, run

import graft.mxnet

S = mx.sym
ENGINE = "_graft_engine"


def values(seed, *shape):
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype(np.float32)


def running_sums():
    """Rows of data, through a layer, with a state that every row changes."""
    weight = S.var("w_weight", shape=(4, 5))

    def step(row, state):
        state = S.tanh(S.FullyConnected(row, weight=weight, num_hidden=4, no_bias=True, name="layer")) + state * 0.5
        return state * 2, state
    out, last = S.contrib.foreach(step, S.var("data"), S.var("data_state"))
    return S.Group([out + 1, last * 3])


def of_two():
    """Two sequences and two states; a value from outside; results that a round hands through."""
    scale = S.exp(S.var("data_scale"))

    def step(rows, states):
        total = rows[0] * scale + states[0]
        return [total, states[1]], [total, rows[1] - states[1]]
    outs, last = S.contrib.foreach(step, [S.var("data"), S.var("data1")], [S.var("data_a"), S.var("data_b")])
    return S.Group([*outs, *last])


def nested():
    """Rows, and the elements of each row."""
    def inner(element, state):
        return element * state, state + element

    def outer(row, state):
        out, last = S.contrib.foreach(inner, row, state)
        return out, last * 0.5
    out, last = S.contrib.foreach(outer, S.var("data"), S.var("data_state"))
    return S.Group([out, last])


def choosing():
    """One of two branches, by a sum."""
    data, other = S.var("data"), S.var("data1")
    return S.contrib.cond(S.sum(data) > 0, lambda: S.exp(data) + other, lambda: data * other - 2) * 2


def until():
    """Rounds until a sum is large, each of which gives what it has."""
    outputs, last = S.contrib.while_loop(
        cond=lambda i, total: total < 10, func=lambda i, total: ([total * 2], [i + 1, total + i]),
        loop_vars=[S.var("data"), S.var("data_total")], max_iterations=8)
    return S.Group([outputs[0], *last])


def rounds_in_a_branch():
    """Rounds that one of two branches runs."""
    data, state = S.var("data"), S.var("data_state")

    def rounds():
        out, last = S.contrib.while_loop(cond=lambda i, y: i < 3, func=lambda i, y: (y * state, [i + 1, y + 1]),
                                         loop_vars=[S.zeros((1,)), data], max_iterations=3)
        return S.sum(out[0], axis=0) + last[1]
    return S.contrib.cond(S.sum(data) > 0, rounds, lambda: data - state) + 1


CASES = {  # shapes of the data, at two lengths
    "running_sums": (running_sums, {"data": (3, 2, 5), "data_state": (2, 4)}, {"data": (7, 2, 5)}),
    "of_two": (of_two, {"data": (3, 4), "data1": (3, 4), "data_scale": (4,), "data_a": (4,), "data_b": (4,)},
               {"data": (9, 4), "data1": (9, 4)}),
    "choosing": (choosing, {"data": (3, 4), "data1": (3, 4)}, {"data": (8, 4), "data1": (8, 4)}),
    "rounds_in_a_branch": (rounds_in_a_branch, {"data": (3, 4), "data_state": (3, 4)},
                           {"data": (6, 4), "data_state": (6, 4)}),
    "until": (until, {"data": (1,), "data_total": (1,)}, {}),
    "nested": (nested, {"data": (3, 4, 2), "data_state": (2,)}, {"data": (5, 4, 2)}),
}
INFERRED = ["running_sums", "of_two", "nested"]  # by MXNet itself, before they are bound


def made_up(name, **shapes):
    """(symbol, args, aux) of a case."""
    symbol = CASES[name][0]()
    if name in INFERRED:
        return (symbol, *parameters(symbol, **shapes))
    return symbol, {each: mx.nd.ones(shape) for each, shape in shapes.items()}, {}


def defined(name, result):
    """Without the rows of rounds that were not run, which MXNet leaves undefined."""
    return np.asarray(result)[:1] if name == "until" else np.asarray(result)


def grafted(symbol, args, aux, **choices):
    args, aux = dict(args), dict(aux)
    names = [name for name in symbol.list_arguments() if name.startswith("data")]
    choices = {**FAST, "strict": True, "data_names": names, **choices}
    return symbol.optimize_for("graft", args, aux, **choices), args, aux


@pytest.mark.parametrize("name", CASES)
def test_it_is_part_of_an_engine_and_agrees_at_other_lengths(name):
    _, shapes, longer = CASES[name]
    symbol, args, aux = made_up(name, **shapes)
    made = grafted(symbol, args, aux, minimum_size=1, batch="fixed")
    assert operators(made[0]) == [ENGINE], graft.mxnet.report()
    for seed in (1, 2):  # of which one takes each branch
        data = {each: values(seed, *shape) + (0.3 if seed == 1 else -0.3) for each, shape in shapes.items()}
        for result, wanted in zip(run(*made, **data), run(symbol, args, aux, **data), strict=True):
            close(defined(name, result), defined(name, wanted))
    changed = {**shapes, **longer}
    weights = {each: array for each, array in args.items() if each not in shapes}
    args = {**made_up(name, **changed)[1], **weights}
    made = grafted(symbol, args, aux, minimum_size=1)
    assert operators(made[0]) == [ENGINE], graft.mxnet.report()
    data = {each: values(3, *shape) for each, shape in changed.items()}
    for result, wanted in zip(run(*made, **data), run(symbol, args, aux, **data), strict=True):
        close(defined(name, result), defined(name, wanted))


def growing():
    """A round doubles its variable."""
    _, last = S.contrib.while_loop(cond=lambda i, x: i < 3, func=lambda i, x: ([], [i + 1, S.concat(x, x, dim=0)]),
                                   loop_vars=[S.var("data"), S.var("data1")], max_iterations=4)
    return S.Group([last[0] + 1, last[1] * 2])


def uneven():
    """Branches of other shapes."""
    data = S.var("data")
    return S.contrib.cond(S.sum(data) > 0, lambda: S.concat(data, data, dim=0), lambda: data + 1) * 2


@pytest.mark.parametrize("build, shapes, words", [
    (growing, {"data": (1,), "data1": (2, 3)}, "a round of '_while_loop.*' changes the shape of its variable 1"),
    (uneven, {"data": (2, 3)}, "result 0 of '_cond.*' has another shape in each branch")])
def test_shapes_that_are_known_only_while_running_are_an_error_that_says_why(build, shapes, words):
    args = {each: mx.nd.ones(shape) for each, shape in shapes.items()}
    with pytest.raises(mx.MXNetError, match=f"MXNet infers no shapes of .*{words}: `graft compile` takes such a "):
        grafted(build(), args, {})


def test_behind_a_branch_that_no_engine_does_all_stays_since_mxnet_knows_no_shapes_there():
    data, other = S.var("data") * 2, S.var("data1") * 3
    chosen = S.contrib.cond(S.sum(data) > 0, lambda: S.gammaln(data + 3), lambda: data * 3)
    symbol = S.Group([chosen * 2, S.tanh(other)])
    args = {"data": mx.nd.ones((3, 4)), "data1": mx.nd.ones((3, 4))}
    made = grafted(symbol, args, {}, minimum_size=1)
    assert [each for each in operators(made[0]) if each != ENGINE] == ["_cond", "_mul_scalar"]
    report = graft.mxnet.report()
    assert "its function '1' has gammaln" in report
    assert "MXNet knows the shape of what it reads only while running: it is behind '_cond" in report
    for sign in (1, -1):
        agrees(symbol, args, {}, made, data=sign * np.abs(values(1, 3, 4)), data1=values(2, 3, 4))


@pytest.mark.parametrize("name", CASES)
def test_a_symbol_compiles_whole(name, tmp_path):
    shapes = CASES[name][1]
    symbol, args, aux = made_up(name, **shapes)
    weights = {each: array for each, array in args.items() if each not in shapes}
    mx.model.save_checkpoint(str(tmp_path / "net"), 0, symbol, weights, aux)
    engine = graft.compile(str(tmp_path / "net-symbol.json"), shapes=shapes, **FAST)
    for seed in (1, 2):
        data = {each: values(seed, *shape) + (0.3 if seed == 1 else -0.3) for each, shape in shapes.items()}
        results = engine.run(data)
        for result, wanted in zip(results.values() if isinstance(results, dict) else results,
                                  run(symbol, args, aux, **data), strict=True):
            close(defined(name, result), defined(name, wanted))


def test_a_loop_with_what_no_engine_does_stays_with_mxnet_and_the_report_says_why():
    out, _ = S.contrib.foreach(lambda row, state: (S.gammaln(row + 2) + state, state), S.var("data") * 2,
                               S.var("data_state"))
    symbol = out * 2
    args, aux = parameters(symbol, data=(3, 4), data_state=(4,))
    made = grafted(symbol, args, aux, minimum_size=1)
    assert operators(made[0]) == [ENGINE, "_foreach", ENGINE]
    assert "its function '0' has gammaln" in graft.mxnet.report()
    agrees(symbol, args, aux, made, data=values(1, 3, 4), data_state=values(2, 4))


class Accumulating(mx.gluon.HybridBlock):
    """An LSTM cell of gluon, unrolled by a loop."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.cell = mx.gluon.rnn.LSTMCell(6, input_size=5)
            self.head = mx.gluon.nn.Dense(3, in_units=6, flatten=False)

    def hybrid_forward(self, F, x, h, c):
        out, _ = F.contrib.foreach(self.cell, x, [h, c])
        return self.head(out)


def test_a_block_of_gluon_with_a_loop_runs_as_one_engine():
    net = Accumulating()
    net.initialize(mx.init.Uniform(0.4))
    data = [mx.nd.array(values(k, *shape)) for k, shape in enumerate([(4, 2, 5), (2, 6), (2, 6)])]
    expected = net(*data).asnumpy()
    net.optimize_for(*data, backend="graft", clear=True, minimum_size=1, **FAST)
    close(net(*data).asnumpy(), expected)
    assert "_foreach" in graft.mxnet.report().partition("stay")[0], "it is in the segment, not what stays"
