# SPDX-License-Identifier: Apache-2.0
"""Small models written node by node, and what compares them with ONNX Runtime."""

import graft
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, kind=FLOAT, shape=None):
    """A typed value of a graph."""
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name, array):
    """An initializer."""
    return numpy_helper.from_array(np.asarray(array), name)


def body_of(nodes, inputs, outputs, initializers=()):
    """A graph for an attribute."""
    return helper.make_graph(nodes, "body", inputs, outputs, initializer=list(initializers))


def model_of(nodes, inputs, outputs, initializers=()):
    """A model of opset 18."""
    graph = helper.make_graph(nodes, "test", inputs, outputs, initializer=list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def agree(model, feeds, computed=None):
    """Runs the model here and in ONNX Runtime on each of the feeds; gives the engine."""
    engine = graft.compile(model, tune="off")
    session = graft.Session(engine)
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in model.graph.output]
    for feed in feeds:
        expected = theirs.run(names, feed)
        actual = session.run(feed)
        for name, wanted in zip(names, expected):
            if wanted.size == 0:  # of rounds that never were ONNX Runtime takes unknown sizes to be zero
                assert actual[name].size == 0 and actual[name].ndim == wanted.ndim
                continue
            np.testing.assert_allclose(actual[name], wanted, rtol=1e-4, atol=1e-5)
            assert actual[name].shape == wanted.shape
    assert computed is None or engine.describe()["computed_sizes"] == computed
    assert engine.describe()["ways"]["interpreter"] == 0
    return engine
