# SPDX-License-Identifier: Apache-2.0
"""MaxRoiPool against ONNX Runtime: which elements each bin takes, where rounding decides too."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from support.run_model import by_graft


def model_of(image, regions, pooled, scale):
    """One node."""
    node = helper.make_node("MaxRoiPool", ["image", "regions"], ["y"], pooled_shape=pooled, spatial_scale=scale)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
              for name, array in (("image", image), ("regions", regions))]
    graph = helper.make_graph([node], "pooling", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def scattered_regions():
    """Regions here and there on two maps, also turned and outside."""
    random = np.random.default_rng(3)
    corners = random.uniform(-4, 40, (40, 4))
    return np.concatenate([random.integers(0, 2, (40, 1)), corners], axis=1).astype(np.float32)


def rows_of_every_length(longest):
    """From the first element on."""
    return np.array([[0, 0, 0, last, 0] for last in range(longest)], np.float32)


IMAGE = np.random.default_rng(1).standard_normal((2, 3, 17, 23)).astype(np.float32)
ROW = np.arange(60, dtype=np.float32).reshape(1, 1, 1, 60)
CASES = {"scattered": (IMAGE, scattered_regions(), [3, 4], 0.6),
         "sevenths": (IMAGE, scattered_regions(), [7, 7], 1 / 3),
         **{f"bins_{bins}": (ROW, rows_of_every_length(59), [1, bins], 1.0) for bins in (7, 11, 13, 14)}}


@pytest.mark.parametrize("mode", ["generated", "interpret"])
@pytest.mark.parametrize("name", CASES)
def test_takes_what_onnx_runtime_takes(graft, name, mode):
    image, regions, pooled, scale = CASES[name]
    model, feeds = model_of(image, regions, pooled, scale), {"image": image, "regions": regions}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (got,), ways = by_graft(graft, model, feeds, mode)
    np.testing.assert_array_equal(got, session.run(None, feeds)[0])
    assert mode == "interpret" or not ways.get("interpreter"), ways
