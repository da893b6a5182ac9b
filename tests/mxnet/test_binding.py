# SPDX-License-Identifier: Apache-2.0
"""MXNET_USE_GRAFT: engines in what is bound, without another line in the script."""

import logging

import mxnet as mx
import numpy as np
import pytest
from conftest import FAST, close, image, in_fresh_process, operators, parameters, run

import graft.mxnet

ENGINE = "_graft_engine"
VARIABLES = ("MXNET_USE_GRAFT", "MXNet_USE_TENSORRT", "MXNET_USE_TENSORRT")


@pytest.fixture(autouse=True)
def fixture_environment(monkeypatch):
    """None of the variables, before and after."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(graft.mxnet.binding, "_options", dict(FAST))


def bound(symbol, args, aux, **choices):
    """An executor by simple_bind, as for inference."""
    weights = {name: value for name, value in {**args, **aux}.items() if name not in ("data", "softmax_label")}
    return symbol.simple_bind(mx.cpu(), data=(2, 3, 8, 8), softmax_label=(2,),
                              **{"grad_req": "null", "shared_buffer": weights, **choices})


def engines(executor):
    """How many it runs."""
    return operators(graft.mxnet.get_optimized_symbol(executor)).count(ENGINE)


def result(executor, batch=2):
    """Of one run."""
    executor.arg_dict["data"][:] = image(batch)
    executor.forward(is_train=False)
    return executor.outputs[0].asnumpy()


def expected_of(symbol, args, aux):
    """What MXNet computes."""
    return run(symbol, args, aux, data=image(2), softmax_label=np.zeros(2))[0]


# The script of the proposal (MXNet-TensorRT runtime integration), with another device and checkpoint, its stray comma
# taken out, and `import graft.mxnet`.
PROPOSAL = """
import os, sys
import mxnet as mx, numpy as np
import graft.mxnet

os.environ["MXNet_USE_TENSORRT"] = "1"
model_name, num_epochs, batch_size, data_shape = sys.argv[1], 0, 2, (2, 3, 8, 8)
my_data_batch = np.load(sys.argv[1] + ".npy")

def merge_dicts(*dict_args):
   \"""Merge several dictionaries into one\"""
   result = {}
   for dictionary in dict_args:
       result.update(dictionary)
   return result

device = mx.cpu(0)
sym, arg_params, aux_params = mx.model.load_checkpoint(model_name, num_epochs)
executor = sym.simple_bind(ctx=device,
   data=data_shape,
   softmax_label=(batch_size,),
   shared_buffer=merge_dicts(arg_params, aux_params),
   grad_req='null',
   force_rebind=True)

executor.arg_dict["data"][:] = my_data_batch
executor.forward(is_train=False)
predictions = executor.outputs[0].asnumpy()

np.save(sys.argv[1] + "-result.npy", predictions)
print(graft.mxnet.get_optimized_symbol(executor).tojson().count('"op": "_graft_engine"'))
"""


def test_the_script_of_the_proposal_runs_engines(split, tmp_path):
    symbol, args, aux = split
    prefix = str(tmp_path / "net")
    weights = {name: value for name, value in args.items() if name not in ("data", "softmax_label")}
    mx.model.save_checkpoint(prefix, 0, symbol, weights, aux)
    np.save(prefix + ".npy", image(2))
    assert int(in_fresh_process(PROPOSAL, prefix)) == 2
    close(np.load(prefix + "-result.npy"), expected_of(*split))


@pytest.mark.parametrize("name", VARIABLES)
def test_each_bind_reads_the_variable_anew(split, monkeypatch, name):
    expected = expected_of(*split)
    for value, count in (("1", 2), ("0", 0), ("true", 2), ("", 0)):
        monkeypatch.setenv(name, value)
        executor = bound(*split)
        assert engines(executor) == count, value
        if count:
            close(result(executor), expected)


def test_the_new_name_goes_before_the_old_ones(split, monkeypatch):
    monkeypatch.setenv("MXNET_USE_TENSORRT", "1")
    monkeypatch.setenv("MXNET_USE_GRAFT", "0")
    assert engines(bound(*split)) == 0


def test_a_value_that_is_neither_is_an_error_that_names_the_variable(split, monkeypatch):
    monkeypatch.setenv("MXNET_USE_GRAFT", "perhaps")
    with pytest.raises(ValueError, match="MXNET_USE_GRAFT is 'perhaps': set it to 0 or 1"):
        bound(*split)


