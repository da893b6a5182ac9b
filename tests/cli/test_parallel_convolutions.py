# SPDX-License-Identifier: Apache-2.0
"""Convolutions of one window that read one tensor run as one kernel (the pass merge_parallel_convolutions)."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

OFF = ["--disable", "merge_parallel_convolutions"]


class Network:
    """An ONNX graph of convolutions with bias and ReLU over x[batch, 32, 9, 9]."""

    def __init__(self):
        self.random, self.nodes, self.weights = np.random.default_rng(5), [], []

    def add(self, operator, name, inputs, **attributes):
        self.nodes.append(helper.make_node(operator, inputs, [name + ":0"], name=name, **attributes))
        return name + ":0"

    def conv_relu(self, name, x, outer, inner, kernel=1):
        for suffix, shape in (("/w", (outer, inner, kernel, kernel)), ("/b", (outer,))):
            values = self.random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
            self.weights.append(numpy_helper.from_array(values.astype(np.float32), name + suffix))
        y = self.add("Conv", name + "/conv", [x, name + "/w", name + "/b"], pads=[kernel // 2] * 4)
        return self.add("Relu", name + "/relu", [y])

    def save(self, path, y):
        self.nodes[-1].output[0] = y
        graph = helper.make_graph(
            self.nodes, "module", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 32, 9, 9])],
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["batch", None, 9, 9])], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


@pytest.fixture
def module(tmp_path):
    """Four 1x1 convolutions of x, two of which others follow; a pool and another 1x1 beside them."""
    net = Network()
    parts = [net.conv_relu("single", "x", 32, 32), net.conv_relu("plain", "x", 16, 32)]
    parts.append(net.conv_relu("after3", net.conv_relu("before3", "x", 24, 32), 32, 24, 3))
    parts.append(net.conv_relu("after5", net.conv_relu("before5", "x", 16, 32), 16, 16, 5))
    pool = net.add("MaxPool", "pool", ["x"], kernel_shape=[3, 3], pads=[1] * 4)
    parts.append(net.conv_relu("pooled", pool, 16, 32))
    net.add("Concat", "join", parts, axis=1)
    net.save(tmp_path / "module.onnx", "y")


def steps_of(graft, tmp_path, *options):
    """What `graft inspect` says of each step."""
    done = graft("inspect", "module.onnx", "--no-run", "--tune", "off", "--disable", "onednn", "--json", "facts.json",
                 *options)
    assert done.returncode == 0, done.stderr
    return json.loads((tmp_path / "facts.json").read_text())["steps"]


def convolutions_of(steps):
    return [step["nodes"] for step in steps if "Conv" in step["operators"]]


@pytest.mark.usefixtures("module")
def test_four_1x1_convolutions_are_one_kernel(graft, tmp_path):
    before, after = steps_of(graft, tmp_path, *OFF), steps_of(graft, tmp_path)
    assert len(convolutions_of(before)) == 7 and len(convolutions_of(after)) == 4
    assert len(before) - len(after) == 3
    joint = [nodes for nodes in convolutions_of(after) if "before3/conv" in nodes[0]]
    assert joint == [["single/conv + plain/conv + before5/conv + before3/conv", "single/relu"]]


@pytest.mark.usefixtures("module")
def test_the_page_names_all_four_in_one_box(graft, tmp_path):
    done = graft("inspect", "module.onnx", "--no-run", "--tune", "off", "--html", "page.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    picture = page[page.index('<svg id="graph"'):]
    assert "single/conv + plain/conv + before5/conv + before3/conv" in picture[:picture.index("</svg>")]


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("batch", [1, 3])
def test_results_agree_with_onnx_runtime(graft, batch):
    done = graft("run", "module.onnx", "--size", f"batch={batch}", "--tune", "off", "--reference", "onnxruntime")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("module")
def test_weights_are_not_kept_twice(graft, tmp_path):
    sizes = {}
    for name, options in {"off": OFF, "on": []}.items():
        done = graft("compile", "module.onnx", "--tune", "off", "-o", f"{name}.graft", *options)
        assert done.returncode == 0, done.stderr
        sizes[name] = (tmp_path / f"{name}.graft").stat().st_size
    assert sizes["on"] < 1.1 * sizes["off"]
