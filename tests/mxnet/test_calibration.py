# SPDX-License-Identifier: Apache-2.0
"""int8 inside MXNet: by iterators, at bind, and for Gluon blocks, on a network that is trained here on digits."""

import json
import pathlib
import sys

import mxnet as mx
import numpy as np
import pytest
from conftest import FAST, operators, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import digits  # noqa: E402

import graft  # noqa: E402
import graft.mxnet  # noqa: E402

ENGINE = "_graft_engine"
MOST_LOST = 0.5  # points of accuracy
(TRAINED, TRAINED_DIGITS), (TESTED, TESTED_DIGITS) = digits.load()
TRAINED, TESTED = TRAINED[:, None].copy(), TESTED[:, None].copy()
INT8 = {"precision": "int8", **FAST}


def symbol_of(odd=False):
    """Convolutions on pictures of digits; between them an operator that no engine has if `odd`."""
    x = mx.sym.var("data")
    x = mx.sym.Convolution(x, num_filter=16, kernel=(3, 3), pad=(1, 1), name="first")
    x = mx.sym.Activation(mx.sym.BatchNorm(x, fix_gamma=False, name="norm"), act_type="relu")
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    if odd:
        x = mx.sym.gammaln(x + 1.5, name="odd")
    x = mx.sym.Convolution(x, num_filter=32, kernel=(3, 3), pad=(1, 1), name="second")
    x = mx.sym.Pooling(mx.sym.Activation(x, act_type="relu"), kernel=(2, 2), stride=(2, 2), pool_type="max")
    x = mx.sym.FullyConnected(x, num_hidden=10, name="head")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def trained(symbol):
    """(symbol, args, aux) of a network that knows the digits: the same one in every run."""
    mx.random.seed(0)
    np.random.seed(0)
    data = mx.io.NDArrayIter(TRAINED, TRAINED_DIGITS, 50, shuffle=True)
    module = mx.mod.Module(symbol)
    module.fit(data, num_epoch=8, optimizer="adam", optimizer_params={"learning_rate": 3e-3},
               initializer=mx.init.Xavier())
    return (symbol, *map(dict, module.get_params()))


@pytest.fixture(scope="module", name="network")
def fixture_network():
    return trained(symbol_of())


@pytest.fixture(scope="module", name="divided")
def fixture_divided():
    return trained(symbol_of(odd=True))


@pytest.fixture(name="iterator")
def fixture_iterator():
    return mx.io.NDArrayIter(TRAINED[:217], TRAINED_DIGITS[:217], 50, last_batch_handle="discard")


@pytest.fixture(autouse=True)
def fixture_fallbacks(monkeypatch):
    for name in ("MXNET_USE_GRAFT", "MXNet_USE_TENSORRT", "MXNET_USE_TENSORRT"):
        monkeypatch.delenv(name, raising=False)
    before = graft.mxnet.fallback_count()
    yield
    assert graft.mxnet.fallback_count() == before


def scores_of(symbol, args, aux, pictures=TESTED):
    return run(symbol, args, aux, data=pictures, softmax_label=np.zeros(len(pictures)))[0]


def optimized(network, **options):
    """(symbol, args, aux) with engines; the network's own dictionaries stay."""
    symbol, args, aux = network
    args, aux = {**args, "data": mx.nd.array(TESTED[:8]), "softmax_label": mx.nd.zeros(8)}, dict(aux)
    made = symbol.optimize_for("graft", args, aux, **{**INT8, **options})
    return made, {name: array for name, array in args.items() if name not in ("data", "softmax_label")}, aux


def check_int8(network, made):
    """It computes in 8 bits, which cost nearly nothing."""
    expected, result = scores_of(*network), scores_of(*made)
    assert not np.allclose(result, expected, rtol=1e-5, atol=1e-5)
    right = digits.right(expected, TESTED_DIGITS)
    assert right > 93 and digits.right(result, TESTED_DIGITS) >= right - MOST_LOST


def test_a_symbol_is_calibrated_by_an_iterator(network, iterator):
    before = {name: array.asnumpy() for name, array in network[1].items()}
    made = optimized(network, calibration=iterator)
    assert operators(made[0]).count(ENGINE) == 1 and "calibration" not in made[0].tojson()
    assert "is of int8" in graft.mxnet.report() and "3 of 3 layers are int8" in graft.mxnet.report()
    check_int8(network, made)
    assert all(np.array_equal(array.asnumpy(), before[name]) for name, array in network[1].items())


@pytest.mark.parametrize("samples", [
    [TRAINED[:50], TRAINED[50:117]],
    [(mx.nd.array(TRAINED[:50]), mx.nd.array(TRAINED_DIGITS[:50]))],
    [{"data": TRAINED[:64]}],
    lambda: iter([TRAINED[:64]]),
    TRAINED[:64],
], ids=["arrays", "labels", "dictionaries", "function", "array"])
def test_other_samples(network, samples):
    check_int8(network, optimized(network, calibration=samples))


def test_engines_around_other_operators_are_calibrated_together(divided, iterator):
    made = optimized(divided, calibration=iterator)
    assert operators(made[0]).count(ENGINE) == 2 and graft.mxnet.report().count("is of int8") == 2
    check_int8(divided, made)