PLAIN = """
import sys
{first}
import mxnet as mx, numpy as np
symbol, args, aux = mx.model.load_checkpoint(sys.argv[1], 0)
executor = symbol.simple_bind(mx.cpu(), data=(2, 3, 8, 8), grad_req="null", shared_buffer={{**args, **aux}})
executor.arg_dict["data"][:] = np.load(sys.argv[1] + ".npy")
result = executor.forward(is_train=False)[0].asnumpy()
print(executor._symbol.tojson(), executor.debug_str(), executor.output_dict.keys(), result.tobytes().hex())
"""


def test_without_the_variable_a_bind_is_what_it_is_without_graft_byte_for_byte(split, tmp_path):
    symbol, args, aux = split
    prefix = str(tmp_path / "net")
    weights = {name: value for name, value in args.items() if name not in ("data", "softmax_label")}
    mx.model.save_checkpoint(prefix, 0, symbol, weights, aux)
    np.save(prefix + ".npy", image(2))
    plain = in_fresh_process(PLAIN.format(first=""), prefix)
    assert in_fresh_process(PLAIN.format(first="import graft.mxnet"), prefix) == plain
    assert "Convolution" in plain


def test_a_training_bind_stays_plain_and_gives_gradients(split, monkeypatch, caplog):
    monkeypatch.setenv("MXNET_USE_GRAFT", "1")
    caplog.set_level(logging.INFO, "graft")
    executor = bound(*split, grad_req={"conv0_weight": "write"})
    assert engines(executor) == 0 and "it asks for gradients" in caplog.text
    executor.arg_dict["data"][:] = image(2)
    executor.forward(is_train=True)
    executor.backward()
    assert np.abs(executor.grad_dict["conv0_weight"].asnumpy()).max() > 0
    symbol, args, aux = split
    gradients = {"conv0_weight": mx.nd.zeros(args["conv0_weight"].shape)}
    assert engines(symbol.bind(mx.cpu(), args, gradients, "write", aux)) == 0


def test_bind_with_arrays_runs_engines_on_the_callers_data(split, monkeypatch):
    symbol, args, aux = split
    expected = expected_of(*split)
    monkeypatch.setenv("MXNET_USE_GRAFT", "1")
    data = mx.nd.zeros((2, 3, 8, 8))
    executors = [
        symbol.bind(mx.cpu(), {**args, "data": data}, aux_states=aux),
        symbol.bind(mx.cpu(), [data if name == "data" else args[name] for name in symbol.list_arguments()],
                    aux_states=[aux[name] for name in symbol.list_auxiliary_states()], grad_req="null")]
    data[:] = image(2)
    for executor in executors:
        assert engines(executor) == 2
        close(executor.forward(is_train=False)[0].asnumpy(), expected)


def test_a_bind_without_weights_stays_plain_and_says_what_to_do(split, monkeypatch, caplog):
    monkeypatch.setenv("MXNET_USE_GRAFT", "1")
    caplog.set_level(logging.INFO, "graft")
    executor = split[0].simple_bind(mx.cpu(), data=(2, 3, 8, 8), grad_req="null")
    assert "hand them in by shared_buffer, or call optimize_for before" in caplog.text
    assert engines(executor) == 0


def test_an_executor_with_engines_is_reshaped_to_other_batches(split, monkeypatch):
    symbol, args, aux = split
    monkeypatch.setenv("MXNET_USE_GRAFT", "1")
    executor = bound(*split)
    monkeypatch.delenv("MXNET_USE_GRAFT")
    for batch in (5, 1):
        executor = executor.reshape(partial_shaping=True, allow_up_sizing=True, data=(batch, 3, 8, 8))
        close(result(executor, batch), run(symbol, args, aux, data=image(batch), softmax_label=np.zeros(batch))[0])


def test_a_module_predicts_what_an_iterator_feeds(split):
    symbol, args, aux = split
    weights = {name: value for name, value in args.items() if name not in ("data", "softmax_label")}
    states = dict(aux)
    made = symbol.optimize_for("graft", weights, states, shape_dict={"data": (2, 3, 8, 8)}, **FAST)
    module = mx.mod.Module(made, context=mx.cpu())
    fed = mx.io.NDArrayIter(image(6), np.zeros(6), batch_size=2)
    module.bind(fed.provide_data, fed.provide_label, for_training=False)
    module.set_params(weights, states)
    close(module.predict(fed).asnumpy(), run(symbol, args, aux, data=image(6), softmax_label=np.zeros(6))[0])


