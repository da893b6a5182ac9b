# SPDX-License-Identifier: Apache-2.0
"""Symbols and parameters that MXNet saves, compiled without it: against what MXNet computes."""

import os
import pathlib
import subprocess

import mxnet as mx
import numpy as np
import pytest
from conftest import FAST, close, image, parameters, run, split_symbol
from mxnet.gluon.model_zoo import vision

import graft

S = mx.sym
COMMAND = pathlib.Path(os.environ["GRAFT_BUILD"]) / "bin" / "graft"


def saved(folder, symbol, args, aux):
    """The path of the symbol; its parameters stand beside it."""
    weights = {name: value for name, value in args.items() if name != "data" and not name.endswith("label")}
    mx.model.save_checkpoint(str(folder / "net"), 0, symbol, weights, aux)
    return str(folder / "net-symbol.json")


def whole():
    """The network of the other tests without the operator that has no converter."""
    x = S.var("data")
    x = S.Convolution(x, num_filter=8, kernel=(3, 3), pad=(1, 1), name="conv0")
    x = S.BatchNorm(x, fix_gamma=True, name="norm0")
    parts = S.split(S.Activation(x, act_type="relu"), num_outputs=2, axis=1, name="halves")
    x = S.FullyConnected(parts[0] + parts[1], num_hidden=5, name="dense")
    return S.Group([S.SoftmaxOutput(x, name="softmax"), parts[1]])


def test_a_checkpoint_is_compiled_with_mxnets_names_for_any_batch(tmp_path):
    symbol = whole()
    args, aux = parameters(symbol, data=(2, 3, 8, 8))
    engine = graft.compile(saved(tmp_path, symbol, args, aux),
                           shapes={"data": [(1, 3, 8, 8), (2, 3, 8, 8), (16, 3, 8, 8)]}, **FAST)
    for batch in (1, 2, 7):
        results = engine.run({"data": image(batch)})
        assert list(results) == symbol.list_outputs()
        expected = run(symbol, args, aux, data=image(batch), softmax_label=np.zeros(batch))
        for name, wanted in zip(symbol.list_outputs(), expected):
            close(results[name], wanted)


def test_parameters_may_be_elsewhere_and_shapes_in_the_symbol(tmp_path):
    data = S.var("data", shape=(0, 6))
    symbol = S.FullyConnected(data, num_hidden=3, name="dense")
    args = {"dense_weight": mx.nd.random.uniform(shape=(3, 6)), "dense_bias": mx.nd.random.uniform(shape=(3,))}
    symbol.save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "weights.params"), args)
    engine = graft.compile(str(tmp_path / "net-symbol.json"), params=str(tmp_path / "weights.params"), **FAST)
    x = np.random.RandomState(0).uniform(size=(4, 6)).astype(np.float32)
    close(engine.run({"data": x})["dense_output"], run(symbol, args, {}, data=x)[0])
    with pytest.raises(graft.Error, match="dense_weight: the parameters have no array of this name"):
        graft.compile(str(tmp_path / "net-symbol.json"), **FAST)


@pytest.mark.parametrize("name", ["mobilenetv2_0.25", "squeezenet1.1", "resnet18_v2", "densenet121", "inceptionv3"])
def test_networks_of_the_zoo_that_gluon_exports_compile_whole(name, tmp_path):
    mx.random.seed(3)
    net = vision.get_model(name)
    net.initialize(mx.init.Xavier(magnitude=3))
    net.hybridize()
    size = 299 if name == "inceptionv3" else 224
    x = image(1, size=size)
    expected = net(mx.nd.array(x)).asnumpy()
    net.export(str(tmp_path / "net"))
    engine = graft.compile(str(tmp_path / "net-symbol.json"), shapes={"data": x.shape}, **FAST)
    (result,) = engine.run({"data": x}).values()
    close(result, expected)


def test_what_has_no_converter_is_named_with_what_runs_it(tmp_path):
    symbol = split_symbol()
    path = saved(tmp_path, symbol, *parameters(symbol, data=(2, 3, 8, 8)))
    with pytest.raises(graft.Error, match="gammaln 'odd': there is no converter.*graft.mxnet"):
        graft.compile(path, shapes={"data": (2, 3, 8, 8)}, **FAST)


