# SPDX-License-Identifier: Apache-2.0
"""Symbols of mixed precision that Graft made, in MXNet: it loads and runs them, they have no more casts than those of
its own amp, and its files come back byte for byte."""

import collections
import json
import os
import pathlib
import subprocess
import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for _name in ("bool", "int", "float", "object", "complex", "str"):  # which numpy took away and MXNet 1.9 names
        if _name not in np.__dict__:
            setattr(np, _name, __builtins__[_name])
    mx = pytest.importorskip("mxnet")
    from mxnet.contrib import amp

import cast_counts
import graft

GRAFT = pathlib.Path(os.environ["GRAFT_BUILD"]) / "bin" / "graft"
SHAPE = (2, 3, 8, 8)
PROCESSOR = pathlib.Path("/proc/cpuinfo")
wants_bfloat16 = pytest.mark.skipif(PROCESSOR.exists() and "avx512bw" not in PROCESSOR.read_text(),
                                    reason="MXNet's kernels of bfloat16 want AVX-512")


@pytest.fixture(scope="module")
def network():
    """A convolution network with two outputs, and its parameters."""
    sym = mx.sym
    x = sym.Convolution(sym.var("data"), num_filter=8, kernel=(3, 3), pad=(1, 1), name="c1")
    x = sym.Activation(sym.BatchNorm(x, name="bn", fix_gamma=False), act_type="relu", name="r1")
    x = x + sym.Convolution(x, num_filter=8, kernel=(3, 3), pad=(1, 1), no_bias=True, name="c2")
    x = sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1), name="pool")
    x = sym.FullyConnected(x, num_hidden=5, name="fc")
    net = sym.Group([sym.Activation(x, act_type="softrelu", name="soft"), sym.softmax(x, name="answer")])
    shapes, _, auxiliary = net.infer_shape(data=SHAPE)
    random = np.random.RandomState(0)
    arguments = {name: mx.nd.array(random.randn(*shape) * 0.3)
                 for name, shape in zip(net.list_arguments(), shapes) if name != "data"}
    return net, arguments, {name: mx.nd.array(np.abs(random.randn(*shape)) + 0.5)
                            for name, shape in zip(net.list_auxiliary_states(), auxiliary)}


@pytest.fixture
def checkpoint(network, tmp_path):
    """The network's files."""
    mx.model.save_checkpoint(str(tmp_path / "net"), 0, *network)
    return tmp_path


def results(net, arguments, auxiliary):
    """What it computes of an input of float32."""
    data = mx.nd.array(np.random.RandomState(1).randn(*SHAPE))
    outputs = net.bind(mx.cpu(), {**arguments, "data": data}, aux_states=auxiliary).forward()
    assert all(output.dtype == np.float32 for output in outputs)
    return [output.asnumpy() for output in outputs]


def casts(net):
    """How many of each."""
    nodes = json.loads(net.tojson(remove_amp_cast=False))["nodes"]
    return collections.Counter(node["op"] for node in nodes if node["op"].startswith("amp_"))


def owns_conversion(model, kind):
    """MXNet's, which changes the dictionaries that it is given."""
    net, arguments, auxiliary = model
    return amp.convert_model(net, dict(arguments), dict(auxiliary), kind, cast_optional_params=True)


@wants_bfloat16
def test_bfloat16_runs_in_mxnet(network):
    made = graft.amp.convert_model(*network, "bfloat16")
    assert casts(made[0]) == {"amp_cast": 2}
    for here, expected in zip(results(*made), results(*network)):
        assert np.abs(here - expected).max() < 0.02 * np.ptp(expected)
        assert np.abs(here - expected).max() > 0, "it computes in float32"


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_it_is_what_mxnets_own_conversion_gives(network, kind):
    net, arguments, auxiliary = graft.amp.convert_model(*network, kind)
    own, own_arguments, own_auxiliary = owns_conversion(network, kind)
    assert net.tojson(remove_amp_cast=False) == own.tojson(remove_amp_cast=False)
    for here, there in ((arguments, own_arguments), (auxiliary, own_auxiliary)):
        assert {name: array.dtype for name, array in here.items()} == {name: a.dtype for name, a in there.items()}
        for name, array in here.items():
            assert (array.astype("float32") == there[name].astype("float32")).asnumpy().all(), name


