# SPDX-License-Identifier: Apache-2.0
"""Names from files reach a terminal only in a form that cannot drive it or forge lines."""

import json
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ODD = "\x1b[31m\u009b2J\u202e\nFORGED"
FAST = ["--tune", "off"]


def odd_model():
    """Every name that a model has is odd: of the graph, nodes, values, sizes, weights, metadata."""
    x, w, p, y, z = (name + ODD for name in "xwpyz")
    nodes = [helper.make_node("MatMul", [x, w], [p], name="multiply" + ODD),
             helper.make_node("Softmax", [p], [y], name="normalise" + ODD),
             helper.make_node("NonZero", [p], [z], name="count" + ODD)]
    graph = helper.make_graph(
        nodes, "graph" + ODD, [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["batch" + ODD, 4])],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["batch" + ODD, 3]),
         helper.make_tensor_value_info(z, TensorProto.INT64, [2, "found" + ODD])],
        [numpy_helper.from_array(np.ones((4, 3), np.float32), w)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    helper.set_model_props(proto, {"author" + ODD: "nobody" + ODD})
    return proto


@pytest.fixture
def odd(tmp_path, graft):
    """The model, and a plan made of it."""
    onnx.save(odd_model(), tmp_path / "odd.onnx")
    assert graft("compile", "odd.onnx", "-o", "odd.graft", *FAST).returncode == 0
    broken = odd_model()
    broken.graph.node[0].op_type = "Teleport" + ODD
    onnx.save(broken, tmp_path / "broken.onnx")
    np.savez(tmp_path / "wrong.npz", **{"z" + ODD: np.zeros(1)})
    np.savez(tmp_path / "x.npz", **{"x" + ODD: np.ones((2, 4), np.float32)})
    np.savez(tmp_path / "flat.npz", **{"x" + ODD: np.ones(2, np.float32)})
    return tmp_path


COMMANDS = [
    ["compile", "odd.onnx", "-o", "new.graft", *FAST], ["compile", "broken.onnx"],
    ["compile", "odd.onnx", "--precision", "fp16", "-o", "new.graft", *FAST],
    ["compile", "odd.onnx", "--dim", "length=3"], ["compile", "odd.onnx", "--shapes", "z:1x4"],
    ["compile", "odd.onnx", "--compile-to", "import"], ["compile", "odd.onnx", "--compile-to", "passes"],
    ["compile", "odd.onnx", "--compile-to", "fuse"], ["compile", "odd.onnx", "--compile-to", "plan", *FAST],
    ["run", "odd.onnx"], ["run", "odd.graft"], ["run", "odd.graft", "-i", "x.npz"],
    ["run", "odd.graft", "-i", "wrong.npz"], ["run", "odd.graft", "-i", "flat.npz"],
    ["run", "odd.graft", "--size", "length=3"],
    ["run", "odd.graft", "--outputs", "nothing"], ["run", "odd.graft", "--reference", "wrong.npz"],
    ["run", "odd.onnx", "--reference", "onnxruntime"], ["run", "odd.graft", "--mode", "interpret"],
    ["bench", "odd.graft", "--iterations", "2"], ["bench", "odd.onnx", "--iterations", "2", "--json", "-"],
    ["check", "odd.onnx"], ["check", "odd.onnx", "--reasons"], ["check", "broken.onnx"], ["check", "odd.graft"],
    ["inspect", "odd.graft", "--runs", "1"], ["inspect", "odd.graft", "--no-run", "--text"],
    ["inspect", "odd.graft", "--runs", "1", "--trace", "-"],
    ["opt", "odd.onnx"], ["opt", "odd.onnx", "--pass", "fold_constants"], ["opt", "broken.onnx"],
    ["compile", f"absent{ODD}.onnx"], ["run", "odd.graft", f"--option{ODD}"], [f"command{ODD}"], ["help", ODD],
    ["ops", ODD], ["cache", ODD], ["compile", "odd.onnx", "--target", ODD], ["compile", "odd.onnx", "--tune", ODD],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).replace(ODD, "ODD"))
@pytest.mark.parametrize("debug", ["", "5"])
def test_no_odd_name_reaches_a_stream(graft, odd, words, debug):
    environment = {**os.environ, "GRAFT_DEBUG": debug or "0", "GRAFT_DUMP": "graph,region,plan" if debug else ""}
    done = graft(*words, env=environment)
    for text in (done.stdout, done.stderr):
        assert not set(text) & {"\x1b", "\u009b", "\u202e"}, text
        assert not any(line.lstrip().startswith("FORGED") for line in text.split("\n")), text


def test_json_carries_names_whole(graft, odd):
    done = graft("inspect", "odd.graft", "--runs", "1", "--trace", "trace.json")
    assert done.returncode == 0, done.stderr
    text = (odd / "trace.json").read_text()
    assert text.isascii() and "multiply" + ODD in {event["name"] for event in json.loads(text)["traceEvents"]}


def test_texts_of_stages_read_back_with_their_names(graft, odd):
    for stage in ("import", "passes"):
        assert graft("compile", "odd.onnx", "--compile-to", stage, "-o", "stage.txt").returncode == 0
        done = graft("compile", "stage.txt", "--compile-from", stage, "-o", "again.graft", *FAST)
        assert done.returncode == 0, done.stderr
        printed = graft("compile", "odd.onnx", "--compile-to", stage).stdout
        assert printed.count("\n") == (odd / "stage.txt").read_text().count("\n")
        assert graft("run", "again.graft", "-i", "x.npz", "-o", "y.npz").returncode == 0
