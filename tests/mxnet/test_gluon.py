# SPDX-License-Identifier: Apache-2.0
"""HybridBlock.optimize_for, and networks of the model zoo with weights that make outputs vary."""

import mxnet as mx
import numpy as np
import pytest
from conftest import FAST, close, image, operators
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision

import graft.amp
import graft.mxnet


def small_net():
    """Convolutions and a dense layer, initialised."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2),
            nn.Conv2D(8, 3, padding=1, activation="tanh"), nn.GlobalAvgPool2D(), nn.Dense(3))
    return initialized(net, mx.nd.zeros((1, 3, 16, 16)))


def initialized(net, example):
    """Random weights and statistics: every one shows in the result."""
    mx.random.seed(5)
    np.random.seed(5)
    net.initialize(mx.init.Xavier(magnitude=3))
    net(example).wait_to_read()
    for name, parameter in net.collect_params().items():
        if name.endswith(("gamma", "running_var")):
            parameter.set_data(mx.nd.random.uniform(0.7, 1.3, parameter.shape))
        elif name.endswith(("beta", "running_mean", "bias")):
            parameter.set_data(mx.nd.random.uniform(-0.2, 0.2, parameter.shape))
    return net


def test_a_block_runs_as_an_engine_for_any_batch():
    net = small_net()
    expected = {batch: net(mx.nd.array(image(batch, 16))).asnumpy() for batch in (1, 2, 5)}
    net.optimize_for(mx.nd.array(image(2, 16)), backend="graft", **FAST)
    assert operators(net._cached_graph[1]) == ["_graft_engine"]
    before = graft._graft.compilation_count()
    for batch, wanted in expected.items():
        for _ in range(2):
            close(net(mx.nd.array(image(batch, 16))).asnumpy(), wanted)
    assert graft._graft.compilation_count() <= before + 1, "kernels are made once, at most when the plan is loaded"


def test_an_exported_block_is_imported_with_its_engine(tmp_path):
    net = small_net()
    expected = net(mx.nd.array(image(3, 16))).asnumpy()
    net.optimize_for(mx.nd.array(image(1, 16)), backend="graft", static_alloc=True, static_shape=True, **FAST)
    net(mx.nd.array(image(1, 16))).wait_to_read()
    net.export(str(tmp_path / "net"))
    block = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    close(block(mx.nd.array(image(3, 16))).asnumpy(), expected)


def test_a_wrong_option_of_a_block_is_an_error():
    net = small_net()
    with pytest.raises(mx.MXNetError, match="no option 'percision'"):
        net.optimize_for(mx.nd.array(image(1, 16)), backend="graft", percision="fp16")


def test_a_block_that_was_never_initialised_is_an_error_that_names_its_parameter():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=4))
    with pytest.raises(RuntimeError, match="dense.*weight.*has not been initialized"):
        net.optimize_for(mx.nd.zeros((1, 4)), backend="graft", **FAST)
    net.initialize()
    net.optimize_for(mx.nd.zeros((1, 4)), backend="graft", **FAST)
    assert operators(net._cached_graph[1]) == ["_graft_engine"]


@pytest.mark.parametrize("precision, share", [("fp16", 2e-2), ("bf16", 1e-1)])
def test_a_block_in_lower_precision_keeps_the_callers_types(precision, share):
    net = small_net()
    x = mx.nd.array(image(2, 16))
    expected = net(x).asnumpy()
    net.optimize_for(x, backend="graft", precision=precision, **FAST)
    result = net(x)
    assert result.dtype == np.float32
    close(result.asnumpy(), expected, share)


@pytest.mark.parametrize("layer", [mx.gluon.rnn.LSTM, mx.gluon.rnn.GRU])
def test_a_recurrent_layer_runs_as_an_engine_that_holds_its_weights(layer):
    net = nn.HybridSequential()
    net.add(layer(6, num_layers=2, bidirectional=True, layout="NTC", input_size=4), nn.Dense(3))
    data = {batch: mx.nd.array(np.random.RandomState(batch).uniform(-1, 1, (batch, 5, 4))) for batch in (2, 3)}
    initialized(net, data[2])
    expected = {batch: net(value).asnumpy() for batch, value in data.items()}
    net.optimize_for(data[2], backend="graft", **FAST)
    assert "_graft_engine" in operators(net._cached_graph[1]) and "RNN" not in operators(net._cached_graph[1])
    assert not any("l0_i2h" in name for name in net._cached_graph[1].list_arguments())
    for batch, value in data.items():
        close(net(value).asnumpy(), expected[batch])


SIZES = {"inceptionv3": 299, "squeezenet1.1": 224, "densenet121": 224, "alexnet": 224}  # what their poolings ask for


def zoo_net(name):
    """(net, the size of its images)"""
    size = SIZES.get(name, 64)
    net = vision.get_model(name, classes=20)
    return initialized(net, mx.nd.zeros((1, 3, size, size))), size


@pytest.mark.parametrize("name", ["resnet18_v1", "resnet18_v2", "resnet50_v1", "resnet50_v2", "mobilenet0.25",
                                  "mobilenetv2_0.25", "squeezenet1.1", "densenet121", "inceptionv3", "alexnet"])
def test_networks_of_the_zoo_are_one_engine_and_agree(name):
    net, size = zoo_net(name)
    expected = {batch: net(mx.nd.array(image(batch, size))).asnumpy() for batch in (1, 3)}
    net.optimize_for(mx.nd.array(image(1, size)), backend="graft", strict=True, **FAST)
    assert operators(net._cached_graph[1]) == ["_graft_engine"], graft.mxnet.report()
    for batch, wanted in expected.items():
        assert wanted.std() > 1e-3 * np.abs(wanted).max(), "outputs vary"
        close(net(mx.nd.array(image(batch, size))).asnumpy(), wanted)


def engine_count(block):
    return operators(block._cached_graph[1]).count("_graft_engine")


def test_weights_that_mxnet_still_computes_are_waited_for():
    """MXNet brings convolutions' weights into a layout of its own behind a call, in the memory of the weights."""
    x = mx.nd.array(image(1, 64))

    def made():
        mx.random.seed(1)
        net = vision.resnet18_v1(classes=10)
        net.initialize(mx.init.Xavier())
        net(x)
        return net

    expected = made()(x).asnumpy()
    net = made()
    net.optimize_for(x, backend="graft", **FAST)
    close(net(x).asnumpy(), expected, 1e-3)


