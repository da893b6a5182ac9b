# SPDX-License-Identifier: Apache-2.0
"""`graft convert`: models of mixed precision in the format that they came in."""

import json
import struct

import numpy as np
import pytest


def record(name, array):
    """An array as .params has it, and its name."""
    shape = struct.pack(f"<i{array.ndim}q", array.ndim, *array.shape)
    return struct.pack("<Ii", 0xF993FAC9, 0) + shape + struct.pack("<iii", 1, 0, 0) + array.tobytes(), name


@pytest.fixture
def network(tmp_path):
    """softmax(x w) as files of MXNet."""
    nodes = [{"op": "null", "name": "data", "inputs": []}, {"op": "null", "name": "w", "inputs": []},
             {"op": "FullyConnected", "name": "fc", "attrs": {"no_bias": "True", "num_hidden": "2"},
              "inputs": [[0, 0, 0], [1, 0, 0]]}, {"op": "softmax", "name": "sm", "inputs": [[2, 0, 0]]}]
    (tmp_path / "net-symbol.json").write_text(json.dumps(
        {"nodes": nodes, "arg_nodes": [0, 1], "heads": [[3, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}}))
    body, name = record("arg:w", np.array([[1, 2], [3, 4]], np.float32))
    (tmp_path / "net-0000.params").write_bytes(
        struct.pack("<QQQ", 0x112, 0, 1) + body + struct.pack("<QQ", 1, len(name)) + name.encode())
    return tmp_path


def operators(path):
    return [node["op"] for node in json.loads(path.read_text())["nodes"] if node["op"] != "null"]


def test_a_symbol_and_its_parameters(graft, network):
    done = graft("convert", "net-symbol.json", "--params", "net-0000.params", "--precision", "fp16", "-o", "mixed")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "mixed-symbol.json: 2 amp_cast, 0 amp_multicast; 1 of 1 parameters are float16\n"
    assert operators(network / "mixed-symbol.json") == ["amp_cast", "FullyConnected", "amp_cast", "softmax"]
    assert (network / "mixed-0000.params").read_bytes().find(np.array([1, 2, 3, 4], np.float16).tobytes()) > 0
    again = graft("convert", "mixed-symbol.json", "--params", "mixed-0000.params", "--precision", "fp16",
                  "-o", "twice-symbol.json")
    assert again.stdout.startswith("twice-symbol.json: 0 amp_cast"), again.stderr
    for ending in ("-symbol.json", "-0000.params"):
        assert (network / f"twice{ending}").read_bytes() == (network / f"mixed{ending}").read_bytes()


def test_lists_and_parameters_that_are_cast_later(graft, network):
    (network / "lists.json").write_text('{"fp32_ops": ["FullyConnected"]}')
    words = ["convert", "net-symbol.json", "--precision", "bf16", "-o", "mixed"]
    assert graft(*words, "--lists", "lists.json").returncode == 0
    assert operators(network / "mixed-symbol.json") == ["FullyConnected", "softmax"]
    assert graft(*words, "--cast-parameters-later").returncode == 0
    assert operators(network / "mixed-symbol.json").count("amp_cast") == 3


@pytest.mark.parametrize("words, part", [
    (["net-symbol.json", "-o", "net"], "--output"),
    (["net-symbol.json", "-o", "net.json"], "ends with -symbol.json"),
    (["missing-symbol.json", "-o", "mixed"], "missing-symbol.json"),
    (["model.onnx", "-o", "mixed"], "only symbols of MXNet"),
    (["net-symbol.json", "--lists", "net-0000.params", "-o", "mixed"], "is no JSON"),
    (["net-symbol.json", "--params", "net-symbol.json", "-o", "mixed"], "no list of MXNet's arrays"),
    (["net-0000.params", "-o", "mixed"], "is no symbol's JSON"),
])
def test_what_cannot_be_converted(graft, network, words, part):
    done = graft("convert", "--precision", "fp16", *words)
    assert done.returncode != 0 and part in done.stderr, done.stderr
    assert not (network / "mixed-symbol.json").exists()
