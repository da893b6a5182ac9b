# SPDX-License-Identifier: Apache-2.0
"""`graft compare`: two models, plans or precisions, tensor by tensor."""

import json

import numpy as np
import onnx
import pytest
from conftest import two_layers
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture
def wrong(tmp_path):
    """The small model with another bias: `sum` and what follows are wrong, `product` is right."""
    changed = two_layers()
    bias = changed.graph.initializer[1]
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + np.float32(1), "b"))
    onnx.save(changed, tmp_path / "wrong.onnx")


def test_a_model_agrees_with_itself(graft, model):
    done = graft("compare", "model.onnx", "model.onnx", "--mode-a", "interpret", "--size", "batch=3", "--all")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 3 tensors agree" in done.stdout and "WRONG" not in done.stdout
    assert done.stdout.index("product") < done.stdout.index("sum") < done.stdout.index("\ny")


def test_the_first_tensor_that_goes_wrong_is_marked(graft, model, wrong, tmp_path):
    done = graft("compare", "model.onnx", "wrong.onnx", "--all", "--json", "rows.json")
    assert done.returncode == 1, done.stderr
    assert "-> sum" in done.stdout and "-> y" not in done.stdout
    assert "the first that goes wrong is 'sum' (Add add)" in done.stdout, done.stdout
    report = json.loads((tmp_path / "rows.json").read_text())
    assert report["first_wrong"] == "sum" and not report["agrees"]
    assert [row["agrees"] for row in report["tensors"]] == [True, False, False]
    assert report["tensors"][1]["max_error"] == pytest.approx(1, rel=1e-4)


def test_precisions_are_compared_with_their_own_tolerance(graft, model):
    for precision in ("fp16", "bf16"):
        done = graft("compare", "model.onnx", "model.onnx", "--precision-b", precision, "--all")
        assert done.returncode == 0, done.stdout + done.stderr
    done = graft("compare", "model.onnx", "model.onnx", "--precision-b", "bf16", "--rtol", "1e-6", "--atol", "1e-6")
    assert done.returncode == 1 and "WRONG" in done.stdout


def squares(folder):
    """A product, and squares of it in f32: what f16 loses in the product stands in an f32 result."""
    size = 64
    weights = np.random.default_rng(7).standard_normal((size, size)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Pow", ["p", "two"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, size])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.float32(2), "two")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              folder / "squares.onnx")


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_an_f32_result_of_a_mixed_model_is_judged_by_what_it_was_rounded_to(graft, tmp_path, precision):
    squares(tmp_path)
    assert graft("convert", "squares.onnx", "--precision", precision, "-o", "mixed.onnx").returncode == 0
    for flags in (["--all"], ["--results"], []):
        done = graft("compare", "squares.onnx", "mixed.onnx", *flags)
        assert done.returncode == 0, done.stdout + done.stderr
    shown = json.loads(graft("compare", "squares.onnx", "mixed.onnx", "--results", "--json", "-").stdout)["tensors"]
    assert [row["name"] for row in shown] == ["y"]
    same = json.loads(graft("compare", "squares.onnx", "squares.onnx", "--results", "--json", "-").stdout)["tensors"]
    assert shown[0]["allowed_relative"] > 10 * same[0]["allowed_relative"] > 0
    assert shown[0]["max_error"] > same[0]["allowed_absolute"]  # WRONG by the tolerance of f32


def test_a_plan_is_compared_with_a_model(graft, model, wrong):
    graft("compile", "model.onnx", "-o", "plan.graft", "--tune", "off")
    assert graft("compare", "model.onnx", "plan.graft", "--size", "batch=2").returncode == 0
    assert graft("compare", "plan.graft", "wrong.onnx", "--size", "batch=2").returncode == 1
    done = graft("compare", "model.onnx", "plan.graft", "--precision-b", "fp16")
    assert done.returncode == 2 and "plan" in done.stderr


def test_without_all_fusion_stays_as_it_is(graft, model):
    done = graft("compare", "model.onnx", "model.onnx")
    assert done.returncode == 0 and "1 of 1 tensors agree" in done.stdout, done.stdout


def test_what_cannot_be_compared_is_said(graft, model, tmp_path):
    other = two_layers()
    for node in other.graph.node:
        node.output[0] += "_other"
        node.input[0] += "_other" if node.input[0] != "x" else ""
    other.graph.output[0].name += "_other"
    onnx.save(other, tmp_path / "other.onnx")
    done = graft("compare", "model.onnx", "other.onnx")
    assert done.returncode == 1 and "the same name in both" in done.stderr
    done = graft("compare", "model.onnx", "missing.onnx")
    assert done.returncode == 1 and "missing.onnx" in done.stderr


def test_the_interpreter_is_a_reference(graft, model):
    done = graft("run", "model.onnx", "--size", "batch=3", "--reference", "interpreter", "--json", "-")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["agrees"] and report["compared"][0]["name"] == "y"
    graft("compile", "model.onnx", "-o", "plan.graft", "--tune", "off")
    assert graft("run", "plan.graft", "--reference", "interpreter").returncode == 0
