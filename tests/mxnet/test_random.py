# SPDX-License-Identifier: Apache-2.0
"""Random numbers: MXNet's own inside MXNet, Graft's where a symbol is compiled whole."""

import mxnet as mx
import numpy as np
import pytest
from conftest import FAST, operators

import graft
import graft.mxnet

S = mx.sym
COUNT = 40_000


def whole(tmp_path, symbol, **shapes):
    """An engine of the whole symbol."""
    symbol.save(str(tmp_path / "net-symbol.json"))
    return graft.compile(str(tmp_path / "net-symbol.json"), shapes=shapes, **FAST)


def drawn(engine, **feeds):
    """One result of a run."""
    return next(iter(engine.run(feeds).values()))


@pytest.mark.parametrize(("symbol", "mean", "deviation", "dtype"), [
    (S.random.uniform(-1, 3, shape=(COUNT,)), 1, 4 / 12 ** 0.5, np.float32),
    (S.random.normal(2, 0.5, shape=(4, COUNT // 4), dtype="float16"), 2, 0.5, np.float16),
    (S.random.normal_like(S.var("x"), loc=-3, scale=2), -3, 2, np.float32),
    (S.random.uniform_like(S.var("x"), low=0, high=6), 3, 3 ** 0.5, np.float32)],
    ids=["uniform", "normal", "normal_like", "uniform_like"])
def test_engines_of_whole_symbols_draw_anew_what_the_symbol_describes(tmp_path, symbol, mean, deviation, dtype):
    feeds = {"x": np.zeros((COUNT // 8, 8), np.float32)} if symbol.list_arguments() else {}
    engine = whole(tmp_path, symbol, **{name: array.shape for name, array in feeds.items()})
    first, second = drawn(engine, **feeds), drawn(engine, **feeds)
    assert first.dtype == dtype and first.size == COUNT
    assert first.shape == symbol.infer_shape(**{name: array.shape for name, array in feeds.items()})[1][0]
    assert np.mean(first == second) < 0.05
    for each in (first.astype(np.float64), second.astype(np.float64)):
        assert abs(each.mean() - mean) < 5 * deviation / COUNT ** 0.5
        assert abs(each.std() - deviation) < 0.02 * deviation


@pytest.mark.parametrize("shape", [(), (COUNT,), (3, COUNT // 3)])
@pytest.mark.parametrize("given", [[0.1, 0.0, 0.6, 0.3], [[0.1, 0.0, 0.6, 0.3], [0.0, 1.0, 0.0, 0.0]]])
def test_classes_are_drawn_as_often_as_their_probabilities_say(tmp_path, given, shape):
    given = np.array(given, np.float32)
    symbol = S.sample_multinomial(S.var("p"), **({"shape": shape} if shape else {}))
    result = drawn(whole(tmp_path, symbol, p=given.shape), p=given)
    assert result.shape == symbol.infer_shape(p=given.shape)[1][0] and result.dtype == np.int32
    for row, chances in zip(result.reshape(-1, max(1, int(np.prod(shape)))), given.reshape(-1, 4)):
        shares = np.bincount(row, minlength=4) / len(row)
        assert not shares[chances == 0].any()
        assert len(row) == 1 or np.abs(shares - chances).max() < 0.02


def test_what_training_reads_and_open_shapes_are_refused(tmp_path):
    for symbol, words in ((S.sample_multinomial(S.var("p"), get_prob=True)[0], "what was drawn"),
                          (S.random.uniform(0, 1) + S.var("p"), "its uses have to tell")):
        with pytest.raises(graft.UnsupportedError, match=words):
            whole(tmp_path, symbol, p=(2, 3))


def test_inside_of_mxnet_its_own_seed_decides():
    x = S.var("data")
    symbol = S.relu(S.FullyConnected(x, num_hidden=3, name="fc")) + S.random.normal(0, 1, shape=(2, 3))
    args = {"fc_weight": mx.nd.ones((3, 4)), "fc_bias": mx.nd.zeros(3)}
    given = {**args, "data": mx.nd.ones((2, 4))}
    made_args = dict(given)
    made = symbol.optimize_for("graft", made_args, {}, **FAST)
    assert "_random_normal" in operators(made) and "_graft_engine" in operators(made)
    results = []
    for net, values in ((symbol, given), (made, {**made_args, "data": given["data"]})):
        mx.random.seed(11)
        executor = net.bind(mx.cpu(), {name: values[name] for name in net.list_arguments()}, grad_req="null")
        results.append(executor.forward(is_train=False)[0].asnumpy())
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-5)
