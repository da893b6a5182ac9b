# SPDX-License-Identifier: Apache-2.0
"""Engines on a real Ray of several nodes on this machine."""

import json
import os
import pathlib
import socket
import time
import urllib.error
import urllib.request

os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "120")  # a busy machine starts it slowly

import numpy as np
import pytest
import ray
from ray import serve
from ray.cluster_utils import Cluster

import graft
import graft.ray

with socket.socket() as unused:
    unused.bind(("127.0.0.1", 0))
    PORT = unused.getsockname()[1]
MODELS = pathlib.Path(os.environ["GRAFT_SERVING_MODELS"])


def dense(x):
    """What the network `dense` gives: its weights are those of tests/serving/models.py."""
    weights = np.random.default_rng(sum(map(ord, "dense"))).standard_normal((8, 4)) / np.sqrt(8)
    return np.maximum(x @ weights.astype(np.float32), 0)


@pytest.fixture(scope="module", name="cluster")
def fixture_cluster():
    """A head without processors for tasks, and two workers."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    for _ in range(2):
        cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    serve.shutdown()
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module", name="plan")
def fixture_plan(cluster):
    """The plan in the object store."""
    del cluster
    return graft.ray.Plan(MODELS / "dense.graft")


def rows(count, seed=0):
    """Input of the network."""
    return np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)


def test_tables_get_columns_of_results(plan):
    x = rows(300)
    table = ray.data.from_numpy([x[:100], x[100:]]).rename_columns({"data": "x"})
    table = table.map_batches(graft.ray.Predictor, fn_constructor_args=(plan,), batch_size=50, concurrency=2)
    results = table.take_all()
    assert len(results) == 300
    for row in results:
        np.testing.assert_allclose(row["y"], dense(row["x"]), rtol=1e-5, atol=1e-6)


def test_batches_above_the_range_of_the_plan_are_several_runs(plan):
    predictor = graft.ray.Predictor(plan, columns={"x": "features"}, keep=False)
    features = rows(100).astype(np.float64)
    results = predictor({"features": features})
    assert list(results) == ["y"]
    np.testing.assert_allclose(results["y"], dense(features.astype(np.float32)), rtol=1e-5, atol=1e-6)
    with pytest.raises(graft.InvalidArgumentError, match="no column 'x'"):
        predictor({"other": features})


def test_engines_travel_to_tasks(cluster):
    del cluster
    engine = graft.load(MODELS / "dense.graft")

    @ray.remote
    def run(given, x):
        return given(x)

    np.testing.assert_allclose(ray.get(run.remote(engine, rows(3))), dense(rows(3)), rtol=1e-5, atol=1e-6)


def ask(body):
    """(status, JSON) of a request over HTTP."""
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as failure:
        return failure.code, json.load(failure)


def test_deployment_joins_requests_and_keeps_faults_apart(plan):
    serve.start(proxy_location="HeadOnly", http_options={"port": PORT})  # all nodes have one address here
    handle = serve.run(graft.ray.deployment(plan, max_batch_size=8, batch_wait_timeout_s=0.2))
    given = [rows(2, seed=index) for index in range(6)]
    answers = [handle.infer.remote({"x": x}) for x in given]
    wrong = handle.infer.remote({"x": np.zeros((2, 9), np.float32)})
    for x, answer in zip(given, answers):
        np.testing.assert_allclose(answer.result()["y"], dense(x), rtol=1e-5, atol=1e-6)
    with pytest.raises(Exception, match="9"):
        wrong.result()
    x = rows(1)
    status, answer = ask({"inputs": [{"name": "x", "shape": [1, 8], "datatype": "FP32", "data": x.ravel().tolist()}]})
    assert status == 200
    np.testing.assert_allclose(answer["outputs"][0]["data"], dense(x).ravel(), rtol=1e-5, atol=1e-6)
    assert answer["outputs"][0]["shape"] == [1, 4] and answer["outputs"][0]["datatype"] == "FP32"
    status, answer = ask({"inputs": [{"name": "x"}]})
    assert status == 400 and "Open Inference Protocol" in answer["error"]


def test_node_that_is_killed_loses_no_batch(cluster, plan):
    extra = cluster.add_node(num_cpus=4)

    class Slow(graft.ray.Predictor):
        """So slow that batches are on their way when the node goes."""

        def __call__(self, batch):
            time.sleep(0.2)
            return super().__call__(batch)

    x = rows(400)
    table = ray.data.from_numpy(list(x.reshape(40, 10, 8))).rename_columns({"data": "x"})
    stream = table.map_batches(Slow, fn_constructor_args=(plan,), batch_size=10, concurrency=4)
    stream = iter(stream.iter_rows())
    results = [next(stream)]
    cluster.remove_node(extra)
    results += list(stream)
    assert len(results) == 400
    found = np.array(sorted(tuple(row["x"]) for row in results))
    np.testing.assert_array_equal(found, np.array(sorted(map(tuple, x))))
    for row in results:
        np.testing.assert_allclose(row["y"], dense(row["x"]), rtol=1e-5, atol=1e-6)
