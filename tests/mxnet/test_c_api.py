# SPDX-License-Identifier: Apache-2.0
"""MXNet's plain C interface and its predict interface, called by a program in C (tests/mxnet/c_api)."""

import os
import pathlib
import subprocess

import mxnet as mx
import numpy as np
import pytest
from conftest import FAST, close, image, run

BUILD = pathlib.Path(os.environ["GRAFT_BUILD"])
PROGRAM = BUILD / "hosts" / "mxnet" / "c_api" / "mxnet_c_api"


def results(way, folder):
    """What the program computes of the checkpoint in the folder for two images."""
    image(2).tofile(folder / "input")
    done = subprocess.run([PROGRAM, BUILD / "lib" / "libgraft_mxnet.so", way, folder / "net", folder / "input",
                           folder / "output", *map(str, image(2).shape)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return np.fromfile(folder / "output", np.float32).reshape(2, -1), done.stdout


def without_data(args):
    """The parameters alone."""
    return {name: value for name, value in args.items() if name not in ("data", "softmax_label")}


@pytest.mark.parametrize("value, engines", [("1", 2), ("0", 0), (None, 0)])
def test_the_plain_interface_binds_engines_where_the_environment_asks_for_them(split, tmp_path, monkeypatch, value,
                                                                               engines):
    symbol, args, aux = split
    mx.model.save_checkpoint(str(tmp_path / "net"), 0, symbol, without_data(args), aux)
    monkeypatch.delenv("MXNET_USE_GRAFT", raising=False)
    if value is not None:
        monkeypatch.setenv("MXNET_USE_GRAFT", value)
    result, printed = results("optimize", tmp_path)
    assert printed == f"{engines}\n", "the plans of engines are among the arguments"
    close(result, run(symbol, args, aux, data=image(2), softmax_label=np.zeros(2))[0])


def test_the_predict_interface_runs_a_checkpoint_with_engines(split, tmp_path):
    symbol, args, aux = split
    weights, states = without_data(args), dict(aux)
    made = symbol.optimize_for("graft", weights, states, shape_dict={"data": (2, 3, 8, 8)}, **FAST)
    mx.model.save_checkpoint(str(tmp_path / "net"), 0, made, weights, states)
    close(results("predict", tmp_path)[0], run(symbol, args, aux, data=image(2), softmax_label=np.zeros(2))[0])
