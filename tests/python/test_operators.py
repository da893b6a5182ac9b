# SPDX-License-Identifier: Apache-2.0
"""Operators of one's own: functions over expressions, and what compile() takes."""

import os
import subprocess
import sys
from typing import Annotated

import graft
import numpy as np
import pytest
from conftest import BUILD, ROOT
from graft import operators as op
from onnx import TensorProto, helper

X = np.random.default_rng(2).standard_normal((3, 4, 9)).astype(np.float32)


def one_node(name, inputs, outputs, **attributes):
    """A model of one node of the domain `own`; inputs and outputs are arrays of the same types and shapes."""
    def infos(letter, arrays):
        return [helper.make_tensor_value_info(f"{letter}{number}", helper.np_dtype_to_tensor_dtype(array.dtype),
                                              array.shape) for number, array in enumerate(arrays)]
    ins, outs = infos("x", inputs), infos("y", outputs)
    node = helper.make_node(name, [each.name for each in ins], [each.name for each in outs], name="it", domain="own",
                            **attributes)
    return helper.make_model(helper.make_graph([node], "one", ins, outs), ir_version=9,
                             opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("own", 1)])


def agrees(definition, inputs, outputs, atol=1e-5, **attributes):
    """The definition computes the outputs, by generated kernels and in the interpreter."""
    model = one_node(definition.name.split("::")[1], inputs, outputs, **attributes)
    for mode in ("generated", "interpret"):
        engine = graft.compile(model, tune="off", mode=mode, ops=[definition])
        results = engine.run({f"x{number}": array for number, array in enumerate(inputs)})
        for number, output in enumerate(outputs):
            np.testing.assert_allclose(results[f"y{number}"], output, atol=atol, err_msg=f"{mode} {definition.text}")


@graft.operator("own::Softmax")
def softmax(x: "T[..., n]") -> ("T[..., n]", "T[...]"):
    "softmax, and the logarithm of its denominator"
    most = x.max("n")
    powers = op.exp(x - most)
    total = powers.sum("n")
    return powers / total, most + op.log(total)


def test_annotations_that_type_checkers_know_say_the_same():
    first, second = Annotated[op.Tensor, "T[..., n]"], Annotated[op.Tensor, "T[...]"]

    @graft.operator("own::Softmax")
    def typed(x: first) -> tuple[first, second]:
        "softmax, and the logarithm of its denominator"
        most = x.max("n")
        powers = op.exp(x - most)
        total = powers.sum("n")
        return powers / total, most + op.log(total)

    assert typed.text == softmax.text
    names = {"Annotated": Annotated, "Tensor": op.Tensor, "graft": graft}
    exec("from __future__ import annotations\n"  # annotations are texts then
         "@graft.operator('own::Both')\n"
         "def both(x: Annotated[Tensor, 'T[..., n]'], k: Annotated[Tensor, 'i64[n]']) -> "
         "tuple[Annotated[Tensor, 'T[..., n]'], Annotated[Tensor, 'i64[n]']]:\n    return x + x, k\n", names)
    assert "input x: T[..., n]" in names["both"].text and "output y1: i64[n]" in names["both"].text


def test_a_function_of_reductions_and_maps():
    most = X.max(-1, keepdims=True)
    powers = np.exp(X - most)
    total = powers.sum(-1, keepdims=True)
    agrees(softmax, [X], [powers / total, (most + np.log(total))[..., 0]])


def test_half_precision_is_computed_in_single():
    half = X.astype(np.float16)
    wide = half.astype(np.float32)
    powers = np.exp(wide - wide.max(-1, keepdims=True))
    agrees(softmax, [half], [(powers / powers.sum(-1, keepdims=True)).astype(np.float16),
                             np.log(np.exp(wide).sum(-1)).astype(np.float16)], atol=4e-3)


def test_named_axes_make_a_matrix_product():
    @graft.operator("own::Product")
    def product(a: "T[..., m, k]", b: "T[k, n]") -> "T[..., m, n]":
        return (a * b).sum("k")
    weights = np.random.default_rng(3).standard_normal((9, 6)).astype(np.float32)
    agrees(product, [X, weights], [X @ weights])


