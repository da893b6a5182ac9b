# SPDX-License-Identifier: Apache-2.0
"""Segments as ONNX files: valid by ONNX's own checker, and the same function."""

import os
import pathlib
import subprocess

import mxnet as mx
import numpy as np
import pytest
from conftest import FAST, close, image, parameters, run
from mxnet.gluon.model_zoo import vision

import graft

CHECKER = pathlib.Path(__file__).resolve().parents[2] / ".deps" / "venv" / "bin" / "python"
CHECK = """
import sys, onnx
for path in sys.argv[1:]:
    onnx.checker.check_model(path, full_check=True)
"""


def check(paths):
    """By the onnx package, which this environment cannot have: it needs another NumPy."""
    if not CHECKER.is_file():
        pytest.skip(f"the onnx package is in {CHECKER.parents[1]}, which ./dev test makes")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([CHECKER, "-c", CHECK, *map(str, paths)], capture_output=True, text=True, check=False,
                          env=environment)
    assert done.returncode == 0, done.stderr


def test_every_segment_is_a_valid_onnx_file_that_computes_the_same(split, tmp_path):
    symbol, args, aux = split
    made = symbol.optimize_for("graft", dict(args), dict(aux), onnx=str(tmp_path), **FAST)
    paths = sorted(tmp_path.glob("*.onnx"))
    assert [path.name for path in paths] == ["segment0.onnx", "segment1.onnx"]
    check(paths)
    whole = run(symbol, args, aux, data=image(3), softmax_label=np.zeros(3))[0]
    between = symbol.get_internals()["odd_output"]
    middle = run(between, {name: args[name] for name in between.list_arguments()}, aux, data=image(3))[0]
    last = graft.compile(str(paths[1]), **FAST)
    feeds = {each.name: middle if len(each.shape) == 4 else np.zeros(3, np.float32) for each in last.inputs}
    (result,) = last.run(feeds).values()
    close(result, whole)
    assert made.list_outputs() == symbol.list_outputs()


@pytest.mark.parametrize("name", ["resnet18_v2", "mobilenetv2_0.25", "densenet121"])
def test_a_network_of_the_zoo_is_a_valid_onnx_file(name, tmp_path):
    net = vision.get_model(name)
    net.initialize(mx.init.Xavier(magnitude=3))
    x = mx.nd.array(image(1, size=224))
    expected = net(x).asnumpy()
    net.optimize_for(x, backend="graft", onnx=str(tmp_path), **FAST)
    (path,) = tmp_path.glob("*.onnx")
    check([path])
    close(graft.compile(str(path), **FAST)(x.asnumpy()), expected)


def test_a_folder_that_is_not_there_is_an_error(split):
    with pytest.raises(mx.MXNetError, match="nowhere/segment0.onnx"):
        split[0].optimize_for("graft", dict(split[1]), dict(split[2]), onnx="/nowhere", **FAST)


def test_transformers_are_valid_onnx_files(tmp_path):
    from test_symbol import bert
    symbol = bert()
    args, aux = parameters(symbol, data0=(2, 9), data1=(2, 9), data2=(2,))
    symbol.optimize_for("graft", dict(args), aux, onnx=str(tmp_path), strict=True, **FAST)
    check(tmp_path.glob("*.onnx"))