@pytest.mark.parametrize("storage", ["row_sparse", "csr"])
def test_sparse_parameters_are_read_and_written_as_mxnet_does(storage, tmp_path):
    symbol = S.FullyConnected(S.var("data", shape=(0, 4)), num_hidden=3, no_bias=True, name="dense")
    weight = mx.nd.array([[0, 5, 0, 1], [0, 0, 0, 0], [7, 0, 0, 0]])
    symbol.save(str(tmp_path / "net-symbol.json"))
    sparse = weight.tostype(storage)
    mx.nd.waitall()
    mx.nd.save(str(tmp_path / "net-0000.params"), {"arg:dense_weight": sparse})
    x = np.random.RandomState(0).uniform(size=(2, 4)).astype(np.float32)
    engine = graft.compile(str(tmp_path / "net-symbol.json"), **FAST)
    close(engine.run({"data": x})["dense_output"], run(symbol, {"dense_weight": weight}, {}, data=x)[0])

    def converted(name, *options):
        subprocess.run([COMMAND, "convert", "net-symbol.json", "--params", "net-0000.params", "--precision", "fp16",
                        "-o", name, *options], check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)
        return tmp_path / f"{name}-0000.params"

    assert converted("same", "--cast-parameters-later").read_bytes() == (tmp_path / "net-0000.params").read_bytes()
    half = mx.nd.load(str(converted("half")))["arg:dense_weight"]
    assert half.stype == storage
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half.asnumpy(), weight.asnumpy())


DAMAGED = {
    "truncated_json": (lambda text: text[:len(text) // 2], "net-symbol.json"),
    "no_json": (lambda text: "\x00\xff", "net-symbol.json"),
    "cycle": (lambda text: text.replace('"inputs": [[0, 0, 0], [1, 0, 0]', '"inputs": [[4, 0, 0], [1, 0, 0]'), "conv0"),
    "input_beyond_the_nodes": (lambda text: text.replace('"inputs": [[0, 0, 0], [1, 0, 0]',
                                                         '"inputs": [[999999, 0, 0], [1, 0, 0]'), "conv0"),
    "unknown_operator": (lambda text: text.replace('"op": "FullyConnected"', '"op": "FullyDisconnected"'), "dense"),
    "attribute_that_is_no_number": (lambda text: text.replace('"kernel": "(3, 3)"', '"kernel": "(3, x)"'), "conv0"),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_symbol_is_an_error_that_names_where(how, tmp_path):
    symbol = whole()
    path = pathlib.Path(saved(tmp_path, symbol, *parameters(symbol, data=(2, 3, 8, 8))))
    damage, words = DAMAGED[how]
    text = path.read_text()
    path.write_text(damage(text))
    assert path.read_text() != text
    with pytest.raises(graft.Error, match=words):
        graft.compile(str(path), shapes={"data": (2, 3, 8, 8)}, **FAST)


@pytest.mark.parametrize("how, words", [
    (lambda data: data[:len(data) // 2], "the file ends"),
    (lambda data: data[:24], "the file ends|names"),
    (lambda data: b"\x13" + data[1:], "0x112"),
    (lambda data: data[:16] + (1 << 60).to_bytes(8, "little") + data[24:], "array"),
    (lambda data: data.replace(b"arg:conv0_weight", b"arg:conv1_weight"), "conv0_weight"),
    (lambda data: b"", "net-0000.params"),
], ids=["half", "header", "magic", "count", "missing", "empty"])
def test_damaged_parameters_are_an_error_that_names_where(how, words, tmp_path):
    symbol = whole()
    path = saved(tmp_path, symbol, *parameters(symbol, data=(2, 3, 8, 8)))
    params = tmp_path / "net-0000.params"
    params.write_bytes(how(params.read_bytes()))
    with pytest.raises(graft.Error, match=words):
        graft.compile(path, shapes={"data": (2, 3, 8, 8)}, **FAST)


def test_parameters_of_another_shape_are_an_error_that_names_the_operator(tmp_path):
    symbol = whole()
    args, aux = parameters(symbol, data=(2, 3, 8, 8))
    args["dense_weight"] = mx.nd.zeros((5, 7))
    with pytest.raises(graft.Error, match="dense"):
        graft.compile(saved(tmp_path, symbol, args, aux), shapes={"data": (2, 3, 8, 8)}, **FAST)


def test_numpys_archives_compile_and_stay_archives_when_converted(tmp_path):
    symbol = S.FullyConnected(S.var("data", shape=(0, 4)), num_hidden=3, no_bias=True, name="dense")
    symbol.save(str(tmp_path / "net-symbol.json"))
    weight = np.random.RandomState(1).uniform(size=(3, 4)).astype(np.float32)
    with open(tmp_path / "net-0000.params", "wb") as file:
        np.savez(file, **{"arg:dense_weight": weight})
    x = np.random.RandomState(0).uniform(size=(2, 4)).astype(np.float32)
    engine = graft.compile(str(tmp_path / "net-symbol.json"), **FAST)
    close(engine.run({"data": x})["dense_output"], x @ weight.T)
    subprocess.run([COMMAND, "convert", "net-symbol.json", "--params", "net-0000.params", "--precision", "fp16", "-o",
                    "half"], check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)
    with np.load(tmp_path / "half-0000.params") as archive:
        np.testing.assert_array_equal(archive["arg:dense_weight"], weight.astype(np.float16))
