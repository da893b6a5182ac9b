# SPDX-License-Identifier: Apache-2.0
"""Networks of one operator at the sizes of real ones: recurrent layers, detection heads, loops."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from network_builder import NetworkBuilder
from seeded_layers import parameter, random_array, small_array

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(kind, batch, length=128, width=512, hidden=512, seed=0, **attributes):
    """A recurrent layer with a bias, from states of zeros: x (length, batch, width) -> y."""
    net = NetworkBuilder(kind.lower(), seed=seed)
    x = net.input("x", np.float32, [length, batch, width])
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[kind] * hidden
    weight = parameter(net, "W", random_array(net, "W", (directions, rows, width), fan_in=width))
    again = parameter(net, "R", random_array(net, "R", (directions, rows, hidden), fan_in=hidden))
    bias = parameter(net, "B", small_array(net, "B", (directions, 2 * rows)))
    y = net.op(kind, x, weight, again, bias, outputs=2, hidden_size=hidden, **attributes)[0]
    net.output("y", y, np.float32, [length, directions, batch, hidden])
    return net.model()


def recurrent_inputs(batch, length=128, width=512, seed=1):
    """Standard normal sequences."""
    return {"x": np.random.default_rng(seed).standard_normal((length, batch, width), dtype=np.float32)}


def suppression(boxes, classes, limit, score=0.05, overlap=0.5, batch=1):
    """boxes (batch, boxes, 4), scores (batch, classes, boxes) -> image, class and place of those that are kept."""
    net = NetworkBuilder("suppression")
    given = net.input("boxes", np.float32, [batch, boxes, 4])
    scores = net.input("scores", np.float32, [batch, classes, boxes])
    kept = net.op("NonMaxSuppression", given, scores, net.constant([limit], np.int64), net.constant([overlap]),
                  net.constant([score]))
    net.output("kept", kept, np.int64, ["count", 3])
    return net.model()


def suppression_inputs(boxes, classes, sides, batch=1, seed=1):
    """Boxes of 4 to `sides` pixels in an image of 640, and scores that differ and are mostly low."""
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 600, (batch, boxes, 2))
    extents = random.uniform(4, sides, (batch, boxes, 2))
    count = batch * classes * boxes
    scores = ((random.permutation(count) + 0.5) / count) ** 2
    return {"boxes": np.concatenate([corners, corners + extents], axis=2).astype(np.float32),
            "scores": scores.reshape(batch, classes, boxes).astype(np.float32)}


def regions(channels=256, side=50, count=512, ratio=2):
    """RoiAlign as detectors use it: 7x7 of each region of a feature map."""
    net = NetworkBuilder("regions")
    x = net.input("x", np.float32, [1, channels, side, side])
    boxes = net.input("boxes", np.float32, [count, 4])
    images = net.weight("images", np.zeros(count, np.int64))
    y = net.op("RoiAlign", x, boxes, images, output_height=7, output_width=7, sampling_ratio=ratio,
               spatial_scale=1 / 16, coordinate_transformation_mode="half_pixel")
    net.output("y", y, np.float32, [count, channels, 7, 7])
    return net.model()


def region_inputs(channels=256, side=50, count=512, seed=1):
    """A feature map of 16 pixels per place, and boxes inside of it."""
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 16 * side - 200, (count, 2))
    extents = random.uniform(16, 190, (count, 2))
    return {"x": random.standard_normal((1, channels, side, side), dtype=np.float32),
            "boxes": np.concatenate([corners, corners + extents], axis=1).astype(np.float32)}


def counting_loop():
    """A loop of `limit` rounds that does next to nothing: what a round costs."""
    def value(name, kind, shape):
        return helper.make_tensor_value_info(name, kind, shape)
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "step"], ["next"], name="step"),
         helper.make_node("Identity", ["c"], ["more"], name="more")], "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("s", TensorProto.FLOAT, [8])],
        [value("more", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, [8])],
        [numpy_helper.from_array(np.full(8, 0.5, np.float32), "step")])
    graph = helper.make_graph([helper.make_node("Loop", ["limit", "", "x"], ["y"], name="loop", body=body)], "loop",
                              [value("x", TensorProto.FLOAT, [8]), value("limit", TensorProto.INT64, [])],
                              [value("y", TensorProto.FLOAT, [8])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def counting_inputs(rounds):
    """So many rounds."""
    return {"x": np.arange(8, dtype=np.float32), "limit": np.array(rounds, np.int64)}
