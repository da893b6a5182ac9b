# SPDX-License-Identifier: Apache-2.0
"""Models whose parts become plugins."""

import copy

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


def three_one_hots():
    """Three OneHots of i[batch], two of which agree in all but names."""
    def numbers(name, *values, kind=np.int64):
        return numpy_helper.from_array(np.array(values, kind), name)
    nodes = [helper.make_node("OneHot", ["i", "depth_a", "values"], ["a"], name="first"),
             helper.make_node("OneHot", ["j", "depth_b", "values"], ["b"], name="wide"),
             helper.make_node("OneHot", ["j", "depth_a", "values"], ["c"], name="second")]
    indices = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch"]) for name in "ij"]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", depth])
               for name, depth in (("a", 16), ("b", 32), ("c", 16))]
    graph = helper.make_graph(nodes, "three_one_hots", indices, results,
                              [numbers("depth_a", 16), numbers("depth_b", 32),
                               numbers("values", 0, 1, kind=np.float32)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def normal_rows():
    """y = x / sum(x) + mask, whose sum takes a kernel of its own; flat is x in another shape; a run finds places."""
    nodes = [helper.make_node("ReduceSum", ["x"], ["sum"], name="sum", keepdims=0),
             helper.make_node("Div", ["x", "sum"], ["share"], name="divide"),
             helper.make_node("Add", ["share", "mask"], ["y"], name="add"),
             helper.make_node("Reshape", ["x", "line"], ["flat"], name="flatten"),
             helper.make_node("NonZero", ["x"], ["places"], name="places")]
    shape = ["batch", 1000]
    graph = helper.make_graph(
        nodes, "normal_rows",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "mask")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape),
         helper.make_tensor_value_info("flat", TensorProto.FLOAT, ["cells"]),
         helper.make_tensor_value_info("places", TensorProto.INT64, [2, "found"])],
        [numpy_helper.from_array(np.array([-1], np.int64), "line")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def wide_layer_norm():
    """LayerNormalization of x[batch, length, 768] as primitive nodes."""
    random = np.random.default_rng(5)
    weights = [numpy_helper.from_array(random.standard_normal(768).astype(np.float32), name)
               for name in ("scale", "bias")]
    shape = ["batch", "length", 768]
    graph = helper.make_graph(layer_norm_nodes("n", "x", "y", "scale", "bias"), "wide_layer_norm",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
                              [*weights, scalar("two", 2), scalar("epsilon", 1e-5)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def half_layer_norm():
    """LayerNormalization of x[batch, length, 768] in fp16 as one node."""
    random = np.random.default_rng(6)
    weights = [numpy_helper.from_array(random.standard_normal(768).astype(np.float16), name)
               for name in ("scale", "bias")]
    shape = ["batch", "length", 768]
    node = helper.make_node("LayerNormalization", ["x", "scale", "bias"], ["y"], name="normalise")
    graph = helper.make_graph([node], "half_layer_norm",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT16, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT16, shape)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def combined(models):
    """One model of all, whose nodes and tensors have the names `PREFIX_NAME`."""
    parts = {"node": [], "input": [], "output": [], "initializer": []}
    for prefix, model in models.items():
        graph = copy.deepcopy(model.graph)
        for node in graph.node:
            node.name = f"{prefix}_{node.name}"
            for names in (node.input, node.output):
                names[:] = [f"{prefix}_{name}" if name else "" for name in names]
        for value in [*graph.input, *graph.output, *graph.initializer]:
            value.name = f"{prefix}_{value.name}"
        for field, values in parts.items():
            values.extend(getattr(graph, field))
    newest = max(each.version for model in models.values() for each in model.opset_import)
    graph = helper.make_graph(parts["node"], "combined", parts["input"], parts["output"], parts["initializer"])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", newest)], ir_version=10)
