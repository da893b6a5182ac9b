# SPDX-License-Identifier: Apache-2.0
"""Gives an ONNX model to torch.compile: the nodes are run once on example inputs, and what torch
records of that, with all sizes fixed, is compiled. Covers the operators of models/."""

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.fx.experimental.proxy_tensor import make_fx


def compile_model(path, inputs):
    """Returns a compiled function of the inputs' tensors, giving the list of outputs."""
    graph = onnx.load(path).graph
    names = list(inputs)
    weights = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy())
               for tensor in graph.initializer}

    def run(*tensors):
        values = {**weights, **dict(zip(names, tensors))}
        for node in graph.node:
            results = _run_node(node, [values.get(name) for name in node.input])
            values.update(zip(node.output, results if isinstance(results, tuple) else (results,)))
        return [values[output.name] for output in graph.output]

    torch._inductor.config.freezing = True
    with torch.no_grad():
        traced = make_fx(run)(*(torch.from_numpy(array) for array in inputs.values()))
        return torch.compile(traced, dynamic=False)


def _run_node(node, values):
    """Runs one node; attributes come as Python values, sizes and axes as lists of integers."""
    attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    handler = OPERATORS.get(node.op_type)
    if handler is None:
        raise NotImplementedError(f"{node.name}: {node.op_type} is not known to the torch peer")
    return handler(attributes, *values)


def _integers(value):
    """Reads a small integer tensor (always a constant or a size here) as a list."""
    return np.asarray(value).ravel().tolist()


def _gather(attributes, data, indices):
    axis = attributes.get("axis", 0)
    if isinstance(data, np.ndarray):
        return np.asarray(np.take(data, np.asarray(indices), axis))
    if isinstance(indices, np.ndarray):
        if indices.ndim == 0:
            return data.select(axis, int(indices))
        indices = torch.from_numpy(indices)
    if axis != 0:
        raise NotImplementedError("Gather of several rows along an axis other than the first")
    return torch.nn.functional.embedding(indices, data)


def _slice(attributes, data, starts, ends, axes):
    for start, end, axis in zip(*map(_integers, (starts, ends, axes))):
        data = data[(slice(None),) * axis + (slice(start, end),)]
    return data


def _unsqueeze(attributes, data, axes):
    axis, = _integers(axes)
    return np.expand_dims(data, axis) if isinstance(data, np.ndarray) else data.unsqueeze(axis)


def _scalars(function):
    """Lets constants, which are numpy scalars here, take part in torch arithmetic."""
    def run(attributes, *values):
        return function(*(value.item() if isinstance(value, np.ndarray) else value
                          for value in values))
    return run


def _conv(attributes, x, weight, bias=None):
    top, left, bottom, right = attributes["pads"]
    if (top, left) != (bottom, right):
        x, top, left = torch.nn.functional.pad(x, (left, right, top, bottom)), 0, 0
    return torch.nn.functional.conv2d(x, weight, bias, attributes["strides"], (top, left),
                                      attributes["dilations"], attributes["group"])


def _max_pool(attributes, x):
    return torch.nn.functional.max_pool2d(x, attributes["kernel_shape"], attributes["strides"],
                                          attributes["pads"][:2])


def _batch_norm(attributes, x, scale, bias, mean, variance):
    return torch.nn.functional.batch_norm(x, mean, variance, scale, bias,
                                          eps=attributes["epsilon"])


OPERATORS = {
    "Add": _scalars(lambda a, b: a + b),
    "BatchNormalization": _batch_norm,
    "Cast": lambda attributes, x: x.to({1: torch.float32, 7: torch.int64}[attributes["to"]]),
    "Clip": lambda attributes, x, low: x.clamp_min(low.item()),
    "Concat": lambda attributes, *parts: (np.concatenate(parts) if isinstance(parts[0], np.ndarray)
                                          else torch.cat(parts, attributes["axis"])),
    "Constant": lambda attributes: numpy_helper.to_array(attributes["value"]),
    "Conv": _conv,
    "Div": _scalars(lambda a, b: a / b),
    "Erf": lambda attributes, x: torch.erf(x),
    "Expand": lambda attributes, x, sizes: x.expand(_integers(sizes)),
    "Flatten": lambda attributes, x: x.flatten(attributes.get("axis", 1)),
    "Gather": _gather,
    "Gemm": lambda attributes, x, weight, bias: torch.nn.functional.linear(x, weight, bias),
    "GlobalAveragePool": lambda attributes, x: x.mean((2, 3), keepdim=True),
    "Identity": lambda attributes, x: x.clone(),
    "MatMul": lambda attributes, a, b: torch.matmul(a, b),
    "MaxPool": _max_pool,
    "Mul": _scalars(lambda a, b: a * b),
    "Pow": _scalars(lambda a, b: a ** b),
    "ReduceL2": lambda attributes, x, axes: x.norm(dim=_integers(axes), keepdim=True),
    "ReduceMean": lambda attributes, x, axes: x.mean(_integers(axes), keepdim=True),
    "ReduceSum": lambda attributes, x, axes: x.sum(_integers(axes),
                                                   keepdim=bool(attributes["keepdims"])),
    "Relu": lambda attributes, x: torch.relu(x),
    "Reshape": lambda attributes, x, sizes: x.reshape(_integers(sizes)),
    "Shape": lambda attributes, x: np.array(x.shape, np.int64),
    "Slice": _slice,
    "Softmax": lambda attributes, x: torch.softmax(x, attributes["axis"]),
    "Sqrt": lambda attributes, x: torch.sqrt(x),
    "Sub": _scalars(lambda a, b: a - b),
    "Tanh": lambda attributes, x: torch.tanh(x),
    "Transpose": lambda attributes, x: x.permute(attributes["perm"]),
    "Unsqueeze": _unsqueeze,
}
