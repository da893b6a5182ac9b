# SPDX-License-Identifier: Apache-2.0
"""--deadline: every command that imports or compiles a model ends by it, and leaves nothing half done."""

import json
import time

import numpy as np
import onnx
import pytest
from conftest import frozen_graph
from onnx import TensorProto, helper, numpy_helper

PLUGIN = ["plugin", "model.onnx", "--for", "cuda", "--target", "sm_80", "-o", "made"]
COMMANDS = {
    "run": ["run", "model.onnx", "--tune", "off"],
    "bench": ["bench", "model.onnx", "--tune", "off"],
    "check": ["check", "model.onnx"],
    "check for TensorRT": ["check", "model.onnx", "--for", "tensorrt", "--parser", "none"],
    "inspect": ["inspect", "model.onnx", "--no-run", "--tune", "off"],
    "compare": ["compare", "model.onnx", "model.onnx"],
    "convert": ["convert", "model.onnx", "--precision", "fp16", "-o", "made"],
    "convert of a graph": ["convert", "frozen.pb", "--precision", "fp16", "-o", "made"],
    "quantise": ["convert", "model.onnx", "--precision", "int8", "--activations", "dynamic", "-o", "made"],
    "embed": ["embed", "frozen.pb", "--outputs", "y", "--tune", "off", "-o", "made"],
    "extract": ["extract", "model.onnx", "-o", "made", "--outputs", "y"],
    "opt": ["opt", "model.onnx", "--pass", "fold_constants"],
    "plugin": [*PLUGIN, "--types", "MatMul"],
    "reduce": ["reduce", "model.onnx", "--check", "false", "-o", "made"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_the_deadline_is_the_same_everywhere(graft, model, tmp_path, words):
    (tmp_path / "frozen.pb").write_bytes(frozen_graph())
    done = graft(*words, "--deadline", "0.000001")
    assert done.returncode == 1 and "deadline of 1e-06 seconds" in done.stderr, done.stderr
    assert not list(tmp_path.glob("made*"))
    assert graft(*words, "--deadline", "-1").returncode == 2
    done = graft(*words, "--deadline", "1000")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def long(tmp_path):
    """A chain of products of sizes that differ, which takes seconds to compile."""
    weights, nodes = [], []
    for layer in range(300):
        weight = np.ones((32 + layer, 33 + layer), np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [f"x{layer}", f"w{layer}"], [f"p{layer}"], name=f"multiply_{layer}"))
        nodes.append(helper.make_node("Softmax", [f"p{layer}"], [f"x{layer + 1}"]))
    graph = helper.make_graph(nodes, "long", [helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["n", 32])],
                              [helper.make_tensor_value_info("x300", TensorProto.FLOAT, ["n", 332])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              tmp_path / "model.onnx")


@pytest.mark.parametrize("words", [["compare", "model.onnx", "model.onnx", "--tune", "full"],
                                   [*PLUGIN, "--types", "Softmax"]], ids=lambda words: words[0])
def test_the_deadline_ends_what_takes_long(graft, long, tmp_path, words):
    begin = time.monotonic()
    done = graft(*words, "--deadline", "1")
    assert done.returncode == 1 and "deadline of 1 seconds" in done.stderr, done.stderr
    assert time.monotonic() - begin < 10 and not list(tmp_path.glob("made*"))


def test_a_search_gives_what_it_has_at_its_deadline(graft, long, tmp_path):
    """The check never ends of a model that is small enough."""
    check = """sh -c 'if test $(stat -c %s "$0") -gt 2000000; then exit 1; else sleep 1000; fi'"""
    done = graft("reduce", "model.onnx", "--check", check, "-o", "small.onnx", "--deadline", "3", "--json",
                 "facts.json")
    assert done.returncode == 0 and "the deadline passed" in done.stdout, done.stderr
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert not facts["finished"] and 0 < facts["nodes"] < facts["of_nodes"] == 600
    assert len(onnx.load(tmp_path / "small.onnx").graph.node) == facts["nodes"]
    done = graft("reduce", "model.onnx", "--check", "sleep 1000; false", "-o", "none.onnx", "--deadline", "1")
    assert done.returncode == 1 and "deadline of 1 seconds" in done.stderr and not (tmp_path / "none.onnx").exists()
