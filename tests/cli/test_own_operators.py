# SPDX-License-Identifier: Apache-2.0
"""Operators that users bring along: --ops with definitions as text and with functions of ONNX files."""

import os

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from conftest import COMMAND, ROOT
from onnx import TensorProto, helper

EXAMPLE = ROOT / "examples" / "own_operators" / "activations.graftops"
RANDOM = np.random.default_rng(3)
X, GATE = (RANDOM.standard_normal((3, 5, 33)).astype(np.float32) for _ in range(2))
SCALE = RANDOM.standard_normal(33).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def meaning(x, gate):
    """What own_model() computes."""
    gated = x * sigmoid(1.5 * x) * gate
    return np.tanh(gated / np.sqrt((gated * gated).mean(-1, keepdims=True) + 1e-5) * SCALE)


def own_model():
    """y = tanh(rms(gated_swish(x, gate)))."""
    nodes = [helper.make_node("GatedSwish", ["x", "gate"], ["gated"], name="swish", domain="example", beta=1.5),
             helper.make_node("RootMeanSquare", ["gated", "scale"], ["normal"], name="rms", domain="example"),
             helper.make_node("Tanh", ["normal"], ["y"], name="tanh")]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 5, 33]) for name in ("x", "gate", "y")]
    graph = helper.make_graph(nodes, "own", values[:2], values[2:], [onnx.numpy_helper.from_array(SCALE, "scale")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("example", 1)],
                             ir_version=9)


@pytest.fixture
def own(tmp_path):
    onnx.save(own_model(), tmp_path / "own.onnx")
    np.savez(tmp_path / "in.npz", x=X, gate=GATE)


def result(done, tmp_path):
    assert done.returncode == 0, done.stderr
    return np.load(tmp_path / "y.npy")


RUN = ("-i", "in.npz", "-o", "y.npy")


def test_without_their_definitions_they_are_named(graft, own):
    done = graft("run", "own.onnx", *RUN)
    assert done.returncode != 0 and "GatedSwish" in done.stderr, done.stderr


@pytest.mark.parametrize("mode", ["generated", "interpret"])
def test_definitions_compute_what_numpy_does(graft, own, tmp_path, mode):
    done = graft("run", "own.onnx", "--ops", EXAMPLE, "--tune", "off", "--mode", mode, *RUN)
    np.testing.assert_allclose(result(done, tmp_path), meaning(X, GATE), atol=1e-5)


EMULATOR = COMMAND.parent.parent / "emulator"


@pytest.mark.skipif(not (EMULATOR / "libcuda.so.1").exists(), reason="this build has no emulated GPU")
def test_definitions_become_kernels_of_a_gpu(graft, own, tmp_path):
    emulated = {**os.environ, "GRAFT_CACHE": "/dev/null", "GRAFT_DISABLE": "cublaslt,cudnn",
                "LD_PRELOAD": f"{EMULATOR}/libcuda.so.1:{EMULATOR}/libnvrtc.so.13"}
    done = graft("run", "own.onnx", "--ops", EXAMPLE, "--tune", "off", "--device", "cuda", "--dim", "batch=3", *RUN,
                 env=emulated)
    np.testing.assert_allclose(result(done, tmp_path), meaning(X, GATE), atol=1e-5)


def test_they_are_fused_and_compiled_like_any_other(graft, own):
    done = graft("check", "own.onnx", "--ops", EXAMPLE, "--tune", "off")
    assert done.returncode == 0, done.stderr
    assert "GatedSwish + RootMeanSquare + Tanh" in done.stdout, done.stdout
    assert "1 steps: 1 generated" in done.stdout, done.stdout


def test_a_plan_carries_them(graft, own, tmp_path):
    (tmp_path / "mine.graftops").write_text(EXAMPLE.read_text())
    done = graft("compile", "own.onnx", "--ops", "mine.graftops", "--tune", "off", "-o", "own.graft")
    assert done.returncode == 0, done.stderr
    (tmp_path / "mine.graftops").unlink()
    (tmp_path / "own.onnx").unlink()
    np.testing.assert_allclose(result(graft("run", "own.graft", *RUN), tmp_path), meaning(X, GATE), atol=1e-5)
    done = graft("run", "own.graft", "--ops", EXAMPLE, *RUN)
    assert done.returncode == 2 and "is chosen when a plan is compiled" in done.stderr, done.stderr


def test_an_exported_model_carries_them(graft, own, tmp_path):
    done = graft("compile", "own.onnx", "--ops", EXAMPLE, "--compile-to", "import", "-o", "whole.onnx")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(result(graft("run", "whole.onnx", "--tune", "off", *RUN), tmp_path), meaning(X, GATE),
                               atol=1e-5)
    done = graft("compile", "own.onnx", "--ops", EXAMPLE, "--compile-to", "import", "-o", "graph.txt")
    assert done.returncode == 0, done.stderr
    done = graft("compile", "graph.txt", "--compile-from", "import", "--ops", EXAMPLE, "-o", "own.graft")
    assert done.returncode == 2 and "a text has them already" in done.stderr, done.stderr