def small_block():
    """Two convolutions and a dense layer."""
    block = mx.gluon.nn.HybridSequential()
    block.add(mx.gluon.nn.Conv2D(8, 3, in_channels=3), mx.gluon.nn.BatchNorm(in_channels=8),
              mx.gluon.nn.Conv2D(4, 3, in_channels=8, activation="relu"), mx.gluon.nn.GlobalAvgPool2D(),
              mx.gluon.nn.Dense(3, in_units=4))
    return block


@wants_bfloat16
@pytest.mark.parametrize("convert", [graft.amp.convert_block, graft.amp.convert_hybrid_block])
def test_a_block_is_converted_without_a_run_before_and_runs_in_bfloat16(convert):
    block = small_block()
    block.initialize(mx.init.Xavier(magnitude=3))
    made = convert(block, "bfloat16")
    assert isinstance(made, mx.gluon.SymbolBlock)
    data = mx.nd.random.uniform(-1, 1, SHAPE)
    here, expected = made(data).asnumpy(), block(data).asnumpy()
    assert here.dtype == np.float32
    assert 0 < np.abs(here - expected).max() < 0.02 * np.ptp(expected)
    again = convert(made, "bfloat16", input_names=["data"])
    assert (again(data).asnumpy() == here).all(), "what is converted stays as it is"


def test_the_parameters_of_a_converted_block_have_its_types():
    block = small_block()
    block.initialize(mx.init.Xavier(magnitude=3))
    made = graft.amp.convert_hybrid_block(block, ctx=mx.cpu())
    types = {name: np.dtype(parameter.dtype).name for name, parameter in made.collect_params().items()}
    assert {kind for name, kind in types.items() if "conv" in name or "dense" in name} == {"float16"}
    assert {kind for name, kind in types.items() if "batchnorm" in name} == {"float32"}
    kept = graft.amp.convert_block(block, cast_optional_params=False)
    assert {np.dtype(parameter.dtype).name for parameter in kept.collect_params().values()} == {"float32"}


@wants_bfloat16
def test_a_block_of_several_inputs_and_results_names_them():
    class Two(mx.gluon.HybridBlock):
        """A sum of products, and one of them."""
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.dense = mx.gluon.nn.Dense(4, in_units=6)

        def hybrid_forward(self, F, x, y):
            return self.dense(x) + self.dense(y), [self.dense(x)]

    block = Two()
    block.initialize(mx.init.Xavier(magnitude=3))
    x, y = mx.nd.random.uniform(-1, 1, (2, 6)), mx.nd.random.uniform(-1, 1, (2, 6))
    made = graft.amp.convert_block(block, "bfloat16", input_names=["x", "y"])
    for here, expected in zip(made(x, y), [block(x, y)[0], block(x, y)[1][0]]):
        assert np.abs((here - expected).asnumpy()).max() < 0.02 * np.ptp(expected.asnumpy())


def test_a_block_without_values_is_an_error_that_names_the_parameter():
    with pytest.raises(ValueError, match="conv.*_weight has no values: call initialize"):
        graft.amp.convert_block(small_block())
    deferred = mx.gluon.nn.Dense(3)
    deferred.initialize()
    with pytest.raises(ValueError, match="dense.*_weight is not known yet: run the block once"):
        graft.amp.convert_block(deferred)
    with pytest.raises(ValueError, match="block is a Symbol"):
        graft.amp.convert_block(mx.sym.var("data"))


