# SPDX-License-Identifier: Apache-2.0
"""An ONNX model as a torch function: its nodes are run once on example inputs, and what torch records of that, with
all sizes fixed, is a module for torch.compile, for CUDA graphs or for eager runs. Covers the operators of models/."""

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, make_fx

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
        module = make_fx(run)(*tensors)
    for node in module.graph.nodes:  # whatever layouts torch.compile then chooses
        if node.target == torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default
    module.recompile()
    return module


def _weight(tensor, device, dtype, channels_last):
    """A weight where and how the network wants it."""
    array = numpy_helper.to_array(tensor)
    if array.dtype == np.int64 and array.ndim <= 1:  # sizes, axes, a few positions: known while tracing
        return array
    value = torch.from_numpy(array.copy()).to(device)
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
        indices = _tensor(attributes, indices)
    if axis != 0:
        shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1:])
        return data.index_select(axis, indices.reshape(-1)).reshape(shape)
    return torch.nn.functional.embedding(indices, data)


def _slice(attributes, data, starts, ends, axes, steps=None):
    steps = np.ones_like(starts) if steps is None else steps
    for start, end, axis, step in zip(*map(_integers, (starts, ends, axes, steps))):
        data = data[(slice(None),) * (axis % data.ndim) + (slice(start, end, step),)]
    return data


def _split(attributes, x, sizes=None):
    parts = attributes["num_outputs"] if sizes is None else None
    return torch.chunk(x, parts, attributes["axis"]) if parts else torch.split(x, _integers(sizes), attributes["axis"])


def _unsqueeze(attributes, data, axes):
    for axis in sorted(_integers(axes)):
        data = np.expand_dims(data, axis) if isinstance(data, np.ndarray) else data.unsqueeze(axis)
    return data


def _squeeze(attributes, data, axes):
    return data.squeeze(tuple(_integers(axes)))


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
        return function(*(value.item() if isinstance(value, np.ndarray) and value.size == 1
                          else _tensor(attributes, value) for value in values))
    return run


def _values(function):
    """A function of arrays while sizes are computed, of tensors else."""
    def run(attributes, *values):
        if all(isinstance(value, np.ndarray) for value in values):
            return function(*map(torch.from_numpy, map(np.array, values))).numpy()
        return function(*(_tensor(attributes, value) for value in values))
    return run


def _tensor(attributes, value):
    """A constant as a tensor of the network."""
    if not isinstance(value, np.ndarray):
        return value
    with disable_proxy_modes_tracing():  # it is there before the network runs
        tensor = torch.from_numpy(np.array(value))
        return tensor.to(attributes["device"], attributes["float"] if tensor.is_floating_point() else tensor.dtype)


def _conv(attributes, x, weight, bias=None):
    axes = x.ndim - 2
    before, after = list(attributes["pads"][:axes]), list(attributes["pads"][axes:])
    if before != after:
        around = [pad for pair in zip(reversed(before), reversed(after)) for pad in pair]
        x, before = torch.nn.functional.pad(x, around), [0] * axes
    convolve = torch.nn.functional.conv1d if axes == 1 else torch.nn.functional.conv2d
    return convolve(x, weight, bias, attributes["strides"], before, attributes["dilations"], attributes["group"])


def _conv_transpose(attributes, x, weight, bias=None):
    axes = x.ndim - 2
    convolve = torch.nn.functional.conv_transpose1d if axes == 1 else torch.nn.functional.conv_transpose2d
    return convolve(x, weight, bias, attributes["strides"], attributes["pads"][:axes],
                    attributes.get("output_padding", [0] * axes), attributes["group"], attributes["dilations"])


def _lstm(attributes, x, weight, recurrence, bias, _lengths, state, cell):
    """Both directions of one layer. torch has the gates in another order, and its weights in one list."""
    with disable_proxy_modes_tracing():
        flat = _lstm_weights(weight, recurrence, bias)
    both = weight.shape[0] == 2
    y, state, cell = torch.lstm(x, (state, cell), flat, True, 1, 0.0, False, both, False)
    return y.reshape(*y.shape[:2], weight.shape[0], attributes["hidden_size"]).permute(0, 2, 1, 3), state, cell