def test_a_missing_weight_is_named(split, monkeypatch):
    monkeypatch.setenv("MXNET_USE_GRAFT", "1")
    symbol, args, aux = split
    del args["conv1_weight"]
    with pytest.raises(mx.MXNetError, match="'conv1_weight' has no array"):
        bound(symbol, args, aux)


def test_what_the_caller_handed_in_stays_as_it_is(split, monkeypatch):
    monkeypatch.setenv("MXNET_USE_GRAFT", "1")
    symbol, args, aux = split
    buffer = {**{name: args[name] for name in args if name.startswith(("conv", "norm", "dense"))}, **aux}
    before = dict(buffer)
    bound(symbol, args, aux, shared_buffer=buffer)
    assert buffer == before


def test_options_of_binds_are_those_of_optimize_for(split):
    graft.mxnet.set_use_graft(True, **FAST, exclude="conv1", minimum_size=1)
    assert graft.mxnet.get_use_graft()
    kept = operators(graft.mxnet.get_optimized_symbol(bound(*split)))
    assert "Convolution" in kept and ENGINE in kept
    graft.mxnet.set_use_graft(True, exlude="conv1")
    with pytest.raises(mx.MXNetError, match="no option 'exlude'"):
        bound(*split)
    graft.mxnet.set_use_graft(False, **FAST)
    assert not graft.mxnet.get_use_graft() and engines(bound(*split)) == 0


def test_graft_bind_needs_no_variable(split):
    symbol, args, aux = split
    weights = {name: value for name, value in {**args, **aux}.items() if name not in ("data", "softmax_label")}
    executor = graft.mxnet.graft_bind(symbol, mx.cpu(), weights, data=(2, 3, 8, 8), softmax_label=(2,))
    assert engines(executor) == 2
    close(result(executor), expected_of(*split))


def test_statistics_that_mxnet_keeps_come_from_the_buffer(split):
    graft.mxnet.set_use_graft(True, **FAST, exclude_ops=["BatchNorm"])
    executor = bound(*split)
    graft.mxnet.set_use_graft(False)
    assert "BatchNorm" in operators(graft.mxnet.get_optimized_symbol(executor))
    close(result(executor), expected_of(*split))


def test_a_weight_that_mxnet_reads_comes_from_the_buffer(monkeypatch):
    symbol = mx.sym.broadcast_mul(mx.sym.relu(mx.sym.var("data")), mx.sym.gammaln(mx.sym.var("offset")))
    args, _ = parameters(symbol, data=(2, 3), offset=(1, 3))
    args["offset"] = args["offset"] + 3
    expected = run(symbol, args, {}, data=np.full((2, 3), 0.5))[0]
    monkeypatch.setenv("MXNET_USE_GRAFT", "1")
    executor = symbol.simple_bind(mx.cpu(), data=(2, 3), grad_req="null", shared_buffer={"offset": args["offset"]})
    executor.arg_dict["data"][:] = 0.5
    assert engines(executor) > 0 and "gammaln" in operators(graft.mxnet.get_optimized_symbol(executor))
    close(executor.forward()[0].asnumpy(), expected)


RESIDENT = """
import gc, os, sys
import mxnet as mx, numpy as np
import graft.mxnet

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

S = mx.sym
x = S.FullyConnected(S.var("data"), num_hidden=3072, name="large")
symbol = S.FullyConnected(x, num_hidden=4, name="small")
weights = {"large_weight": mx.nd.random.uniform(-1, 1, (3072, 3072)), "large_bias": mx.nd.zeros(3072),
           "small_weight": mx.nd.random.uniform(-1, 1, (4, 3072)), "small_bias": mx.nd.zeros(4)}
graft.mxnet.set_use_graft(True, tune="off")
executor = graft.mxnet.graft_bind(symbol, mx.cpu(), weights, data=(1, 3072))
executor.forward(is_train=False)[0].wait_to_read()
before = resident()
del weights
after = resident()
print(before - after)
executor.arg_dict["data"][:] = 1
executor.forward(is_train=False)[0].wait_to_read()
"""


def test_weights_that_the_caller_frees_after_bind_really_go():
    assert int(in_fresh_process(RESIDENT)) > 0.95 * 3072 * 3072 * 4