def test_types_are_what_mxnet_infers(network):
    net, arguments, _ = graft.amp.convert_model(*network)
    types, outputs, _ = net.infer_type(data=np.float32)
    inferred = dict(zip(net.list_arguments(), types))
    assert {name: inferred[name] for name in arguments} == {name: array.dtype for name, array in arguments.items()}
    assert set(outputs) == {np.float32}


def test_the_proposals_second_example_is_taken(network):
    sym = mx.sym
    data = sym.var("data")
    total = sym.add_n(sym.exp(data) + sym.sin(data) + sym.cos(data), sym.var("data2"), sym.var("data3"))
    made = graft.amp.convert_symbol(total, target_dtype_ops=["sin", "cos", "exp"], fp32_ops=["elemwise_add"],
                                    widest_dtype_ops=["add_n"], conditional_fp32_ops=None)
    assert casts(made) == {"amp_cast": 4}
    assert made.infer_type(data=np.float32, data2=np.float32, data3=np.float32)[1] == [np.float32]
    free = graft.amp.convert_symbol(total, target_dtype_ops=["sin", "cos", "exp"],
                                    input_dtypes={"data2": None, "data3": None})
    assert casts(free)["amp_multicast"] == 1
    assert free.infer_type(data=np.float32, data2=np.float16, data3=np.float16)[1] is not None


@pytest.mark.parametrize("name", ["resnet18_v1", "resnet18_v2", "mobilenet0_25", "squeezenet1_0", "densenet121"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_no_more_casts_than_mxnet_in_networks_of_its_zoo(name, kind, tmp_path):
    block = getattr(mx.gluon.model_zoo.vision, name)()
    block.initialize(mx.init.Xavier())
    block.hybridize()
    block(mx.nd.zeros((1, 3, 224, 224)))
    block.export(str(tmp_path / "zoo"))
    model = mx.model.load_checkpoint(str(tmp_path / "zoo"), 0)
    here = graft.amp.convert_model(*model, kind)
    there = owns_conversion(model, kind)
    print(name, kind, dict(casts(here[0])), dict(casts(there[0])))
    assert sum(casts(here[0]).values()) <= sum(casts(there[0]).values())
    assert here[0].infer_type(data=np.float32)[1] == [np.float32]


def test_the_table_of_the_documentation_is_what_is_counted():
    page, table = (cast_counts.ROOT / "docs" / "AMP.md").read_text(), cast_counts.table()
    assert page == cast_counts.tables.with_block(page, "casts", table)
    rows = [line.split("|")[3:7] for line in table.splitlines()[2:]]
    assert all(int(here) <= int(own) and int(other) == 0 for here, own, _, other in rows)


@wants_bfloat16
def test_the_command_writes_what_mxnet_loads(network, checkpoint):
    subprocess.run([GRAFT, "convert", "net-symbol.json", "--params", "net-0000.params", "--precision", "bf16", "-o",
                    "mixed"], cwd=checkpoint, check=True)
    for here, expected in zip(results(*mx.model.load_checkpoint(str(checkpoint / "mixed"), 0)), results(*network)):
        assert np.abs(here - expected).max() < 0.02 * np.ptp(expected)


def test_its_files_come_back_byte_for_byte(checkpoint):
    """A conversion that changes nothing."""
    (checkpoint / "lists.json").write_text('{"target_dtype_ops": [], "data_names": ["data", "bn_gamma"]}')
    subprocess.run([GRAFT, "convert", "net-symbol.json", "--params", "net-0000.params", "--precision", "fp16",
                    "--lists", "lists.json", "-o", "same"], cwd=checkpoint, check=True)
    assert (checkpoint / "same-0000.params").read_bytes() == (checkpoint / "net-0000.params").read_bytes()
    same = mx.sym.load(str(checkpoint / "same-symbol.json"))
    assert (checkpoint / "same-symbol.json").read_text() == same.tojson(remove_amp_cast=False)
