# SPDX-License-Identifier: Apache-2.0
"""An operator of one's own in each of the three ways, in one network, and the plan that holds them all.

    python own_operators.py         # needs graft, numpy and onnx
"""

import pathlib
import tempfile
from typing import Annotated

import graft
import numpy as np
from graft import operators as op
from graft.operators import Tensor
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).resolve().parent


# 1. A function over expressions of named axes: it runs once, here, and becomes a definition as text.
@graft.operator("example::Standardise")
def standardise(x: Annotated[Tensor, "T[..., n]"], *, epsilon: float = 1e-5) -> Annotated[Tensor, "T[..., n]"]:
    "x with mean 0 and variance 1 along its last axis"
    centred = x - x.mean("n")
    return centred / op.sqrt((centred * centred).mean("n") + epsilon)


def function_library(path):
    """2. A function of an ONNX file, whatever else is in it: example::Halve(x) = x / 2."""
    halve = helper.make_function("example", "Halve", ["x"], ["y"], [
        helper.make_node("Constant", [], ["two"], value_float=2.0), helper.make_node("Div", ["x", "two"], ["y"])],
        [helper.make_opsetid("", 20)])
    model = helper.make_model(helper.make_graph([], "none", [], []), functions=[halve], ir_version=9,
                              opset_imports=[helper.make_opsetid("", 20)])
    path.write_bytes(model.SerializeToString())


def network():
    """y = standardise(halve(gated_swish(x, x)))."""
    nodes = [helper.make_node("GatedSwish", ["x", "x"], ["a"], domain="example"),
             helper.make_node("Halve", ["a"], ["b"], domain="example"),
             helper.make_node("Standardise", ["b"], ["y"], domain="example")]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in ("x", "y")]
    return helper.make_model(helper.make_graph(nodes, "own", values[:1], values[1:]), ir_version=9,
                             opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("example", 1)])


def meaning(x):
    half = x / (1 + np.exp(-x)) * x / 2
    centred = half - half.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


with tempfile.TemporaryDirectory() as folder:
    library, plan = pathlib.Path(folder) / "library.onnx", pathlib.Path(folder) / "own.graft"
    function_library(library)
    # 3. A file of definitions, written by hand.
    engine = graft.compile(network(), tune="off", ops=[standardise, library, HERE / "activations.graftops"])
    engine.save(plan)
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    y = graft.load(plan)(x)  # the plan needs none of the three
    np.testing.assert_allclose(y, meaning(x), atol=1e-4)
    print(standardise.text)
    print("the plan computes what numpy does")
