# SPDX-License-Identifier: Apache-2.0
"""What docs/LIMITS.md and docs/TROUBLESHOOTING.md claim, tried."""

import re
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from conftest import COMMAND, ROOT
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def value(name, shape=(2,), element=FLOAT):
    return helper.make_tensor_value_info(name, element, shape)


def save(folder, nodes, shape=(2,), element=FLOAT, constants=(), inputs=(), opset=20):
    graph = helper.make_graph(nodes, "g", [value("x", shape, element), *inputs],
                              [value("y", None, element)], [numpy_helper.from_array(*pair) for pair in constants])
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(node.domain, 1) for node in nodes if node.domain]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "model.onnx")


def loop():
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["v", "v"], ["w"])],
                             "body", [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("v")],
                             [value("d", (), TensorProto.BOOL), value("w")])
    return helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)


def scan():
    body = helper.make_graph([helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Identity", ["t"], ["u"])],
                             "body", [value("s", ()), value("e", ())], [value("t", ()), value("u", ())])
    return helper.make_node("Scan", ["z", "x"], ["a", "y"], body=body, num_scan_inputs=1)


def condition():
    branches = {f"{name}_branch": helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [value(name)])
                for name, op in (("then", "Neg"), ("else", "Abs"))}
    return helper.make_node("If", ["b"], ["y"], **branches)


CONTROL_FLOW = {
    "loop": {"nodes": [loop()], "constants": [(np.array(3), "n")]},
    "scan": {"nodes": [scan()], "constants": [(np.float32(0), "z")]},
    "if": {"nodes": [condition()], "inputs": [value("b", (), TensorProto.BOOL)]},
}
SPLIT = helper.make_node("SplitToSequence", ["x"], ["s"])
JOIN = helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)
EACH = helper.make_node("SequenceMap", ["t"], ["s"], body=helper.make_graph(
    [helper.make_node("Neg", ["e"], ["f"])], "body", [value("e", (1,))], [value("f", (1,))]))
LISTS = {
    "sequence": {"nodes": [SPLIT, JOIN]},
    "optional": {"nodes": [helper.make_node("Optional", ["x"], ["o"]),
                           helper.make_node("OptionalGetElement", ["o"], ["y"])]},
    "open sequence": {"nodes": [SPLIT, JOIN], "shape": ("rows",)},
    "map": {"nodes": [helper.make_node("SplitToSequence", ["x"], ["t"]), EACH, JOIN]},
}
UNSUPPORTED = {
    "vendor": {"nodes": [helper.make_node("ATen", ["x"], ["y"], domain="org.pytorch.aten")]},
    "gradient": {"nodes": [helper.make_node("Gradient", ["x"], ["y"], domain="ai.onnx.preview.training", xs=["x"],
                                            y="x")]},
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_the_page_calls_unsupported_is_refused_by_name(graft, tmp_path, name):
    save(tmp_path, **UNSUPPORTED[name])
    done = graft("check", "model.onnx")
    assert done.returncode == 1 and "has no definition" in done.stdout, done.stdout + done.stderr
    assert graft("compile", "model.onnx").returncode == 1


@pytest.mark.parametrize("name", [*CONTROL_FLOW, *LISTS])
def test_control_flow_and_lists_run_without_the_interpreter(graft, tmp_path, name):
    save(tmp_path, **{**CONTROL_FLOW, **LISTS}[name])
    checked = graft("check", "model.onnx")
    assert checked.returncode == 0 and " 0 interpreter" in checked.stdout, checked.stdout + checked.stderr
    assert graft("run", "model.onnx", "--tune", "off").returncode == 0


def test_a_constant_condition_and_lengths_run(graft, tmp_path):
    save(tmp_path, [condition()], constants=[(np.array(True), "b")])
    assert graft("run", "model.onnx", "--tune", "off").returncode == 0
    weights = [(np.ones((1, 16, 3), np.float32), "w"), (np.ones((1, 16, 4), np.float32), "r")]
    save(tmp_path, [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4)], ("length", 1, 3),
         constants=weights)
    assert graft("run", "model.onnx", "--tune", "off", "--dim", "length=3").returncode == 0
    assert graft("run", "model.onnx", "--tune", "off", "--size", "length=5").returncode == 0


