# SPDX-License-Identifier: Apache-2.0
"""Engines inside TensorFlow.

    converted = graft.tensorflow.create_inference_graph(frozen_graph_def, ["softmax"])
    with tf.compat.v1.Session() as session:
        tf.import_graph_def(converted, name="")
        session.run("softmax:0", {"image:0": image})

A graph written by `graft embed`, without TensorFlow, needs only load_library().
"""

from .. import _graft
from ..frameworks import need

need("TensorFlow", "tensorflow", "graft.tensorflow")

from .converter import Converter  # noqa: E402
from .library import build_count, load_library, retry_failed_engines  # noqa: E402
from .trt import calib_graph_to_infer_graph, create_inference_graph  # noqa: E402

__all__ = ["Converter", "build_count", "calib_graph_to_infer_graph", "create_inference_graph", "fallback_count",
           "load_library", "retry_failed_engines"]


def fallback_count():
    """How many parts ran in TensorFlow instead of an engine, in this process; each one is in the log."""
    return _graft.fallback_count()
