# SPDX-License-Identifier: Apache-2.0
"""Networks made from a network: with every value as an output, of some nodes only, with values disturbed."""

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LARGEST_TENSOR = 16384  # elements: what sources of networks keep to
# Operators whose floating-point results are exact, or decided by comparing: they add no rounding of their own.
EXACT = frozenset("""Abs ArgMax ArgMin Cast Ceil Clip Concat Constant ConstantOfShape Expand Flatten Floor Gather
    Identity If Max MaxPool Min Neg Pad ReduceMax ReduceMin Relu Reshape Round Shape Slice Squeeze Tile Transpose Trilu
    Unsqueeze Where""".split())


def value_types(model):
    """name -> TypeProto of all values whose type and shape can be inferred."""
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    return {value.name: value.type for value in [*graph.input, *graph.value_info, *graph.output]}


def element_type(model, types, name):
    """The element type of a value, or 0."""
    if name in types:
        return types[name].tensor_type.elem_type
    return next((tensor.data_type for tensor in model.graph.initializer if tensor.name == name), 0)


def with_nodes(model, nodes, inputs, outputs, initializers=()):
    """A network of the same opset: inputs are arrays by name, outputs TypeProtos by name."""
    used = {name for node in nodes for name in names_read(node)}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used and tensor.name not in inputs]
    graph = helper.make_graph(
        nodes, model.graph.name or "network",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
         for name, value in inputs.items()],
        [helper.make_value_info(name, kind) for name, kind in outputs.items()],
        [*kept, *initializers])
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def names_read(node):
    """What the node reads, its subgraphs included."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            for inner in graph.node:
                names += names_read(inner)
    return names


def is_native(element_type):
    """Whether numpy has the element type of itself, and files of arrays hold it."""
    return element_type not in (0, TensorProto.STRING) and helper.tensor_dtype_to_np_dtype(element_type).isbuiltin == 1


def exposed(model, types):
    """The network with every value of a type of numpy's that a node makes as an output: nothing is fused past a value's
    own type."""
    known = {value.name for value in model.graph.output}
    wanted = onnx.ModelProto()
    wanted.CopyFrom(model)
    for node in model.graph.node:
        for name in node.output:
            if name and name not in known and name in types and is_native(types[name].tensor_type.elem_type):
                wanted.graph.output.append(helper.make_value_info(name, types[name]))
    return wanted


def needed_nodes(model, names, given):
    """The nodes that the values need, in order, when the given ones are known."""
    wanted, nodes = set(names), []
    for node in reversed(model.graph.node):
        if any(name in wanted and name not in given for name in node.output):
            nodes.append(node)
            wanted.update(name for name in names_read(node) if name not in given)
    return nodes[::-1]


def disturbed(model, types, values, generator):
    """The network with each inexact floating-point value moved by at most two units in its last place.

    What a result moves by then is what rounding may do to it."""
    nodes, initializers = [], []
    for node in model.graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        nodes.append(copy)
        if node.op_type in EXACT:
            continue
        for at, name in enumerate(node.output):
            if name not in values or values[name].dtype.kind != "f" or not values[name].size:
                continue
            copy.output[at] = f"{name} as computed"
            move = movement(values[name], generator)
            initializers.append(numpy_helper.from_array(move, f"{name} movement"))
            nodes.append(helper.make_node("Add", [copy.output[at], f"{name} movement"], [name]))
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    result.graph.initializer.extend(initializers)
    return result


def disturbed_arguments(model, inputs, generator):
    """A network of one node and its inputs with each floating-point element moved by at most two units in its last
    place: for a sum of many that is what adding in another order does."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for tensor in result.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.dtype.kind == "f" and value.size:
            tensor.CopyFrom(numpy_helper.from_array(value + movement(value, generator), tensor.name))
    return result, {name: value + movement(value, generator) if value.dtype.kind == "f" and value.size else value
                    for name, value in inputs.items()}


def movement(value, generator):
    finite = np.where(np.isfinite(value), np.abs(value.astype(np.float64)), 0)
    largest = np.finfo(value.dtype).max
    sizes = np.minimum(finite + 0.1 * finite.max(), largest)
    steps = generator.uniform(-2, 2, value.shape) * np.finfo(value.dtype).eps
    return (sizes * steps).astype(value.dtype)


def has_bodies(model):
    return any(attribute.HasField("g") for node in model.graph.node for attribute in node.attribute)


def window_steps(model, types):
    """Elements that the windows of pooling and convolutions read, all together: what an interpreter's time goes to."""
    steps = 0
    for node in model.graph.node:
        kernel = next((list(attribute.ints) for attribute in node.attribute if attribute.name == "kernel_shape"), None)
        if kernel:
            known = types.get(node.output[0])
            sizes = [dim.dim_value for dim in known.tensor_type.shape.dim] if known else [0]
            steps += (math.prod(sizes) or LARGEST_TENSOR) * math.prod(kernel)
    return steps


def random_inputs(model, seed):
    """Inputs of the network: floats around 0 and around 1, small integers of both signs."""
    generator = np.random.default_rng(seed)
    given = {tensor.name for tensor in model.graph.initializer}
    inputs = {}
    for value in model.graph.input:
        if value.name in given:
            continue
        kind = value.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        shape = [dim.dim_value for dim in kind.shape.dim]
        if kind.elem_type == TensorProto.BOOL:
            inputs[value.name] = generator.integers(0, 2, shape).astype(dtype)
        elif dtype.kind in "iu":
            inputs[value.name] = generator.integers(0 if dtype.kind == "u" else -8, 9, shape).astype(dtype)
        else:
            inputs[value.name] = (generator.choice([0.0, 1.0]) + generator.uniform(-1, 1, shape)).astype(dtype)
    return inputs