@pytest.mark.parametrize("name", ["int8", "fp8", "int4"])
def test_there_is_no_such_precision(graft, model, name):
    assert graft("run", "model.onnx", "--precision", name).returncode == 2


def provoke(graft, folder):
    """Everything that the commands say when they are used wrongly, one way after the other."""
    np.save(folder / "rank.npy", np.zeros(4, np.float32))
    np.save(folder / "type.npy", np.zeros((2, 4)))
    np.save(folder / "wide.npy", np.zeros((9, 4), np.float32))
    assert graft("compile", "model.onnx", "-o", "p.graft", "--tune", "off", "--dim", "batch=1:2:8").returncode == 0
    (folder / "cut.graft").write_bytes((folder / "p.graft").read_bytes()[:300])
    (folder / "cut.onnx").write_bytes((folder / "model.onnx").read_bytes()[:60])
    yield from (graft("run", *words) for words in [
        ["cut.graft"], ["cut.onnx"], ["model.onnx", "--dim", "nosuch=3"], ["p.graft", "--precision", "fp16"],
        ["p.graft", "-i", "wide.npy"], ["p.graft", "-i", "rank.npy"], ["p.graft", "-i", "type.npy"],
        ["p.graft", "-i", "model.onnx"], ["model.onnx", "--size", "batch=999999999999"],
        ["model.onnx", "--precision", "tf32"], ["model.onnx", "--target", "nosuch"], ["model.onnx", "--seed", "1"]])
    yield graft("bench", "p.graft", "--duration", "0.05", "--hint", "throughput", "--latency-bound", "0.000001us")
    np.savez(folder / "wrong.npz", y=np.zeros((2, 33), np.float32))
    yield graft("run", "model.onnx", "--size", "batch=2", "--reference", "wrong.npz")
    shutil.copy(COMMAND, folder / "graft")
    for cache in ("cache", "/proc/nosuch"):
        yield subprocess.run(["./graft", "check", "model.onnx"], cwd=folder, env={"GRAFT_CACHE": cache},
                             capture_output=True, text=True)
    yield subprocess.run([str(COMMAND), "run", "model.onnx"], cwd=folder, env={"GRAFT_CACHE": "/proc/nosuch"},
                         capture_output=True, text=True)
    save(folder, [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4)], ("length", 1, 3), constants=[
        (np.ones((1, 16, 3), np.float32), "w"), (np.ones((1, 16, 4), np.float32), "r")])
    yield graft("check", "model.onnx")
    save(folder, **UNSUPPORTED["vendor"])
    yield graft("check", "model.onnx")
    save(folder, [helper.make_node("Relu", ["x"], ["y"])], None)
    yield graft("check", "model.onnx")
    save(folder, [helper.make_node("Relu", ["x"], ["y"])], opset=99)
    yield graft("check", "model.onnx")


#: These need a GPU's absence, a machine that is not quiet, or a file that test_arrays.py writes.
ELSEWHERE = ("NVIDIA driver", "the times vary", "tuning: the times", "the peaks of this machine", "share bytes")


@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no gcc here")
def test_the_sample_of_the_c_header_compiles_without_a_warning(tmp_path):
    header = (ROOT / "include/graft/graft_c.h").read_text()
    lines = header[header.index(" *   graft_error error;"):].partition(" */")[0].splitlines()
    body = "\n".join(line.removeprefix(" *   ") for line in lines)
    (tmp_path / "sample.c").write_text(f'#include <stdio.h>\n#include "graft/graft_c.h"\nint main(void) {{\n{body}\n'
                                       "return 0;\n}\n")
    done = subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-fsyntax-only", "-I",
                           ROOT / "include", "sample.c"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_every_message_of_the_page_is_one_of_ours(graft, model, tmp_path):
    said = "".join(done.stdout + done.stderr for done in provoke(graft, tmp_path))
    rows = re.findall(r"^\| `([^`]+)`.*\|$", (ROOT / "docs" / "TROUBLESHOOTING.md").read_text(), re.MULTILINE)
    assert len(rows) > 15
    missing = [row for row in rows if row not in said and not any(part in row for part in ELSEWHERE)]
    assert not missing, said
