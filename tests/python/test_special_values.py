# SPDX-License-Identifier: Apache-2.0
"""NaN, infinities, zeros of both signs and denormals in scalar primitives; indices and sizes that cannot be."""

import math

import graft
import numpy as np
import pytest
from onnx import helper

from onnx_models import FLOAT, INT64, model_of, value

TINY = np.float32(1e-45)  # the smallest denormal
SPECIAL = np.array([math.nan, math.inf, -math.inf, 0.0, -0.0, TINY, -TINY, 1.1e-38, -1.1e-38, 1.0, -1.0, 0.5, -0.5, 1.5,
                    -1.5, 2.5, -2.5, 3e38, -3e38, 88.0, -104.0], np.float32)
_ERF = np.vectorize(math.erf, otypes=[np.float64])

# What each operator gives by IEEE 754 and the standard, from its input in f64.
UNARY = {
    "Abs": np.abs, "Neg": np.negative, "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt, "Reciprocal": np.reciprocal,
    "Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan,
    "Sinh": np.sinh, "Cosh": np.cosh, "Tanh": np.tanh, "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh,
    "Erf": _ERF, "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint, "Sign": np.sign,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Softplus": lambda x: np.logaddexp(x, 0), "Identity": lambda x: x,
    "IsNaN": np.isnan, "IsInf": np.isinf, "Softsign": lambda x: x / (1 + np.abs(x)),
}
BINARY = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Min": np.minimum, "Max": np.maximum,
    "Pow": np.power, "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
}
# The standard says nothing of the sign of a zero that is the least or the largest of two zeros.
ANY_ZERO = {"Min", "Max"}
BOUNDED = {"Sin", "Cos", "Tan"}  # of arguments up to 1e5


def ran(nodes, feeds, outputs, constants=()):
    """The results of a model of these nodes, by generated kernels."""
    kinds = {"float32": FLOAT, "int64": INT64}
    inputs = [value(name, kinds[array.dtype.name], list(array.shape)) for name, array in feeds.items()]
    results = [value(name, kind, [f"{name}{axis}" for axis in range(rank)]) for name, kind, rank in outputs]
    model = model_of(nodes, inputs, results, constants)
    engine = graft.compile(model, tune="off")
    assert engine.describe()["ways"]["interpreter"] == 0
    return graft.Session(engine).run(feeds)


def assert_same(got, wanted, signs=True):
    """Equal but for rounding: NaN where NaN is, infinities and zeros of the same sign, denormals kept."""
    got = np.asarray(got, np.float64)
    wanted = np.asarray(wanted).astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    real = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isinf(got[real]), np.isinf(wanted[real]))
    np.testing.assert_allclose(got[real], wanted[real], rtol=2e-6, atol=3e-45)
    if signs:
        zero = real & (wanted == 0)
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(wanted[zero]))


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_special_values(name):
    x = SPECIAL if name not in BOUNDED else SPECIAL[np.isnan(SPECIAL) | (np.abs(SPECIAL) < 1e5) | np.isinf(SPECIAL)]
    truth = name.startswith("Is")
    nodes = [helper.make_node(name, ["x"], ["r"])]
    nodes.append(helper.make_node("Cast" if truth else "Identity", ["r"], ["y"], **({"to": FLOAT} if truth else {})))
    with np.errstate(all="ignore"):
        wanted = UNARY[name](x.astype(np.float64))
    assert_same(ran(nodes, {"x": x}, [("y", FLOAT, 1)])["y"], wanted, not truth)


@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_special_values(name):
    a, b = (part.reshape(-1).copy() for part in np.meshgrid(SPECIAL, SPECIAL, indexing="ij"))
    truth = BINARY[name](a[:1], b[:1]).dtype == bool
    nodes = [helper.make_node(name, ["a", "b"], ["r"])]
    nodes.append(helper.make_node("Cast" if truth else "Identity", ["r"], ["y"], **({"to": FLOAT} if truth else {})))
    with np.errstate(all="ignore"):
        wanted = BINARY[name](a, b)
    assert_same(ran(nodes, {"a": a, "b": b}, [("y", FLOAT, 1)])["y"], wanted, name not in ANY_ZERO and not truth)


@pytest.mark.parametrize("op, indices, attributes", [
    ("Gather", [[3]], {"axis": 0}), ("Gather", [[-4]], {"axis": 0}), ("GatherElements", [[7, 0]], {"axis": 0}),
    ("GatherND", [[0, 2]], {}), ("ScatterElements", [[0, -9]], {"axis": 0}), ("ScatterND", [[5, 0]], {})])
def test_an_index_out_of_range_is_an_error_that_names_the_node(op, indices, attributes):
    array = np.array(indices, np.int64)
    updates = {"ScatterElements": np.ones((1, 2), np.float32), "ScatterND": np.ones(1, np.float32)}.get(op)
    feeds = {"x": np.zeros((3, 2), np.float32), "i": array} | ({} if updates is None else {"u": updates})
    nodes = [helper.make_node(op, list(feeds), ["r"], name="reader", **attributes),
             helper.make_node("Relu", ["r"], ["y"])]
    with pytest.raises(graft.Error, match="reader"):
        ran(nodes, feeds, [("y", FLOAT, {"Gather": 3, "GatherND": 1}.get(op, 2))])


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_an_integer_divided_by_zero_is_an_error_that_names_where(op):
    feeds = {"a": np.array([4, 5, -7], np.int64), "b": np.array([3, 0, 0], np.int64)}
    with pytest.raises(graft.InvalidArgumentError, match=f"node '{op}': an integer is divided by zero"):
        ran([helper.make_node(op, ["a", "b"], ["y"])], feeds, [("y", INT64, 1)])


@pytest.mark.parametrize("op, shape", [
    ("Expand", [4, 3]), ("Expand", [1 << 40, 1 << 40]), ("Expand", [1 << 62, 3]),
    ("Reshape", [-2, 3]), ("Reshape", [1 << 62, 8]),
    ("Tile", [1 << 61, 1 << 3]), ("Pad", [0, 0, 1 << 62, 1 << 62]), ("Pad", [-5, 0, -5, 0]),
    ("ConstantOfShape", [-1, 2]), ("ConstantOfShape", [1 << 33, 1 << 33])])
def test_sizes_that_no_tensor_has_are_an_error_that_names_where(op, shape):
    feeds = {"x": np.zeros((2, 3), np.float32), "s": np.array(shape, np.int64)}
    inputs = ["s"] if op == "ConstantOfShape" else ["x", "s"]
    if op == "ConstantOfShape":
        feeds.pop("x")
    nodes = [helper.make_node(op, inputs, ["r"], name="sized"), helper.make_node("Relu", ["r"], ["y"])]
    with pytest.raises(graft.Error, match="node|tensor|overflows"):
        ran(nodes, feeds, [("y", FLOAT, 2)])
