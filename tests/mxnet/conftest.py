# SPDX-License-Identifier: Apache-2.0
"""Symbols with weights, and how their results are compared."""

import json
import subprocess
import sys

import mxnet as mx
import numpy as np
import pytest

import graft.mxnet

FAST = {"tune": "off"}  # how engines are compiled in tests: what is measured changes nothing about results


def split_symbol():
    """Convolutions around gammaln, which stays with MXNet."""
    x = mx.sym.var("data")
    x = mx.sym.Convolution(x, num_filter=8, kernel=(3, 3), pad=(1, 1), name="conv0")
    x = mx.sym.BatchNorm(x, fix_gamma=True, name="norm0")
    x = mx.sym.Activation(x, act_type="relu", name="relu0")
    x = mx.sym.gammaln(x + 1.5, name="odd")
    x = mx.sym.Convolution(x, num_filter=4, kernel=(3, 3), stride=(2, 2), no_bias=True, name="conv1")
    x = mx.sym.Pooling(x, global_pool=True, pool_type="avg", name="pool")
    x = mx.sym.FullyConnected(x, num_hidden=5, name="dense")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def parameters(symbol, **shapes):
    """Random arrays for all arguments and auxiliary states, (args, aux): every one shows in the result."""
    random = np.random.RandomState(7)
    arguments, _, states = symbol.infer_shape(**shapes)
    args = {name: mx.nd.array(random.uniform(-0.5, 0.5, shape)) for name, shape in
            zip(symbol.list_arguments(), arguments)}
    aux = {name: mx.nd.array(random.uniform(0.5, 1.5, shape)) for name, shape in
           zip(symbol.list_auxiliary_states(), states)}
    return args, aux


def run(symbol, args, aux, **data):
    """The outputs for these inputs."""
    bound = {**args, **{name: mx.nd.array(value) for name, value in data.items()}}
    executor = symbol.bind(mx.cpu(), bound, aux_states=aux, grad_req="null")
    return [output.asnumpy() for output in executor.forward(is_train=False)]


def operators(symbol):
    """Of a symbol's nodes, in order, without variables."""
    return [node["op"] for node in json.loads(symbol.tojson())["nodes"] if node["op"] != "null"]


def close(result, expected, share=1e-4):
    """Within a share of the range of what MXNet gives."""
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    expected = expected.astype(np.float64)
    span = max(float(expected.max() - expected.min()), float(np.abs(expected).max()) * 1e-2, 1e-6)
    worst = float(np.abs(result - expected).max()) / span
    assert worst <= share, f"{worst:.2g} of the range"


def agrees(symbol, args, aux, made, **data):
    """Whether a symbol with engines gives for these inputs what the plain one gives."""
    results, expected = run(*made, **data), run(symbol, args, aux, **data)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected):
        close(result, wanted)


def data_of(symbol, batch, **shapes):
    """Values for what changes from run to run."""
    random = np.random.RandomState(batch)
    arguments, _, _ = symbol.infer_shape(**shapes)
    return {name: random.uniform(-0.9, 0.9, shape).astype(np.float32)
            for name, shape in zip(symbol.list_arguments(), arguments)
            if name.startswith("data") or name.endswith("label")}


def check_operator(shape, build, batches=(5,)):
    """Of data of that shape: build(data) is one engine, and gives what MXNet gives, also for other batches."""
    symbol = build(mx.sym.var("data"))

    def shapes(batch):
        return {each: (batch, *shape[1:]) for each in symbol.list_arguments() if each.startswith("data")}

    args, aux = parameters(symbol, **shapes(shape[0]))
    grafted_args, grafted_aux = dict(args), dict(aux)
    grafted = symbol.optimize_for("graft", grafted_args, grafted_aux, mode="interpret", strict=True)
    assert operators(grafted) == ["_graft_engine"], graft.mxnet.report()
    for batch in (shape[0], *batches):
        data = data_of(symbol, batch, **shapes(batch))
        for result, expected in zip(run(grafted, grafted_args, grafted_aux, **data), run(symbol, args, aux, **data),
                                    strict=True):
            close(result, expected)


@pytest.fixture(name="split")
def fixture_split():
    """(symbol, args, aux)."""
    symbol = split_symbol()
    return (symbol, *parameters(symbol, data=(2, 3, 8, 8)))


def image(batch, size=8, channels=3):
    """Pixels around zero."""
    return np.random.RandomState(batch).uniform(-1, 1, (batch, channels, size, size)).astype(np.float32)


def in_fresh_process(code, *arguments):
    """Runs Python code in a process of its own; its standard output."""
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
