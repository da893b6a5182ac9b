# SPDX-License-Identifier: Apache-2.0
"""Modules under MXNET_USE_GRAFT: engines come with the weights."""

import mxnet as mx
import numpy as np
import pytest
from conftest import close, image, operators, run

import graft
import graft.mxnet

DATA, LABEL = [("data", (2, 3, 8, 8))], [("softmax_label", (2,))]


@pytest.fixture(name="asked", autouse=True)
def fixture_asked(monkeypatch):
    graft.mxnet.set_use_graft(False, tune="off")
    monkeypatch.setenv("MXNET_USE_GRAFT", "1")
    yield
    graft.mxnet.set_use_graft(False)
    monkeypatch.delenv("MXNET_USE_GRAFT")


def weights_of(args):
    return {name: value for name, value in args.items() if name not in ("data", "softmax_label")}


def engines(module):
    return operators(module.symbol).count("_graft_engine")


def predicted(module, batch=2):
    module.forward(mx.io.DataBatch([mx.nd.array(image(batch))], [mx.nd.zeros(batch)]), is_train=False)
    return module.get_outputs()[0].asnumpy()


def expected(split, batch=2):
    symbol, args, aux = split
    return run(symbol, args, aux, data=image(batch), softmax_label=np.zeros(batch))[0]


@pytest.fixture(name="plain")
def fixture_plain(split, monkeypatch):
    """What MXNet gives for batches of 2 and 5."""
    monkeypatch.setenv("MXNET_USE_GRAFT", "0")
    results = {batch: expected(split, batch) for batch in (2, 5)}
    monkeypatch.setenv("MXNET_USE_GRAFT", "1")
    return results


def test_a_module_for_inference_gets_engines_with_its_weights_for_any_batch(split, plain):
    module = mx.mod.Module(split[0], context=mx.cpu())
    module.bind(DATA, LABEL, for_training=False)
    assert engines(module) == 0
    module.set_params(weights_of(split[1]), split[2])
    assert engines(module) == 2
    assert module.output_names == ["softmax_output"], "results are called as without engines"
    assert sorted(module.get_params()[0]) == ["graft_engine0_plan", "graft_engine1_plan"]
    for batch in (2, 5, 2):
        close(predicted(module, batch), plain[batch])


def test_new_weights_make_new_engines(split, plain):
    symbol, args, aux = split
    module = mx.mod.Module(symbol, context=mx.cpu())
    module.bind(DATA, LABEL, for_training=False)
    module.set_params({name: value * 0.5 for name, value in weights_of(args).items()}, aux)
    assert float(np.abs(predicted(module) - plain[2]).max()) > 1e-3
    module.set_params(weights_of(args), aux)
    assert engines(module) == 2
    close(predicted(module), plain[2])
    with pytest.raises(graft.InvalidArgumentError, match="hand in all of them"):
        module.set_params({}, {}, allow_missing=True)


def test_a_checkpoint_that_a_module_loads_has_engines_when_it_is_bound(split, plain, tmp_path):
    symbol, args, aux = split
    mx.model.save_checkpoint(str(tmp_path / "net"), 0, symbol, weights_of(args), aux)
    module = mx.mod.Module.load(str(tmp_path / "net"), 0, context=mx.cpu())
    fed = mx.io.NDArrayIter(image(2), np.zeros(2), batch_size=2)
    module.bind(fed.provide_data, fed.provide_label, for_training=False)
    assert engines(module) == 2
    close(module.predict(fed).asnumpy(), plain[2])


def test_a_module_for_training_stays_plain(split):
    module = mx.mod.Module(split[0], context=mx.cpu())
    module.bind(DATA, LABEL)
    module.init_params(arg_params=weights_of(split[1]), aux_params=split[2])
    assert engines(module) == 0
    module.bind(DATA, LABEL, for_training=False, force_rebind=True)
    assert engines(module) == 2
    with pytest.raises(graft.InvalidArgumentError, match="make another Module for training"):
        module.bind(DATA, LABEL, for_training=True, force_rebind=True)


def test_without_the_variable_a_module_is_mxnets(split, plain, monkeypatch):
    monkeypatch.setenv("MXNET_USE_GRAFT", "0")
    module = mx.mod.Module(split[0], context=mx.cpu())
    module.bind(DATA, LABEL, for_training=False)
    module.set_params(weights_of(split[1]), split[2])
    assert module.symbol is split[0]
    close(predicted(module), plain[2])


def test_modules_that_share_arrays_stay_plain(split, plain):
    symbol, args, aux = split
    buckets = mx.mod.BucketingModule(lambda key: (symbol, ("data",), ("softmax_label",)), default_bucket_key=8,
                                     context=mx.cpu())
    buckets.bind(DATA, LABEL, for_training=False)
    buckets.set_params(weights_of(args), aux)
    buckets.switch_bucket(9, DATA, LABEL)
    buckets.forward(mx.io.DataBatch([mx.nd.array(image(2))], [mx.nd.zeros(2)], bucket_key=9, provide_data=DATA,
                                    provide_label=LABEL), is_train=False)
    close(buckets.get_outputs()[0].asnumpy(), plain[2])
    lender = mx.mod.Module(symbol, context=mx.cpu())
    lender.bind(DATA, LABEL, for_training=False)
    lender.set_params(weights_of(args), aux)
    with pytest.raises(graft.InvalidArgumentError, match="shared module are in engines"):
        mx.mod.Module(symbol, context=mx.cpu()).bind(DATA, LABEL, for_training=False, shared_module=lender)
