# SPDX-License-Identifier: Apache-2.0
"""A model of ONNX as an engine, through the C interface: its folder, tests/conformance, has to be on the path."""

from onnx import numpy_helper

import library


def by_graft(graft, model, feeds, mode):
    """The results of a model, in its order, and how its steps ran: by `generated` kernels, or `interpret`."""
    names = [output.name for output in model.graph.output]
    protos = [(name, numpy_helper.from_array(value, name)) for name, value in feeds.items()]
    with library.Engine(graft, model.SerializeToString(), [("mode", mode)]) as engine:
        ways = engine.describe()["ways"]
        return [numpy_helper.to_array(proto) for proto in engine.run(protos, names)], ways
