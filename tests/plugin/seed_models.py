# SPDX-License-Identifier: Apache-2.0
"""The operators and shapes of TPAT's tables, as models of which each becomes one plugin: what seed_on_gpu.py times
beside torch's. All in fp32, as there."""

import dataclasses
import math

import numpy as np
from models import layer_norm_nodes, scalar
from onnx import TensorProto, helper, numpy_helper

FLOAT_BYTES, INDEX_BYTES = 4, 8


@dataclasses.dataclass
class Case:
    """`limits`: of inputs that hold indices, exclusive: a number, or of tuples in the last axis one for each element.
    `traffic`: bytes that any way of doing it moves: what is read once and what is written once."""

    says: str  # for the table
    model: object  # of onnx
    inputs: dict  # extents by name, in order
    traffic: int
    limits: dict = dataclasses.field(default_factory=dict)


def elements(*extents):
    return math.prod(extents)


def model_of(nodes, inputs, result, initializers=()):
    """Of fp32 inputs, `indices` of int64, and one fp32 output `y`."""
    graph = helper.make_graph(
        nodes, "seed",
        [helper.make_tensor_value_info(name, TensorProto.INT64 if name == "indices" else TensorProto.FLOAT, extents)
         for name, extents in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def gather_nd(data, indices):
    inputs, limits = {"data": data, "indices": indices}, {"indices": data[:indices[-1]]}
    result = (*indices[:-1], *data[indices[-1]:])
    return Case(f"GatherND {data}, indices {indices}",
                model_of([helper.make_node("GatherND", ["data", "indices"], ["y"], name="node")], inputs, result),
                inputs,
                 2 * FLOAT_BYTES * elements(*result) + INDEX_BYTES * elements(*indices), limits)


def scatter_nd(reduction, data, indices):
    updates = (*indices[:-1], *data[indices[-1]:])
    inputs = {"data": data, "indices": indices, "updates": updates}
    limits = {"indices": data[:indices[-1]]}
    node = helper.make_node("ScatterND", list(inputs), ["y"], name="node", reduction=reduction)
    word = "update" if reduction == "none" else reduction
    return Case(f"ScatterND {word} {data}, indices {indices}, with the copy of the data",
                model_of([node], inputs, data), inputs,
                FLOAT_BYTES * (2 * elements(*data) + elements(*updates)) + INDEX_BYTES * elements(*indices), limits)


def one_hot(count, depth):
    inputs, limits = {"indices": (count,)}, {"indices": depth}
    node = helper.make_node("OneHot", ["indices", "depth", "values"], ["y"], name="node")
    constants = [numpy_helper.from_array(np.array(depth, np.int64), "depth"),
                 numpy_helper.from_array(np.array([0, 1], np.float32), "values")]
    return Case(f"OneHot of {count}, depth {depth}", model_of([node], inputs, (count, depth), constants), inputs,
                FLOAT_BYTES * count * depth + INDEX_BYTES * count, limits)


def one_hot_chain(batch, length, depth):
    """TPAT's `one_hot`: Cast, OneHot, Reshape, as one part; the indices come as floats."""
    inputs, limits = {"places": (batch, length)}, {"places": depth}
    nodes = [helper.make_node("Cast", ["places"], ["whole"], name="cast", to=TensorProto.INT64),
             helper.make_node("OneHot", ["whole", "depth", "values"], ["hot"], name="hot"),
             helper.make_node("Reshape", ["hot", "rows"], ["y"], name="node")]
    constants = [numpy_helper.from_array(np.array(depth, np.int64), "depth"),
                 numpy_helper.from_array(np.array([0, 1], np.float32), "values"),
                 numpy_helper.from_array(np.array([-1, length * depth], np.int64), "rows")]
    return Case(f"Cast, OneHot, Reshape of {(batch, length)}, depth {depth}",
                model_of(nodes, inputs, (batch, length * depth), constants), inputs,
                FLOAT_BYTES * batch * length * (depth + 1), limits)


def resize(mode, image, height, width):
    inputs, result = {"x": image}, (*image[:2], height, width)
    # `nearest` as torch's: without half a pixel's shift, rounded down
    way = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"} if mode == "nearest" else {}
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], name="node", mode=mode, **way)
    constants = [numpy_helper.from_array(np.array(result, np.int64), "sizes")]
    return Case(f"Resize {mode} {image} to {height} x {width}", model_of([node], inputs, result, constants), inputs,
                FLOAT_BYTES * (elements(*image) + elements(*result)))


