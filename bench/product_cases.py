# SPDX-License-Identifier: Apache-2.0
"""What `./dev bench products` measures: matrix products, convolutions and attention of networks, in fp16.

bench/shapes/products.json lists the cases. Of each this file gives the ONNX graph, the same function in torch, its
inputs and its operations. Small cases are repeated side by side in one graph, each with an input of its own, so that
what is measured is not the launch of a graph.
"""

import json
import os

import numpy as np

from op_cases import OpCase

SHAPES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shapes", "products.json")
HALF = np.float16
ENOUGH_OPERATIONS = 2e10  # in one graph
MOST_COPIES = 20


class ProductCase(OpCase):
    """One case; `operations` of one copy, of which the graph has `copies`."""

    operations = 0
    copies = 1

    def reference(self, torch, *tensors):
        """The first copy's result of tensors in fp32, with weights in fp32."""
        return self.first(torch, *tensors)


def product_cases():
    """Lists the cases of products.json."""
    with open(SHAPES, encoding="utf-8") as file:
        listed = json.load(file)
    cases = [_product(entry) for entry in listed["products"]]
    cases += [_convolution(entry) for entry in listed["convolutions"]]
    cases += [_attention({**entry, "length": length, "causal": causal}) for entry in listed["attention"]
              for length in entry["lengths"] for causal in (False, True)]
    return cases


def _node(operator, inputs, output, **attributes):
    from onnx import helper
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def _weights(shape, depth, seed):
    values = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return (values / np.sqrt(depth)).astype(HALF)


def _like(torch, tensor, cache, name, array):
    """A constant on the device in the type of a tensor, made once."""
    key = (name, tensor.dtype)
    if key not in cache:
        cache[key] = torch.from_numpy(array).cuda().to(tensor.dtype)
    return cache[key]


def _case(entry, operations, make):
    """`make(i)` gives the inputs, the output's shape, the nodes and the function of copy `i`."""
    copies = max(1, min(MOST_COPIES, int(ENOUGH_OPERATIONS / operations)))
    inputs, outputs, nodes, functions, constants = {}, {}, [], [], {}
    for i in range(copies):
        given, shape, made, function, held = make(i)
        functions.append((len(given), function))
        inputs.update(given)
        outputs[f"y{i}"] = (shape, HALF)
        nodes += made
        constants.update(held)

    def run(torch, *tensors):
        results, at = [], 0
        for count, function in functions:
            results.append(function(torch, *tensors[at:at + count]))
            at += count
        return tuple(results)

    case = ProductCase(entry["name"], "product", "fp16", inputs, outputs, nodes, constants, run, 0)
    case.operations, case.copies, case.first = operations, copies, functions[0][1]
    return case


def _product(entry):
    m, n, k = entry["m"], entry["n"], entry["k"]
    weight, bias, cache = _weights((k, n), k, 1), _weights((n,), 1, 2), {}
    activation, residual = entry.get("activation"), entry.get("residual", False)
    turned = np.ascontiguousarray(weight.T)

    def make(i):
        names = [f"sum{i}", f"activated{i}", f"y{i}"]
        steps = [("Add", f"product{i} bias", {})]
        if activation == "relu6":
            steps.append(("Clip", "{} low high", {}))
        elif activation:
            steps.append((activation, "{}", {}))
        if residual:
            steps.append(("Add", "{} " + f"r{i}", {}))
        nodes, last = [_node("MatMul", f"x{i} weight", f"product{i}")], ""
        for number, (operator, operands, attributes) in enumerate(steps):
            output = f"y{i}" if number + 1 == len(steps) else names[number]
            nodes.append(_node(operator, operands.format(last), output, **attributes))
            last = output
        given = {f"x{i}": (m, k)}
        if residual:
            given[f"r{i}"] = (m, n)

        def function(torch, x, r=None):
            y = torch.nn.functional.linear(x, _like(torch, x, cache, "weight", turned),
                                           _like(torch, x, cache, "bias", bias))
            if activation == "relu6":
                y = torch.nn.functional.relu6(y)
            elif activation:
                y = torch.nn.functional.gelu(y)
            return y if r is None else y + r

        return given, (m, n), nodes, function, {
            "weight": weight, "bias": bias, **({"low": HALF(0), "high": HALF(6)} if activation == "relu6" else {})}

    return _case(entry, 2 * m * n * k, make)


def _convolution(entry):
    images, size, channels, filters = entry["images"], entry["size"], entry["channels"], entry["filters"]
    window, stride = entry["window"], entry.get("stride", 1)
    weight = _weights((filters, channels, window, window), channels * window * window, 1)
    bias, cache, pad = _weights((filters,), 1, 2), {}, window // 2
    out = (size + 2 * pad - window) // stride + 1

    def make(i):
        # Channels are last in memory, as inside of a network.
        nodes = [_node("Transpose", f"x{i}", f"turned{i}", perm=[0, 3, 1, 2]),
                 _node("Conv", f"turned{i} weight bias", f"sum{i}", pads=[pad] * 4, strides=[stride] * 2),
                 _node("Relu", f"sum{i}", f"activated{i}"),
                 _node("Transpose", f"activated{i}", f"y{i}", perm=[0, 2, 3, 1])]

        def function(torch, x):
            held = _like(torch, x, cache, "weight", weight).contiguous(memory_format=torch.channels_last)
            y = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), held, _like(torch, x, cache, "bias", bias),
                                           stride=stride, padding=pad)
            return torch.relu_(y).permute(0, 2, 3, 1)

        return ({f"x{i}": (images, size, size, channels)}, (images, out, out, filters), nodes, function,
                {"weight": weight, "bias": bias})

    return _case(entry, 2 * images * out * out * filters * channels * window * window, make)


def _attention(entry):
    width, length, causal = entry["width"], entry["length"], entry["causal"]
    heads = entry["channels"] // width
    batch = max(1, entry["tokens"] // length)
    shape = (batch, heads, length, width)
    entry = {"name": f"attention/d{width}/l{length}{'/causal' if causal else ''}"}

    def make(i):
        names = [f"{name}{i}" for name in "qkv"]

        def function(torch, q, k, v):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        nodes = [_node("Attention", " ".join(names), f"y{i}", is_causal=int(causal))]
        return {name: shape for name in names}, shape, nodes, function, {}

    case = _case(entry, 4 * batch * heads * length * length * width // (2 if causal else 1), make)
    case.kind, case.opset = "attention", 23
    return case
