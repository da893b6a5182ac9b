# SPDX-License-Identifier: Apache-2.0
"""Results of `graft run`: strings and sequences in JSON files, and numbers that are none."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper


@pytest.fixture(name="model", autouse=True)
def fixture_model(tmp_path):
    """Splits strings, and appends a tensor to a sequence."""
    nodes = [helper.make_node("StringSplit", ["x"], ["parts", "counts"], delimiter=" "),
             helper.make_node("SequenceInsert", ["xs", "counts"], ["ys"])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.STRING, ["n"]),
              helper.make_tensor_sequence_value_info("xs", TensorProto.INT64, ["n"])]
    outputs = [helper.make_tensor_value_info("parts", TensorProto.STRING, ["n", "m"]),
               helper.make_tensor_value_info("counts", TensorProto.INT64, ["n"]),
               helper.make_tensor_sequence_value_info("ys", TensorProto.INT64, ["n"])]
    graph = helper.make_graph(nodes, "values", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11),
              tmp_path / "model.onnx")
    (tmp_path / "x.json").write_text(json.dumps(["a b", "\N{EURO SIGN}"]))
    (tmp_path / "xs.json").write_text("[[7, 8, 9], []]")


def run(graft, *words):
    return graft("run", "model.onnx", "--tune", "off", "-i", "x=x.json", "-i", "xs=xs.json", *words)


def test_go_in_and_come_out(graft, tmp_path):
    done = run(graft, "-o", "y.json")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "y.json").read_text()) == {
        "parts": [["a", "b"], ["\N{EURO SIGN}", ""]], "counts": [2, 1], "ys": [[7, 8, 9], [], [2, 1]]}
    assert 'ys  a sequence of 3  [[7,8,9],[],[2,1]]' in done.stdout


def test_are_stored_in_json_alone(graft, tmp_path):
    done = run(graft, "-o", "y.npz")
    assert done.returncode != 0 and "go into FILE.json" in done.stderr
    assert run(graft, "-o", "y.npz", "--outputs", "counts").returncode == 0
    faults = {"[[1, [2]]]": "is no i64", '["a"]': "is no i64", "[[[1, 2], [3]]]": "differ in length", "{}": "is a list",
              "[": "no JSON"}
    for text, fault in faults.items():
        (tmp_path / "xs.json").write_text(text)
        done = run(graft)
        assert done.returncode != 0 and fault in done.stderr and "xs.json" in done.stderr, (text, done.stderr)


def test_are_not_made_up(graft):
    done = graft("run", "model.onnx", "--tune", "off")
    assert done.returncode != 0 and "give x=FILE.json" in done.stderr


def test_results_that_are_not_numbers_are_counted(graft, tmp_path):
    graph = helper.make_graph([helper.make_node("Log", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.array([1, -1, -2, 0, np.e], np.float32))
    done = graft("run", "m.onnx", "--input", "x.npy")
    assert "0 to 1, 2 NaN, 1 infinite: " in done.stdout + done.stderr, done.stdout + done.stderr
    assert "2 of 5 elements of the result 'y' are NaN" in done.stderr
    outputs = json.loads(graft("run", "m.onnx", "--input", "x.npy", "--json", "-").stdout)["outputs"]
    assert outputs[0]["nan"] == 2 and outputs[0]["min"] == 0