def _lstm_weights(weight, recurrence, bias):
    """The weights of a layer in torch's order."""
    def gates(tensor):
        i, o, f, c = tensor.chunk(4)
        return torch.cat((i, f, c, o)).contiguous()

    flat = []
    for direction in range(weight.shape[0]):
        of_input, of_state = bias[direction].chunk(2)
        flat += map(gates, (weight[direction], recurrence[direction], of_input, of_state))
    return flat


class LstmLayer(torch.nn.Module):
    """A network of one LSTM as torch's own layer, with its weights packed for cuDNN, which tracing refuses to do."""

    def __init__(self, path, device, dtype):
        super().__init__()
        graph = onnx.load(path).graph
        node = next(node for node in graph.node if node.op_type == "LSTM")
        weights = {tensor.name: _weight(tensor, device, dtype, False) for tensor in graph.initializer}
        flat = _lstm_weights(*(weights[name] for name in node.input[1:4]))
        self.directions, self.hidden = len(flat) // 4, flat[1].shape[1]
        self.layer = torch.nn.LSTM(flat[0].shape[1], self.hidden, bidirectional=self.directions == 2)
        self.layer = self.layer.to(device, dtype)
        with torch.no_grad():
            for parameter, values in zip(self.layer.parameters(), flat, strict=True):
                parameter.copy_(values)
        self.layer.flatten_parameters()

    def forward(self, x):
        y = self.layer(x)[0]
        return [y.reshape(*y.shape[:2], self.directions, self.hidden).permute(0, 2, 1, 3)]


def _suppression(_attributes, boxes, scores, limit, overlap, score):
    """One image's boxes as torchvision's detectors treat them: all classes of enough score at once, best first."""
    import torchvision

    of_class, of_box = torch.nonzero(scores[0] > score.item(), as_tuple=True)
    kept = torchvision.ops.batched_nms(boxes[0][of_box], scores[0][of_class, of_box], of_class, overlap.item())
    classes = of_class[kept].sort(stable=True)
    kept = kept[classes.indices]
    first = torch.searchsorted(classes.values, classes.values)
    places = torch.arange(len(kept), device=kept.device) - first
    kept = kept[places < limit.item()]
    return torch.stack([torch.zeros_like(kept), of_class[kept], of_box[kept]], dim=1)


def _regions(attributes, x, boxes, images):
    import torchvision

    rows = torch.cat([_tensor(attributes, images).to(boxes)[:, None], boxes], dim=1)
    return torchvision.ops.roi_align(x, rows, (attributes["output_height"], attributes["output_width"]),
                                     attributes["spatial_scale"], attributes["sampling_ratio"], aligned=True)


def _average_pool(attributes, x):
    return torch.nn.functional.avg_pool2d(x, attributes["kernel_shape"], attributes["strides"],
                                          attributes.get("pads", (0, 0))[:2],
                                          count_include_pad=bool(attributes.get("count_include_pad", 0)))


def _pad(attributes, x, pads):
    before, after = np.split(np.asarray(pads), 2)
    around = [int(pad) for pair in zip(before[::-1], after[::-1]) for pad in pair]
    while around[-2:] == [0, 0]:  # reflections take the axes that they change and no more
        del around[-2:]
    return torch.nn.functional.pad(x, around, attributes["mode"])


def _resize(attributes, x, _region, scales, sizes=None):
    if sizes is None:
        sizes = [int(size * scale) for size, scale in zip(x.shape, np.asarray(scales).tolist())]
    mode = {"linear": "bilinear", "nearest": "nearest"}[attributes["mode"]]
    return torch.nn.functional.interpolate(x, _integers(sizes)[2:], mode=mode,
                                           **({"align_corners": False} if mode == "bilinear" else {}))


def _max_pool(attributes, x):
    return torch.nn.functional.max_pool2d(x, attributes["kernel_shape"], attributes["strides"],
                                          attributes["pads"][:2])


def _instance_norm(attributes, x, scale, bias):
    return torch.nn.functional.instance_norm(x, weight=scale, bias=bias, eps=attributes["epsilon"])


def _cast(attributes, x):
    if isinstance(x, np.ndarray):
        return x.astype({1: np.float32, 7: np.int64, 9: bool}[attributes["to"]])
    return x.to({1: attributes["float"], 7: torch.int64, 9: torch.bool}[attributes["to"]])


