# SPDX-License-Identifier: Apache-2.0
"""`graft reduce`: a small model that fails as a large one does."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

LAYERS = 12


@pytest.fixture
def deep(tmp_path):
    """A chain of products and Relus with one Erf in it, on x[batch, 16]."""
    random = np.random.default_rng(3)
    nodes, weights, last = [], [], "x"
    for layer in range(LAYERS):
        weights.append(numpy_helper.from_array(random.standard_normal((16, 16)).astype(np.float32), f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{layer}"], [f"p{layer}"], name=f"multiply_{layer}"))
        op = "Erf" if layer == 7 else "Relu"
        nodes.append(helper.make_node(op, [f"p{layer}"], [f"h{layer}"], name=f"{op}_{layer}"))
        last = f"h{layer}"
    graph = helper.make_graph(nodes, "deep", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16])],
                              [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["batch", 16])], weights)
    path = tmp_path / "deep.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def checker(tmp_path, condition):
    """A command that fails with status 3 where a condition on the model holds."""
    script = tmp_path / "check.py"
    script.write_text("import onnx, sys\nmodel = onnx.load(sys.argv[1])\nonnx.checker.check_model(model)\n"
                      "ops = [node.op_type for node in model.graph.node]\n"
                      f"sys.exit(3 if {condition} else 0)\n")
    return f"{sys.executable} {script}"


def test_one_node_is_left_of_a_fault_in_one_node(graft, deep, tmp_path):
    words = ("reduce", "deep.onnx", "--check", checker(tmp_path, "'Erf' in ops"), "--json", "facts.json")
    done = graft(*words, "-o", "small.onnx")
    assert done.returncode == 0, done.stderr
    small = onnx.load(tmp_path / "small.onnx")
    onnx.checker.check_model(small)
    assert [node.name for node in small.graph.node] == ["Erf_7"]
    assert not small.graph.initializer and small.opset_import[0].version == 17
    assert [dim.dim_value for dim in small.graph.input[0].type.tensor_type.shape.dim] == [1, 1]
    onnxruntime.InferenceSession(str(tmp_path / "small.onnx"), providers=["CPUExecutionProvider"])
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["nodes"] == 1 and facts["of_nodes"] == 2 * LAYERS and facts["fault"] == "ends with status 3"
    graft(*words, "-o", "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "small.onnx").read_bytes()


def test_what_a_fault_needs_stays(graft, deep, tmp_path):
    condition = "'Erf' in ops and ops.count('MatMul') >= 2 and len(model.graph.initializer) >= 1"
    done = graft("reduce", "deep.onnx", "--check", checker(tmp_path, condition), "-o", "small.onnx")
    assert done.returncode == 0, done.stderr
    ops = [node.op_type for node in onnx.load(tmp_path / "small.onnx").graph.node]
    assert sorted(ops) == ["Erf", "MatMul", "MatMul"]


def test_a_fault_of_another_kind_does_not_count(graft, deep, tmp_path):
    # Without its Erf the model fails with another status.
    check = checker(tmp_path, "'Erf' in ops and len(ops) > 3")
    script = tmp_path / "check.py"
    script.write_text(script.read_text().replace("else 0", "else 4"))
    assert graft("reduce", "deep.onnx", "--check", check, "-o", "small.onnx").returncode == 0
    assert len(onnx.load(tmp_path / "small.onnx").graph.node) == 4


def test_results_that_differ_are_a_built_in_fault(graft, deep, tmp_path):
    # In bf16 a product is farther from f32 than rounding in f32 explains.
    allowed = ["--precision", "bf16", "--rtol", "1e-5", "--atol", "1e-5"]
    done = graft("reduce", "deep.onnx", "--fails", "onnxruntime", *allowed, "--tune", "off", "-o", "small.onnx")
    assert done.returncode == 0 and "differs from onnxruntime" in done.stdout, done.stderr
    small = onnx.load(tmp_path / "small.onnx")
    assert len(small.graph.node) == 1
    assert graft("run", "small.onnx", "--reference", "onnxruntime", *allowed).returncode == 1
    done = graft("reduce", "deep.onnx", "--fails", "onnxruntime", *allowed[:2], "--tune", "off", "-o", "no.onnx")
    assert done.returncode == 1 and "does not fail" in done.stderr  # within what bf16 explains


@pytest.mark.parametrize("words, status, said", [
    (["--fails", "interpreter", "--tune", "off"], 1, "does not fail"),
    ([], 2, "either --check or --fails"),
    (["--fails", "interpreter", "--precision", "fp7"], 2, "precision"),
])
def test_wrong_use_is_said(graft, deep, tmp_path, words, status, said):
    done = graft("reduce", "deep.onnx", *words, "-o", "small.onnx")
    assert done.returncode == status and said in done.stderr, done.stderr
    assert not (tmp_path / "small.onnx").exists()
