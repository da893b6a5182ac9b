# SPDX-License-Identifier: Apache-2.0
"""--precision as users of the command meet it: what is printed, kept in the plan, refused."""

import re

import numpy as np
import onnx
import pytest
from conftest import expected, two_layers
from onnx import TensorProto, helper, numpy_helper

BATCH = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)


def compile_as(graft, precision, *words):
    """Compiles the small model; gives the lines that the command printed."""
    done = graft("compile", "model.onnx", "-o", "plan.graft", "--tune", "off", "--precision", precision, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("precision", "bound"), [("fp16", 2e-3), ("bf16", 2e-2)])
def test_a_plan_of_lower_precision_takes_and_gives_f32(graft, model, tmp_path, precision, bound):
    compile_as(graft, precision)
    np.save(tmp_path / "x.npy", BATCH)
    done = graft("run", "plan.graft", "--input", "x=x.npy", "--output", "y.npz")
    assert done.returncode == 0, done.stderr
    result, reference = np.load(tmp_path / "y.npz")["y"], expected(two_layers(), BATCH)
    assert result.dtype == np.float32
    error = np.abs(result - reference).max() / np.ptp(reference)
    assert 0 < error < bound


@pytest.mark.parametrize(("precision", "bound"), [("fp16", 0.2), ("bf16", 2)])
def test_the_error_is_printed_in_one_line(graft, model, precision, bound):
    lines = compile_as(graft, precision)
    assert len(lines) == 2
    found = re.fullmatch(precision + r" against fp32: y: (\S+) \((\S+) % of its range\)", lines[1])
    assert found and 0 < float(found[1]) and 0 < float(found[2]) < bound, lines[1]


def test_the_error_may_be_left_out_and_needs_this_machine(graft, model):
    assert "not measured" in compile_as(graft, "fp16", "--error-limit", "0")[1]
    assert "not measured" in compile_as(graft, "fp16", "--error-limit", "1e-6")[1]
    assert len(compile_as(graft, "fp32")) == 1


def test_the_choice_stands_in_the_plan(graft, model):
    for precision in ("fp32", "bf16"):
        compile_as(graft, precision)
        shown = graft("inspect", "plan.graft", "--no-run")
        assert f"option precision = {precision}" in shown.stdout


def test_the_same_choices_give_the_same_plan(graft, model, tmp_path):
    compile_as(graft, "fp16")
    first = (tmp_path / "plan.graft").read_bytes()
    compile_as(graft, "fp16")
    assert (tmp_path / "plan.graft").read_bytes() == first


@pytest.mark.parametrize(("words", "message"), [
    (["--precision", "half"], "'half' is not one of fp32, tf32, fp16, bf16"),
    (["--precision", "tf32"], "no units that multiply tf32"),
    (["--precision", "tf32", "--target", "x86-64-v3"], "x86-64-v3 has no units that multiply tf32"),
])
def test_what_a_machine_lacks_is_wrong_usage(graft, model, words, message):
    done = graft("compile", "model.onnx", *words)
    assert done.returncode == 2 and message in done.stderr


def test_a_graph_after_the_passes_is_not_lowered_again(graft, model):
    assert graft("compile", "model.onnx", "--compile-to", "passes", "-o", "text").returncode == 0
    done = graft("compile", "text", "--compile-from", "passes", "--precision", "fp16", "-o", "plan.graft")
    assert done.returncode == 2 and "the passes lower the precision" in done.stderr


def test_weights_that_do_not_fit_are_reasons(graft, tmp_path):
    weights = numpy_helper.from_array(np.full((4, 4), 1e5, np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "large")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy")
    graph = helper.make_graph([node], "g", [x], [y], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
              tmp_path / "large.onnx")
    done = graft("check", "large.onnx", "--precision", "fp16", "--tune", "off", "--reasons")
    assert done.returncode == 0, done.stderr
    assert "lower_precision: large: stays f32: a constant of it holds 100000" in done.stdout
