# SPDX-License-Identifier: Apache-2.0
"""Counters of the process."""

import gc
import re

import graft
import numpy as np
import pytest
from conftest import layer_model


def record_of(name):
    found = [each for each in graft.metrics()["engines"] if each["engine"] == name]
    assert len(found) == 1, graft.metrics()
    return found[0]


def test_counters_of_an_engine_and_of_the_process():
    model = layer_model()
    model.graph.name = 'counted "in" Python'
    engine = graft.compile(model, tune="off")
    x = np.ones((2, 4), np.float32)
    engine(x), engine(x)
    with pytest.raises(graft.InvalidArgumentError):
        engine(np.ones((2, 9), np.float32))
    record = record_of(model.graph.name)
    assert record["device"] == "cpu" and record["engines"] == 1 and record["sessions"] == 1
    assert (record["runs"], record["run_failures"], record["run_cancellations"]) == (2, 1, 0)
    assert isinstance(record["runs"], int) and record["run_seconds"] > 0
    process = graft.metrics()
    assert process["kernel_compilations"] + process["kernel_cache_hits"] >= 0
    del engine
    gc.collect()  # its sessions know it
    assert record_of(model.graph.name)["engines"] == 0


def test_text_has_a_type_for_each_metric_and_escapes_names():
    model = layer_model()
    model.graph.name = 'two\nlines and a " and a \\'
    engine = graft.compile(model, tune="off")
    engine(np.ones((2, 4), np.float32))
    text = graft.metrics_text()
    lines = text.splitlines()
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    for line in lines:
        if not line.startswith("#"):
            assert re.fullmatch(r'[a-z_]+(\{([a-z]+="(\\[\\"n]|[^"\\])*",?)*\})? [0-9.e+-]+', line), line
            assert re.match("[a-z_]+", line)[0] in names
    assert r'graft_runs_total{engine="two\nlines and a \" and a \\",device="cpu"} 1' in lines