def test_attributes_conditions_and_positions():
    @graft.operator("own::Causal")
    def causal(x: "T[..., m, n]", *, shift: int = 0, low: float) -> "T[..., m, n]":
        return op.where(op.position("n") <= op.position("m") + shift, x * low, -1)
    keep = np.tril(np.ones((4, 9), bool), 2)
    agrees(causal, [X], [np.where(keep, X * 0.5, -1).astype(np.float32)], shift=2, low=0.5)


def test_integers():
    @graft.operator("own::Collatz", types={"T": "integer"})
    def collatz(x: "T[...]") -> "T[...]":
        return op.where(x % 2 == 0, x // 2, 3 * x + 1)
    numbers = np.arange(1, 20, dtype=np.int32)
    agrees(collatz, [numbers], [np.where(numbers % 2 == 0, numbers // 2, 3 * numbers + 1).astype(np.int32)])


def test_an_expression_that_is_used_again_and_again_stays_small():
    @graft.operator("own::Grow")
    def grow(x: "T[...]") -> "T[...]":
        for _ in range(40):
            x = op.tanh(x * x + x)
        return x
    assert len(grow.text) < 64 << 10
    expected = X
    for _ in range(40):
        expected = np.tanh(expected * expected + expected)
    agrees(grow, [X], [expected], atol=1e-4)


def test_registered_operators_are_known_to_every_call(monkeypatch):
    monkeypatch.setattr(op, "_REGISTERED", [])
    model = one_node("Softmax", [X], [X, X[..., 0]])
    with pytest.raises(graft.UnsupportedError, match="Softmax"):
        graft.compile(model, tune="off")
    graft.register(softmax)
    assert graft.compile(model, tune="off")
    assert all(record["way"] == "generated" for record in graft.check(model, tune="off"))


def test_texts_files_and_saved_operators_are_taken(tmp_path):
    softmax.save(tmp_path / "own.graftops")
    model = one_node("Softmax", [X], [X, X[..., 0]])
    for given in (softmax, softmax.text, tmp_path / "own.graftops", [str(tmp_path / "own.graftops")]):
        assert graft.compile(model, tune="off", ops=given)


def test_a_saved_plan_holds_its_operators(tmp_path):
    engine = graft.compile(one_node("Softmax", [X], [X, X[..., 0]]), tune="off", ops=[softmax])
    engine.save(tmp_path / "own.graft")
    program = ("import graft, numpy, sys; x = numpy.load(sys.argv[1]); "
               "numpy.save(sys.argv[2], graft.load(sys.argv[3]).run({'x0': x})['y0'])")
    np.save(tmp_path / "x.npy", X)
    subprocess.run([sys.executable, "-c", program, "x.npy", "y.npy", "own.graft"], cwd=tmp_path, check=True,
                   timeout=300, env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), engine.run({"x0": X})["y0"])


def refused(function, name="own::Odd"):
    with pytest.raises(graft.InvalidArgumentError) as caught:
        graft.operator(name)(function)
    return str(caught.value)


def test_what_cannot_be_traced_is_refused_with_the_reason():
    def unnamed(x) -> "T[n]":
        return x

    def decides(x: "T[n]") -> "T[n]":
        return x if x > 0 else -x

    def reduces(x: "T[n]") -> "T[]":
        return x.sum("m")

    def wrong_axes(x: "T[n]") -> "T[]":
        return x

    def foreign(x: "T[n]") -> "T[n]":
        return x + object()

    assert "the input 'x' is annotated with" in refused(unnamed)
    assert "use where()" in refused(decides)
    assert "a reduction over ('m',)" in refused(reduces)
    assert "returns a value with the axes ('n',)" in refused(wrong_axes)
    assert "is no number and no expression" in refused(foreign)
    with pytest.raises(graft.InvalidArgumentError, match="inside of a function"):
        op.exp(1)


def test_a_wrong_definition_is_an_argument_error_with_its_place():
    with pytest.raises(graft.InvalidArgumentError, match="line 2, column"):
        graft.compile(one_node("Softmax", [X], [X]), ops="operator own::X {\n nonsense }\n")
    with pytest.raises(graft.InvalidArgumentError):
        graft.compile(one_node("Softmax", [X], [X]), ops=3)


def test_the_example_runs():
    example = ROOT / "examples" / "own_operators" / "own_operators.py"
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert done.returncode == 0 and "computes what numpy does" in done.stdout, done.stderr
