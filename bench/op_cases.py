# SPDX-License-Identifier: Apache-2.0
"""What `./dev bench ops` measures: single operators and short chains of them on large tensors.

bench/shapes/ops.json lists the cases. Of each this file gives the ONNX graph, the same function in torch, its
inputs, and the bytes that must move: every input that is needed read once, every output written once.
"""

import dataclasses
import json
import math
import os
from collections.abc import Callable

import numpy as np

SHAPES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shapes", "ops.json")
DTYPES = {"fp32": np.float32, "fp16": np.float16}


@dataclasses.dataclass
class OpCase:
    """One case in one type. `inputs`: name -> shape, or (shape, below) for indices in [0, below)."""

    name: str
    kind: str          # mover: copies elements; other: computes with them
    dtype: str
    inputs: dict
    outputs: dict      # name -> (shape, numpy type)
    nodes: list        # of the graph, made by onnx.helper.make_node
    constants: dict    # name -> array
    torch: Callable    # (torch module, *inputs) -> output or tuple of outputs
    bytes_moved: int
    opset: int = 21

    @property
    def label(self):
        """The name that --cases matches."""
        return f"{self.name}/{self.dtype}"

    def arrays(self, seed=1):
        """Seeded inputs, standard normal values or indices."""
        generator = np.random.default_rng(seed)
        made = {}
        for name, spec in self.inputs.items():
            if isinstance(spec[0], tuple):
                made[name] = generator.integers(0, spec[1], spec[0])
            else:
                made[name] = generator.standard_normal(spec, np.float32).astype(DTYPES[self.dtype])
        return made

    def save(self, path):
        """Writes the ONNX file."""
        import onnx
        from onnx import helper, numpy_helper
        def value(name, shape, dtype):
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        given = []
        for name, spec in self.inputs.items():
            indices = isinstance(spec[0], tuple)
            given.append(value(name, spec[0] if indices else spec, np.int64 if indices else DTYPES[self.dtype]))
        graph = helper.make_graph(
            self.nodes, self.name, given, [value(name, *spec) for name, spec in self.outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        onnx.save(model, path)


def op_cases():
    """Lists the cases of ops.json, each in its types."""
    with open(SHAPES, encoding="utf-8") as file:
        listed = json.load(file)
    return [_BUILDERS[case["op"]](case, dtype) for case in listed["cases"] for dtype in listed["types"]]


def _node(operator, inputs, outputs="y", **attributes):
    from onnx import helper
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def _case(entry, dtype, inputs, out_shape, nodes, torch, constants=None, read=None, outputs=None):
    """A case of one output `y` unless told otherwise; `read` are elements that are needed when not all are."""
    width = np.dtype(DTYPES[dtype]).itemsize
    outputs = outputs or {"y": (tuple(out_shape), DTYPES[dtype])}
    moved = read
    if read is None:
        moved = sum(math.prod(spec[0]) * 8 if isinstance(spec[0], tuple) else math.prod(spec) * width
                    for spec in inputs.values())
    moved += sum(math.prod(shape) * np.dtype(kind).itemsize for shape, kind in outputs.values())
    return OpCase(entry["name"], entry["kind"], dtype, inputs, outputs, nodes, constants or {}, torch, moved)


def _scale(e, dtype):
    shape = tuple(e["shape"])
    two = np.array(2, DTYPES[dtype])
    return _case(e, dtype, {"x": shape}, shape, [_node("Mul", "x two")], lambda t, x: x * 2, {"two": two})


def _transpose(e, dtype):
    shape, perm = tuple(e["shape"]), e["perm"]
    return _case(e, dtype, {"x": shape}, [shape[p] for p in perm], [_node("Transpose", "x", perm=perm)],
                 lambda t, x: x.permute(perm).contiguous())


def _gather(e, dtype):
    rows, width = e["shape"]
    count, size = e["count"], np.dtype(DTYPES[dtype]).itemsize
    read = min(count, rows) * width * size + count * 8  # each row comes from memory at most once
    return _case(e, dtype, {"x": (rows, width), "i": ((count,), rows)}, (count, width),
                 [_node("Gather", "x i", axis=0)], lambda t, x, i: t.index_select(x, 0, i), read=read)


def _concat(e, dtype):
    shapes, axis = [tuple(s) for s in e["shapes"]], e["axis"]
    out = list(shapes[0])
    out[axis] = sum(s[axis] for s in shapes)
    names = [f"x{i}" for i in range(len(shapes))]
    return _case(e, dtype, dict(zip(names, shapes)), out, [_node("Concat", " ".join(names), axis=axis)],
                 lambda t, *xs: t.cat(xs, axis))


def _slice(e, dtype):
    starts, ends = e["starts"], e["ends"]
    out = [b - a for a, b in zip(starts, ends)]
    constants = {"starts": np.array(starts), "ends": np.array(ends)}
    return _case(e, dtype, {"x": tuple(e["shape"])}, out, [_node("Slice", "x starts ends")],
                 lambda t, x: x[tuple(slice(a, b) for a, b in zip(starts, ends))].contiguous(), constants,
                 read=math.prod(out) * np.dtype(DTYPES[dtype]).itemsize)


def _pad(e, dtype):
    shape, pads = tuple(e["shape"]), e["pads"]
    rank = len(shape)
    out = [n + pads[d] + pads[d + rank] for d, n in enumerate(shape)]
    order = [p for d in reversed(range(rank)) for p in (pads[d], pads[d + rank])]
    return _case(e, dtype, {"x": shape}, out, [_node("Pad", "x pads", mode="constant")],
                 lambda t, x: t.nn.functional.pad(x, order), {"pads": np.array(pads)})


def _resize(e, dtype):
    shape, scale = tuple(e["shape"]), e["scale"]
    out = (*shape[:2], shape[2] * scale, shape[3] * scale)
    nearest = e["mode"] == "nearest"
    from onnx import helper
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=e["mode"],
                            coordinate_transformation_mode="asymmetric" if nearest else "half_pixel",
                            nearest_mode="floor" if nearest else "round_prefer_floor")
    kind = "nearest" if nearest else "bilinear"
    return _case(e, dtype, {"x": shape}, out, [node],
                 lambda t, x: t.nn.functional.interpolate(x, scale_factor=scale, mode=kind),
                 {"scales": np.array([1, 1, scale, scale], np.float32)})


def _one_hot(e, dtype):
    count, depth, kind = e["count"], e["depth"], DTYPES[dtype]
    def one_hot(t, i):
        made = (i[:, None] == t.arange(depth, device=i.device)[None, :])
        return made.to(getattr(t, np.dtype(kind).name))
    return _case(e, dtype, {"i": ((count,), depth)}, (count, depth), [_node("OneHot", "i depth values")], one_hot,
                 {"depth": np.array([depth]), "values": np.array([0, 1], kind)})


def _scatter(e, dtype):
    shape, count = tuple(e["shape"]), e["count"]
    rows = np.random.default_rng(1).permutation(shape[0])[:count]  # each row once, so that no order matters
    places = {}
    def scatter(t, x, u):
        if x.device not in places:
            places[x.device] = t.from_numpy(rows).to(x.device)
        return x.index_copy(0, places[x.device], u)
    return _case(e, dtype, {"x": shape, "u": (count, shape[1])}, shape, [_node("ScatterND", "x rows u")],
                 scatter, {"rows": rows[:, None]})


def _gelu_bias(e, dtype):
    shape = tuple(e["shape"])
    return _case(e, dtype, {"x": shape, "b": shape[-1:]}, shape, [_node("Add", "x b", "t"), _node("Gelu", "t")],
                 lambda t, x, b: t.nn.functional.gelu(x + b))


def _scale_shift(e, dtype):
    shape, per = tuple(e["shape"]), (e["shape"][1], 1, 1)
    return _case(e, dtype, {"x": shape, "a": per, "b": per}, shape,
                 [_node("Mul", "x a", "t"), _node("Add", "t b", "s"), _node("Relu", "s")],
                 lambda t, x, a, b: t.relu(x * a + b))


def _residual(e, dtype):
    shape = tuple(e["shape"])
    return _case(e, dtype, {"x": shape, "r": shape}, shape,
                 [_node("Sigmoid", "x", "g"), _node("Mul", "x g", "t"), _node("Add", "t r")],
                 lambda t, x, r: x * t.sigmoid(x) + r)


def _softmax(e, dtype):
    shape, axis = tuple(e["shape"]), e["axis"]
    return _case(e, dtype, {"x": shape}, shape, [_node("Softmax", "x", axis=axis)],
                 lambda t, x: t.softmax(x, axis))


def _layer_norm(e, dtype):
    shape = tuple(e["shape"])
    width = shape[-1]
    return _case(e, dtype, {"x": shape, "a": (width,), "b": (width,)}, shape,
                 [_node("LayerNormalization", "x a b", axis=-1, epsilon=1e-5)],
                 lambda t, x, a, b: t.nn.functional.layer_norm(x, (width,), a, b, 1e-5))


def _group_norm(e, dtype):
    shape, groups = tuple(e["shape"]), e["groups"]
    channels = shape[1:2]
    return _case(e, dtype, {"x": shape, "a": channels, "b": channels}, shape,
                 [_node("GroupNormalization", "x a b", num_groups=groups, epsilon=1e-5)],
                 lambda t, x, a, b: t.nn.functional.group_norm(x, groups, a, b, 1e-5))


def _reduce(e, dtype):
    shape, axes = tuple(e["shape"]), e["axes"]
    out = [n for d, n in enumerate(shape) if d not in axes]
    name = "ReduceSum" if e["op"] == "reduce_sum" else "ReduceMax"
    def reduce(t, x):
        return t.sum(x, axes) if name == "ReduceSum" else t.amax(x, axes)
    return _case(e, dtype, {"x": shape}, out, [_node(name, "x axes", keepdims=0)], reduce, {"axes": np.array(axes)})


def _global_pool(e, dtype):
    shape = tuple(e["shape"])
    return _case(e, dtype, {"x": shape}, (*shape[:2], 1, 1), [_node("GlobalAveragePool", "x")],
                 lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 1))


