# SPDX-License-Identifier: Apache-2.0
"""A line of JSON for each run."""

import datetime
import json
import time

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from conftest import Server, inputs_of
from tritonclient.utils import InferenceServerException


def lines_of(path, count):
    """The lines, once there are so many."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if len(lines) >= count:
            return [json.loads(line) for line in lines]
        time.sleep(0.05)
    raise AssertionError(lines)


@pytest.fixture(name="logging", scope="module")
def fixture_logging(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logging")
    server = Server(folder, f"--backend-config=graft,log={folder / 'runs.jsonl'}")
    yield server, folder / "runs.jsonl"
    server.stop()


def test_runs_are_logged_with_time_and_identifiers(logging):
    server, path = logging
    server.serve("logged", "dense")
    before = datetime.datetime.now(datetime.timezone.utc)
    x = np.ones((3, 8), np.float32)
    server.grpc.infer("logged", inputs_of(grpc_client, {"x": x}), request_id='mine "7"')
    line = lines_of(path, 1)[-1]
    assert line["model"] == "logged" and line["version"] == "1"
    assert line["requests"] == ['mine "7"'] and line["rows"] == 3 and line["status"] == "ok"
    assert line["microseconds"] >= 0 and "message" not in line
    told = datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00"))
    assert abs((told - before).total_seconds()) < 60


def test_failures_are_logged_with_their_message(logging):
    server, path = logging
    server.serve("faulty", "rows")
    count = len(lines_of(path, 0)) if path.exists() else 0
    with pytest.raises(InferenceServerException):
        server.grpc.infer("faulty", inputs_of(grpc_client, {"i": np.full((1, 2), 99)}), request_id="bad")
    line = lines_of(path, count + 1)[-1]
    assert line["requests"] == ["bad"] and line["status"] == "invalid_argument"
    assert "out of range" in line["message"]


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    server = Server(tmp_path, f"--backend-config=graft,log={tmp_path / 'absent' / 'runs.jsonl'}")
    try:
        server.put("dense", __file__)
        assert "absent" in server.failure("dense")
    finally:
        server.stop()