def test_functions_of_an_onnx_file_define_them_too(graft, own, tmp_path):
    constant = helper.make_node("Constant", [], ["two"], value=helper.make_tensor("two", TensorProto.INT64, [1], [-1]))
    swish = helper.make_function(
        "example", "GatedSwish", ["x", "gate"], ["y"],
        [helper.make_node("Constant", [], ["b"]), helper.make_node("Mul", ["x", "b"], ["bx"]),
         helper.make_node("Sigmoid", ["bx"], ["s"]), helper.make_node("Mul", ["x", "s"], ["xs"]),
         helper.make_node("Mul", ["xs", "gate"], ["y"])], [helper.make_opsetid("", 20)], ["beta"])
    reference = swish.node[0].attribute.add(name="value_float", ref_attr_name="beta")
    reference.type = onnx.AttributeProto.FLOAT
    rms = helper.make_function(
        "example", "RootMeanSquare", ["x", "scale"], ["y"],
        [constant, helper.make_node("Mul", ["x", "x"], ["xx"]), helper.make_node("ReduceMean", ["xx", "two"], ["m"]),
         helper.make_node("Constant", [], ["e"], value_float=1e-5), helper.make_node("Add", ["m", "e"], ["me"]),
         helper.make_node("Sqrt", ["me"], ["root"]), helper.make_node("Div", ["x", "root"], ["n"]),
         helper.make_node("Mul", ["n", "scale"], ["y"])], [helper.make_opsetid("", 20)])
    library = helper.make_model(helper.make_graph([], "none", [], []), functions=[swish, rms], ir_version=9,
                                opset_imports=[helper.make_opsetid("", 20)])
    onnx.save(library, tmp_path / "library.onnx")
    done = graft("run", "own.onnx", "--ops", "library.onnx", "--tune", "off", *RUN)
    np.testing.assert_allclose(result(done, tmp_path), meaning(X, GATE), atol=1e-5)
    listed = graft("ops", "example", "--ops", "library.onnx")
    assert "example.GatedSwish" in listed.stdout and "a function of 5 nodes" in listed.stdout, listed.stdout

    done = graft("run", "own.onnx", "--ops", "own.onnx", *RUN)
    assert done.returncode == 1 and "own.onnx: this ONNX file has no functions" in done.stderr, done.stderr


def test_the_list_of_operators_shows_them(graft):
    done = graft("ops", "RootMean", "--ops", EXAMPLE)
    assert done.returncode == 0 and "example.RootMeanSquare" in done.stdout and "times scale" in done.stdout


@pytest.mark.parametrize("text, told", [
    ("operator example::GatedSwish {\n  input x: f32[n]\n  output y: f32[n]\n"
     "  compute y over [i < n] { value z[i] }\n}", "mine.graftops, line 4, column 35"),
    ("operator example::Other {\n  input x: f32[]\n  output y: f32[]\n  compute y over [] { value x[] }\n",
     "expected '}' at the end of the definition"),
    ("\0\1\2", "mine.graftops, line 1, column 1")])
def test_a_wrong_file_is_refused_with_line_and_column(graft, own, tmp_path, text, told):
    (tmp_path / "mine.graftops").write_text(text)
    done = graft("run", "own.onnx", "--ops", "mine.graftops", *RUN)
    assert done.returncode == 1 and told in done.stderr, done.stderr


def test_shapes_that_do_not_fit_name_the_node(graft, own, tmp_path):
    np.savez(tmp_path / "in.npz", x=X, gate=GATE)
    definition = EXAMPLE.read_text().replace("input scale: T[n]", "input scale: T[2*n]")
    (tmp_path / "mine.graftops").write_text(definition.replace("* scale[i]", "* scale[2*i]"))
    done = graft("run", "own.onnx", "--ops", "mine.graftops", *RUN)
    assert done.returncode == 1 and "node 'rms'" in done.stderr and "[2*n]" in done.stderr, done.stderr


def test_reading_outside_of_a_tensor_is_an_error_of_the_run(graft, own, tmp_path):
    definition = EXAMPLE.read_text().replace("* scale[i]", "* scale[i + 1000000]")
    (tmp_path / "mine.graftops").write_text(definition)
    for mode in ("generated", "interpret"):
        done = graft("run", "own.onnx", "--ops", "mine.graftops", "--tune", "off", "--mode", mode, *RUN)
        assert done.returncode == 1 and "out of range" in done.stderr, (mode, done.stderr)


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
