# SPDX-License-Identifier: Apache-2.0
"""An ONNX model as a torch function: its nodes are run once on example inputs, and what torch records of that, with
all sizes fixed, is a module for torch.compile, for CUDA graphs or for eager runs. Covers the operators of models/."""

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.fx.experimental.proxy_tensor import make_fx

import torch_fusions


def compile_model(path, inputs):
    """Returns a compiled function of the inputs' tensors, giving the list of outputs."""
    tensors = [torch.from_numpy(array) for array in inputs.values()]
    return compiled(traced(path, list(inputs), tensors))


def compiled(module, **options):
    """torch.compile over a traced module, with its weights frozen."""
    torch._inductor.config.freezing = True
    with torch.no_grad():
        return torch.compile(module, dynamic=False, **options)


def traced(path, names, tensors, dtype=None, channels_last=False):
    """A module of the tensors named `names`, on their device, giving the list of outputs.

    With a `dtype` all floats are of it, weights and casts included; `channels_last` lays out convolutions so. Attention
    and linear layers run as torch's own functions for them, as a model written for torch would.
    """
    graph = onnx.load(path).graph
    device = tensors[0].device
    weights = {tensor.name: _weight(tensor, device, dtype, channels_last) for tensor in graph.initializer}
    nodes = torch_fusions.join([torch_fusions.node_of(node) for node in graph.node], weights)
    float_type = dtype or torch.float32

    def run(*inputs):
        values = {**weights, **dict(zip(names, inputs))}
        for node in nodes:
            attributes = {**node.attributes, "float": float_type, "device": device}
            results = _handler(node)(attributes, *(values.get(name) for name in node.inputs))
            values.update(zip(node.outputs, results if isinstance(results, (tuple, list)) else (results,)))
        return [values[output.name] for output in graph.output]

    with torch.no_grad():
        return make_fx(run)(*tensors)


def _weight(tensor, device, dtype, channels_last):
    """A weight where and how the network wants it."""
    value = torch.from_numpy(numpy_helper.to_array(tensor).copy()).to(device)
    if dtype and value.is_floating_point():
        value = value.to(dtype)
    return value.contiguous(memory_format=torch.channels_last) if channels_last and value.ndim == 4 else value


def _handler(node):
    """The function (attributes, *inputs) of a node; sizes and axes are lists of integers."""
    if node.op not in OPERATORS:
        raise NotImplementedError(f"{node.op} is not known to the torch peer")
    return OPERATORS[node.op]


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
        indices = torch.from_numpy(indices).to(attributes["device"])
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


def _squeeze(attributes, data, axes):
    axis, = _integers(axes)
    return data.squeeze(axis)


def _clip(attributes, x, low, high=None):
    return x.clamp(low.item(), None if high is None else high.item())


def _attention(attributes, query, keys_transposed, value, mask=None):
    return torch.nn.functional.scaled_dot_product_attention(
        query, keys_transposed.transpose(-1, -2), value, attn_mask=mask, scale=attributes["scale"])


def _layer_norm(attributes, x, scale, shift):
    return torch.nn.functional.layer_norm(x, scale.shape, scale, shift, attributes["epsilon"])


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
    "Attention": _attention,
    "Cast": lambda attributes, x: x.to({1: attributes["float"], 7: torch.int64}[attributes["to"]]),
    "Clip": _clip,
    "Concat": lambda attributes, *parts: (np.concatenate(parts) if isinstance(parts[0], np.ndarray)
                                          else torch.cat(parts, attributes["axis"])),
    "Constant": lambda attributes: numpy_helper.to_array(attributes["value"]),
    "Conv": _conv,
    "Div": _scalars(lambda a, b: a / b),
    "Erf": lambda attributes, x: torch.erf(x),
    "Expand": lambda attributes, x, sizes: x.expand(_integers(sizes)),
    "Flatten": lambda attributes, x: x.flatten(attributes.get("axis", 1)),
    "Gather": _gather,
    "Gelu": lambda attributes, x: torch.nn.functional.gelu(x),
    "Gemm": lambda attributes, x, weight, bias: torch.nn.functional.linear(x, weight, bias),
    "GlobalAveragePool": lambda attributes, x: x.mean((2, 3), keepdim=True),
    "Identity": lambda attributes, x: x.clone(),
    "LayerNormalization": _layer_norm,
    "Linear": lambda attributes, x, weight, bias: torch.nn.functional.linear(x, weight, bias),
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
    "Split": lambda attributes, x: torch.chunk(x, attributes["num_outputs"], attributes["axis"]),
    "Sqrt": lambda attributes, x: torch.sqrt(x),
    "Squeeze": _squeeze,
    "Sub": _scalars(lambda a, b: a - b),
    "Tanh": lambda attributes, x: torch.tanh(x),
    "Transpose": lambda attributes, x: x.permute(attributes["perm"]),
    "Unsqueeze": _unsqueeze,
}