def _last(nodes, source="x", result="y"):
    """The nodes between transpositions, for images whose channels come last: they read `u` and give `v`."""
    return [_node("Transpose", source, "u", perm=[0, 3, 1, 2]), *nodes,
            _node("Transpose", "v", result, perm=[0, 2, 3, 1])]


def _image_case(e, dtype, node, torch, **more):
    """A window over the images `shape`, [n, c, h, w]; `layout` nhwc has them as [n, h, w, c] on both sides."""
    shape, kernel, stride, pad = tuple(e["shape"]), e["kernel"], e["stride"], e["pad"]
    out = (*shape[:2], *((n + 2 * pad - kernel) // stride + 1 for n in shape[2:]))
    last = e.get("layout") == "nhwc"
    def put(sizes):
        return tuple(sizes[d] for d in (0, 2, 3, 1)) if last else tuple(sizes)
    def run(t, x, *others):
        if not last:
            return torch(t, x, *others)
        return torch(t, x.permute(0, 3, 1, 2), *others).permute(0, 2, 3, 1).contiguous()
    attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    nodes = node("u" if last else "x", "v" if last else "y", attributes)
    inputs = {"x": put(shape), **more.pop("inputs", {})}
    return _case(e, dtype, inputs, put(out), _last(nodes) if last else nodes, run, **more)


def _pool(e, dtype):
    largest = e["op"] == "max_pool"
    def pool(t, x):
        if largest:
            return t.nn.functional.max_pool2d(x, e["kernel"], e["stride"], e["pad"])
        return t.nn.functional.avg_pool2d(x, e["kernel"], e["stride"], e["pad"], count_include_pad=False)
    return _image_case(e, dtype, lambda x, y, attributes: [
        _node("MaxPool" if largest else "AveragePool", x, y, **attributes)], pool)


def _depthwise(e, dtype):
    """A convolution of each channel by itself, with a bias and a clip at 0 and 6, as in MobileNetV2."""
    channels, kernel, kind = e["shape"][1], e["kernel"], DTYPES[dtype]
    weights = (np.random.default_rng(1).standard_normal((channels, 1, kernel, kernel)) / kernel).astype(kind)
    bias = np.random.default_rng(2).standard_normal(channels).astype(kind)
    places = {}
    def convolve(t, x):
        if x.device not in places:
            places[x.device] = [t.from_numpy(array).to(x.device) for array in (weights, bias)]
        w, b = places[x.device]
        return t.clamp(t.nn.functional.conv2d(x, w, b, e["stride"], e["pad"], groups=channels), 0, 6)
    def nodes(x, y, attributes):
        return [_node("Conv", f"{x} w b", "c", group=channels, **attributes), _node("Clip", "c low high", y)]
    constants = {"w": weights, "b": bias, "low": np.array(0, kind), "high": np.array(6, kind)}
    return _image_case(e, dtype, nodes, convolve, constants=constants)


def _cumsum(e, dtype):
    shape, axis = tuple(e["shape"]), e["axis"]
    return _case(e, dtype, {"x": shape}, shape, [_node("CumSum", "x axis")], lambda t, x: t.cumsum(x, axis),
                 {"axis": np.array(axis)})


def _top_k(e, dtype):
    shape, k = tuple(e["shape"]), e["k"]
    out = (shape[0], k)
    return _case(e, dtype, {"x": shape}, out, [_node("TopK", "x k", "y i", axis=-1)],
                 lambda t, x: tuple(t.topk(x, k, -1)), {"k": np.array([k])},
                 outputs={"y": (out, DTYPES[dtype]), "i": (out, np.int64)})


_BUILDERS = {"scale": _scale, "transpose": _transpose, "gather": _gather, "concat": _concat, "slice": _slice,
             "pad": _pad, "resize": _resize, "one_hot": _one_hot, "scatter": _scatter, "gelu_bias": _gelu_bias,
             "scale_shift": _scale_shift, "residual": _residual, "softmax": _softmax, "layer_norm": _layer_norm,
             "group_norm": _group_norm, "reduce_sum": _reduce, "reduce_max": _reduce, "global_pool": _global_pool,
             "max_pool": _pool, "average_pool": _pool, "depthwise": _depthwise, "cumsum": _cumsum, "top_k": _top_k}