def _reshape(attributes, x, sizes):
    return x.reshape([x.shape[axis] if size == 0 else size for axis, size in enumerate(_integers(sizes))])


def _range(attributes, start, limit, delta):
    return np.arange(*(np.asarray(value).item() for value in (start, limit, delta)))


def _batch_norm(attributes, x, scale, bias, mean, variance):
    return torch.nn.functional.batch_norm(x, mean, variance, scale, bias,
                                          eps=attributes["epsilon"])


OPERATORS = {
    "Abs": lambda attributes, x: torch.abs(x),
    "Add": _scalars(lambda a, b: a + b),
    "Attention": _attention,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": lambda attributes, *parts: (np.concatenate(parts) if isinstance(parts[0], np.ndarray)
                                          else torch.cat(parts, attributes["axis"])),
    "Constant": lambda attributes: numpy_helper.to_array(attributes["value"]),
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Cos": lambda attributes, x: torch.cos(x),
    "Div": _scalars(lambda a, b: a / b),
    "Erf": lambda attributes, x: torch.erf(x),
    "Exp": lambda attributes, x: torch.exp(x),
    "Expand": lambda attributes, x, sizes: _tensor(attributes, x).expand(_integers(sizes)),
    "Flatten": lambda attributes, x: x.flatten(attributes.get("axis", 1)),
    "Gather": _gather,
    "Gelu": lambda attributes, x: torch.nn.functional.gelu(x),
    "Gemm": lambda attributes, x, weight, bias: torch.nn.functional.linear(x, weight, bias),
    "GlobalAveragePool": lambda attributes, x: x.mean((2, 3), keepdim=True),
    "Greater": _values(torch.gt),
    "HardSigmoid": lambda attributes, x: (attributes["alpha"] * x + attributes["beta"]).clamp(0, 1),
    "HardSwish": lambda attributes, x: torch.nn.functional.hardswish(x),
    "Identity": lambda attributes, x: x.clone(),
    "InstanceNormalization": _instance_norm,
    "LSTM": _lstm,
    "LayerNormalization": _layer_norm,
    "Less": _values(torch.lt),
    "Linear": lambda attributes, x, weight, bias: torch.nn.functional.linear(x, weight, bias),
    "Log": lambda attributes, x: torch.log(x),
    "MatMul": _values(torch.matmul),
    "MaxPool": _max_pool,
    "Min": _values(torch.minimum),
    "Mul": _scalars(lambda a, b: a * b),
    "Neg": lambda attributes, x: -x,
    "NonMaxSuppression": _suppression,
    "PRelu": lambda attributes, x, slope: torch.nn.functional.prelu(x, slope.reshape(-1)),
    "Pad": _pad,
    "Pow": _scalars(lambda a, b: a ** b),
    "Range": _range,
    "Reciprocal": lambda attributes, x: torch.reciprocal(x),
    "ReduceL2": lambda attributes, x, axes: x.norm(dim=_integers(axes), keepdim=True),
    "ReduceMean": lambda attributes, x, axes: x.mean(_integers(axes), keepdim=bool(attributes.get("keepdims", 1))),
    "ReduceSum": lambda attributes, x, axes: x.sum(_integers(axes),
                                                   keepdim=bool(attributes["keepdims"])),
    "Relu": lambda attributes, x: torch.relu(x),
    "Reshape": _reshape,
    "RoiAlign": _regions,
    "Resize": _resize,
    "ScatterElements": lambda attributes, x, indices, updates: x.scatter(attributes["axis"], indices, updates),
    "Shape": lambda attributes, x: np.array(x.shape, np.int64),
    "Sigmoid": lambda attributes, x: torch.sigmoid(x),
    "Sin": lambda attributes, x: torch.sin(x),
    "Slice": _slice,
    "Softmax": lambda attributes, x: torch.softmax(x, attributes["axis"]),
    "Split": _split,
    "Sqrt": lambda attributes, x: torch.sqrt(x),
    "Squeeze": _squeeze,
    "Sub": _scalars(lambda a, b: a - b),
    "Tanh": lambda attributes, x: torch.tanh(x),
    "TopK": lambda attributes, x, count: torch.topk(x, *_integers(count), attributes["axis"]),
    "Transpose": lambda attributes, x: x.permute(attributes["perm"]),
    "Unsqueeze": _unsqueeze,
    "Where": _values(torch.where),
}