def test_a_checkpoint_keeps_int8(network, iterator, tmp_path):
    made = optimized(network, calibration=iterator)
    mx.model.save_checkpoint(str(tmp_path / "net"), 0, *made)
    np.testing.assert_array_equal(scores_of(*mx.model.load_checkpoint(str(tmp_path / "net"), 0)), scores_of(*made))


def test_a_calibration_file(network, iterator, tmp_path):
    file = str(tmp_path / "ranges.json")
    first = optimized(network, calibration=iterator, calibration_file=file, method="entropy")
    assert json.loads((tmp_path / "ranges.json").read_text())["method"] == "entropy"
    second = optimized(network, calibration_file=file)
    np.testing.assert_array_equal(scores_of(*second), scores_of(*first))


def test_runs_calibrate_at_bind(network, monkeypatch):
    symbol, args, aux = network
    monkeypatch.setenv("MXNET_USE_GRAFT", "1")
    monkeypatch.setattr(graft.mxnet.binding, "_options", {**INT8, "calibration_iters": 3})
    executor = symbol.simple_bind(mx.cpu(), data=(50, 1, 8, 8), softmax_label=(50,), grad_req="null",
                                  shared_buffer={**args, **aux})
    results, plain = [], []
    for first in (0, 50, 100, 0):
        pictures = TRAINED[first:first + 50]
        executor.arg_dict["data"][:] = pictures
        results.append(executor.forward(is_train=False)[0].asnumpy())
        plain.append(scores_of(symbol, args, aux, pictures))
    for result, expected in zip(results[:3], plain):  # engines of fp32 serve while they learn
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(results[3], plain[3], rtol=1e-4, atol=1e-5)
    assert (results[3].argmax(1) == plain[3].argmax(1)).mean() >= 0.98


def test_a_module_is_calibrated_by_its_runs(network, monkeypatch):
    symbol, args, aux = network
    monkeypatch.setenv("MXNET_USE_GRAFT", "1")
    monkeypatch.setattr(graft.mxnet.binding, "_options", {**INT8, "calibration_iters": 2})
    module = mx.mod.Module(symbol)
    module.bind([("data", (50, 1, 8, 8))], [("softmax_label", (50,))], for_training=False)
    module.set_params(args, aux)
    tested = mx.io.NDArrayIter(TESTED, TESTED_DIGITS, 50)
    for _ in range(2):
        result = module.predict(tested).asnumpy()
    expected = scores_of(symbol, args, aux)
    assert not np.allclose(result, expected, rtol=1e-4, atol=1e-5)
    right = digits.right(expected, TESTED_DIGITS)
    assert digits.right(result, TESTED_DIGITS) >= right - MOST_LOST


def test_a_gluon_block(network, iterator):
    symbol, args, aux = network
    net = mx.gluon.SymbolBlock(symbol.get_internals()["head_output"], [mx.sym.var("data")])
    for name, parameter in net.collect_params().items():
        parameter.shape = {**args, **aux}[name].shape
        parameter.initialize()
        parameter.set_data({**args, **aux}[name])
    expected = net(mx.nd.array(TESTED)).asnumpy()
    net.optimize_for(mx.nd.array(TESTED[:8]), backend="graft", calibration=iterator, **INT8)
    result = net(mx.nd.array(TESTED)).asnumpy()
    assert not np.allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert digits.right(result, TESTED_DIGITS) >= digits.right(expected, TESTED_DIGITS) - MOST_LOST


def failing():
    """Samples that stop with an exception."""
    yield TRAINED[:8]
    raise OSError("the disk is gone")


@pytest.mark.parametrize("samples, reason", [
    ([], "nothing has run yet"),
    ([np.zeros((4, 1, 9, 8), np.float32)], "batch 0 of calibration does not fit"),
    ([{"picture": TRAINED[:8]}], "batch 0 of calibration has no 'data'"),
    ([[["a"]]], "'data' of batch 0 of calibration is no array"),
    ([TRAINED[:8] * np.nan], "are NaN or infinite"),
    (7, "calibration is a int"),
])
def test_bad_samples(network, samples, reason):
    symbol, args, aux = network
    mine, states = {**args, "data": mx.nd.array(TESTED[:8]), "softmax_label": mx.nd.zeros(8)}, dict(aux)
    with pytest.raises((graft.InvalidArgumentError, mx.MXNetError), match=reason):
        symbol.optimize_for("graft", mine, states, calibration=samples, **INT8)
    assert set(mine) == {*args, "data", "softmax_label"}


def test_samples_that_end_with_an_exception(network):
    with pytest.raises(OSError, match="the disk is gone"):
        optimized(network, calibration=failing)


def test_int8_without_samples_says_what_to_do(network):
    with pytest.raises(mx.MXNetError, match="give samples of the inputs to calibrate with"):
        optimized(network)
    with pytest.raises(graft.InvalidArgumentError, match="calibration is a choice of precision='int8'"):
        optimized(network, precision="fp32", calibration=[TRAINED[:8]])


def test_nothing_to_quantise():
    symbol = mx.sym.Activation(mx.sym.var("data") * 2, act_type="relu")
    with pytest.raises(mx.MXNetError, match="no Conv, MatMul or Gemm"):
        symbol.optimize_for("graft", {"data": mx.nd.zeros((2, 4))}, {}, calibration=[np.zeros((2, 4), np.float32)],
                            **INT8)
