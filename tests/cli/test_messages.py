# SPDX-License-Identifier: Apache-2.0
"""What the command says of models that cannot run, and of results that are no numbers."""

import json

import numpy as np
import onnx
from onnx import TensorProto, helper


def test_what_follows_from_an_unknown_operator_is_no_cause(graft, tmp_path):
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])]
    for name, reader in (("product", helper.make_node("MatMul", ["u", "w"], ["y"], name="reader")),
                         ("scores", helper.make_node("SkipLayerNormalization", ["u", "u", "v"], ["y"], name="reader",
                                                     domain="com.microsoft"))):
        nodes = [helper.make_node("Geluu", ["x"], ["u"], name="it"), reader]
        weights = [onnx.numpy_helper.from_array(np.ones(shape, np.float32), key) for key, shape in (("w", (4, 3)),
                                                                                                    ("v", (4,)))]
        graph = helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info("y")], weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18),
                                                          helper.make_opsetid("com.microsoft", 1)], ir_version=9),
                  tmp_path / "m.onnx")
        for command in ("compile", "run", "check"):
            done = graft(command, "m.onnx")
            text = done.stdout + done.stderr
            assert done.returncode == 1, name
            assert "the operator Geluu has no definition; did you mean 'Gelu'?" in text, text
            assert "--ops" in text and "graft check" in text, text
            assert "--shapes" not in text and "state the shapes" not in text, text


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
