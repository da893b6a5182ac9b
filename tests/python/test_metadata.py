# SPDX-License-Identifier: Apache-2.0
"""Where an engine comes from, and what its maker says of it."""

import hashlib
import pickle

import graft
import pytest
from conftest import layer_model


def test_metadata_goes_with_the_engine(tmp_path):
    data = layer_model().SerializeToString()
    (tmp_path / "layer.onnx").write_bytes(data)
    engine = graft.compile(tmp_path / "layer.onnx", tune="off", metadata={"owner": "vision", "number": 7})
    found = engine.metadata
    assert found["owner"] == "vision" and found["number"] == "7"
    assert found["graft.source"] == "layer.onnx"
    assert found["graft.source_sha256"] == hashlib.sha256(data).hexdigest()
    assert found["graft.version"] == graft.__version__
    engine.save(tmp_path / "layer.graft")
    assert graft.load(tmp_path / "layer.graft").metadata == found
    assert pickle.loads(pickle.dumps(engine)).metadata == found
    in_memory = graft.compile(data, tune="off").metadata
    assert "graft.source" not in in_memory
    assert in_memory["graft.source_sha256"] == found["graft.source_sha256"]


def test_wrong_pairs_are_refused():
    with pytest.raises(graft.InvalidArgumentError, match="Graft's own"):
        graft.compile(layer_model(), tune="off", metadata={"graft.made": "now"})
    with pytest.raises(graft.InvalidArgumentError, match="metadata"):
        graft.compile(layer_model(), tune="off", metadata="owner=vision")