def reduce_max(extents):
    inputs = {"x": extents}
    node = helper.make_node("ReduceMax", ["x"], ["y"], name="node", axes=[1], keepdims=0)
    return Case(f"ReduceMax {extents} over axis 1", model_of([node], inputs, extents[::2]), inputs,
                FLOAT_BYTES * (elements(*extents) + elements(extents[0], extents[2])))


def layer_norm(extents):
    """Nine primitive nodes, from ReduceMean to Add."""
    inputs = {"x": extents, "scale": extents[-1:], "bias": extents[-1:]}
    model = model_of(layer_norm_nodes("n", "x", "y", "scale", "bias"), inputs, extents,
                     [scalar("two", 2), scalar("epsilon", 1e-5)])
    return Case(f"LayerNormalization of nine nodes {extents}", model, inputs, 2 * FLOAT_BYTES * elements(*extents))


def cases():
    """By the name of the plugin, which is the name of torch's part in seed_on_gpu.py."""
    scattered = (32, 128, 128, 256), (32, 600, 3)
    return {"GatherNDRows": gather_nd((1, 128, 128, 224), (1, 600, 3)),
            "GatherNDPlane": gather_nd((1, 158, 128, 128), (1, 2)),
            "ScatterNDUpdate": scatter_nd("none", *scattered),
            "ScatterNDAdd": scatter_nd("add", *scattered),
            "OneHotDeep": one_hot(16, 16384),
            "OneHotChain": one_hot_chain(256, 64, 256),
            "ResizeNearest4x": resize("nearest", (32, 32, 44, 50), 176, 200),
            "ResizeNearest16x": resize("nearest", (32, 64, 11, 12), 176, 200),
            "ResizeLinear4x": resize("linear", (32, 32, 44, 50), 176, 200),
            "ResizeLinear16x": resize("linear", (32, 64, 11, 12), 176, 200),
            "ReduceMaxMiddle": reduce_max((256, 82, 128)),
            "LayerNorm": layer_norm((8, 128, 768)),
            "LayerNormLarge": layer_norm((32, 512, 768))}


def small_cases():
    """The same at sizes that the interpreter takes no time for."""
    scattered = (2, 5, 6, 32), (2, 4, 3)  # a warp has the elements of an update
    return {"GatherNDRows": gather_nd((1, 5, 6, 7), (1, 9, 3)),
            "GatherNDPlane": gather_nd((1, 6, 5, 4), (1, 2)),
            "ScatterNDUpdate": scatter_nd("none", *scattered),
            "ScatterNDAdd": scatter_nd("add", *scattered),
            "OneHotDeep": one_hot(5, 11),
            "OneHotChain": one_hot_chain(3, 4, 5),
            "ResizeNearest4x": resize("nearest", (2, 3, 4, 5), 16, 20),
            "ResizeNearest16x": resize("nearest", (2, 3, 3, 2), 48, 36),
            "ResizeLinear4x": resize("linear", (2, 3, 4, 5), 16, 20),
            "ResizeLinear16x": resize("linear", (2, 3, 3, 2), 48, 36),
            "ReduceMaxMiddle": reduce_max((3, 7, 5)),
            "LayerNorm": layer_norm((2, 3, 48)),
            "LayerNormLarge": layer_norm((3, 4, 96))}


def random_arrays(case):
    """Seeded arrays by input; updates of equal tuples of indices do not occur, for whose order torch has no rule."""
    random, arrays = np.random.default_rng(21), {}
    for name, extents in case.inputs.items():
        limits = case.limits.get(name)
        if limits is None:
            arrays[name] = random.standard_normal(extents).astype(np.float32)
        elif isinstance(limits, int):
            arrays[name] = random.integers(0, limits, extents).astype(np.int64 if name == "indices" else np.float32)
        else:
            chosen = random.permutation(np.prod(limits))[:np.prod(extents[:-1])]
            arrays[name] = np.stack(np.unravel_index(chosen, limits), -1).reshape(extents)
    return arrays


def described(found):
    """What seed_on_gpu.py has to know of the cases, as JSON."""
    return {name: {"says": case.says.replace("(", "[").replace(",)", "]").replace(")", "]"),
                   "inputs": {key: {"extents": extents, "whole": key == "indices", "limits": case.limits.get(key)}
                              for key, extents in case.inputs.items()},
                   "traffic": case.traffic} for name, case in found.items()}
