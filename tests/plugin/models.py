# SPDX-License-Identifier: Apache-2.0
"""Models whose parts become plugins."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

CHANNELS = 48


def scalar(name, value):
    return numpy_helper.from_array(np.array(value, np.float32), name)


def layer_norm_nodes(prefix, x, y, scale, bias):
    """LayerNormalization over the last axis as primitive nodes, from ReduceMean to Add."""
    def name(stem):
        return f"{prefix}_{stem}"
    return [
        helper.make_node("ReduceMean", [x], [name("mean")], name=name("Mean"), axes=[-1], keepdims=1),
        helper.make_node("Sub", [x, name("mean")], [name("centred")], name=name("Sub")),
        helper.make_node("Pow", [name("centred"), "two"], [name("squares")], name=name("Pow")),
        helper.make_node("ReduceMean", [name("squares")], [name("variance")], name=name("Variance"), axes=[-1],
                         keepdims=1),
        helper.make_node("Add", [name("variance"), "epsilon"], [name("padded")], name=name("Epsilon")),
        helper.make_node("Sqrt", [name("padded")], [name("deviation")], name=name("Sqrt")),
        helper.make_node("Div", [name("centred"), name("deviation")], [name("unit")], name=name("Div")),
        helper.make_node("Mul", [name("unit"), scale], [name("scaled")], name=name("Mul")),
        helper.make_node("Add", [name("scaled"), bias], [y], name=name("Add")),
    ]


def two_layer_norms():
    """x[batch, length, 48] -> Relu -> LayerNormalization -> Neg -> LayerNormalization with other weights."""
    random = np.random.default_rng(3)
    weights = [numpy_helper.from_array(random.standard_normal(CHANNELS).astype(np.float32), name)
               for name in ("scale_a", "bias_a", "scale_b", "bias_b")]
    nodes = [helper.make_node("Relu", ["x"], ["h"], name="clamp"),
             *layer_norm_nodes("a", "h", "normal", "scale_a", "bias_a"),
             helper.make_node("Neg", ["normal"], ["turned"], name="turn"),
             *layer_norm_nodes("b", "turned", "y", "scale_b", "bias_b")]
    graph = helper.make_graph(
        nodes, "two_layer_norms",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", CHANNELS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "length", CHANNELS])],
        [*weights, scalar("two", 2), scalar("epsilon", 1e-5)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