def written_in_place(net, path):
    del path
    for parameter in net.collect_params().values():
        parameter.data()[:] = parameter.data() * 0.5 + 0.125


def set_by_its_method(net, path):
    del path
    for name, parameter in net.collect_params().items():
        if name.endswith("weight"):  # one element alone, between those that samples would see
            array = parameter.data().asnumpy()
            array.reshape(-1)[array.size // 2 + 1] += 3.0
            parameter.set_data(mx.nd.array(array))


def loaded_from_a_file(net, path):
    other = small_net()
    for parameter in other.collect_params().values():
        parameter.set_data(parameter.data() * 1.5)
    other.save_parameters(str(path))
    net.load_parameters(str(path))


def statistics_alone(net, path):
    del path
    next(each for name, each in net.collect_params().items() if name.endswith("running_mean")).data()[2] = 4.0


@pytest.mark.parametrize("change", [written_in_place, set_by_its_method, loaded_from_a_file, statistics_alone],
                         ids=lambda change: change.__name__)
def test_parameters_that_change_behind_the_engines_take_effect(change, tmp_path):
    x = mx.nd.array(image(2, 16))
    net = small_net()
    net.optimize_for(x, backend="graft", **FAST)
    before = net(x).asnumpy()
    change(net, tmp_path / "weights.params")
    changed = net(x).asnumpy()
    assert engine_count(net) == 1 and np.abs(changed - before).max() > 1e-3
    compilations = graft._graft.compilation_count()
    close(net(x).asnumpy(), changed)
    assert graft._graft.compilation_count() == compilations, "engines are built again once"
    net.hybridize(active=False)
    close(changed, net(x).asnumpy())


def test_an_imported_block_takes_new_parameters_behind_its_engines(tmp_path):
    x = mx.nd.array(image(2, 16))
    net = small_net()
    net.hybridize()
    net(x).wait_to_read()
    net.export(str(tmp_path / "net"))
    block = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    block.optimize_for(x, backend="graft", **FAST)
    close(block(x).asnumpy(), net(x).asnumpy())
    for one, other in zip(block.collect_params().values(), net.collect_params().values()):
        for parameter in (one, other):
            parameter.set_data(parameter.data() * 0.75)
    close(block(x).asnumpy(), net(x).asnumpy())
    block.optimize_for(x, backend="graft", **FAST)
    close(block(x).asnumpy(), net(x).asnumpy())


@pytest.mark.parametrize("layer", [mx.gluon.rnn.GRU(6, 2, layout="NTC", bidirectional=True),
                                   mx.gluon.rnn.LSTM(5, layout="NTC")], ids=["gru", "lstm"])
def test_a_recurrent_layer_takes_any_batch(layer):
    x = mx.nd.array(np.random.RandomState(3).uniform(-1, 1, (4, 5, 8)))
    layer.initialize()
    layer.hybridize()
    expected = {batch: layer(x[:batch]).asnumpy() for batch in (1, 2, 4)}
    layer.optimize_for(x[:2], backend="graft", **FAST)
    assert engine_count(layer) == 1
    for batch, wanted in expected.items():
        close(layer(x[:batch]).asnumpy(), wanted)


def test_a_block_of_bfloat16_is_an_engine():
    x = mx.nd.array(image(2, 16))
    net = small_net()
    expected = net(x).asnumpy()
    block = graft.amp.convert_hybrid_block(net, target_dtype="bfloat16")
    block.optimize_for(x, backend="graft", **FAST)
    assert engine_count(block) >= 1
    assert np.abs(block(x).asnumpy().astype(np.float32) - expected).max() <= 3e-2 * np.abs(expected).max()
