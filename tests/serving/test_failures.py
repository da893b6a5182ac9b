# SPDX-License-Identifier: Apache-2.0
"""What goes wrong: a clear error to that client or in the log, and everything else goes on."""

import os
import subprocess
import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from conftest import MODELS, Server, dense, inputs_of
from tritonclient.utils import InferenceServerException

X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)
STATE = np.full((1, 64), 0.5, np.float32)


def parameter(key, value):
    """A parameter for config.pbtxt."""
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


@pytest.fixture(autouse=True, name="healthy")
def fixture_healthy(server):
    """Behind each test another model still answers."""
    server.serve("bystander", "dense")
    yield
    np.testing.assert_allclose(server.infer("bystander", x=X)["y"], dense(X), rtol=1e-5, atol=1e-6)


def refusal(server, name, **arrays):
    """What a client is told."""
    with pytest.raises(InferenceServerException) as failure:
        server.grpc.infer(name, inputs_of(grpc_client, arrays))
    return failure.value.message()


def test_clients_are_told_of_wrong_names_types_and_sizes(server):
    server.serve("strict", "dense")
    assert "'z'" in refusal(server, "strict", z=X)
    assert "INT64" in refusal(server, "strict", x=X.astype(np.int64))
    assert "[2,7]" in refusal(server, "strict", x=np.ascontiguousarray(X[:, :7]))
    assert "32" in refusal(server, "strict", x=np.zeros((33, 8), np.float32))


def test_size_outside_of_the_range_names_it(server):
    server.serve("ranged", "rows")
    message = refusal(server, "ranged", i=np.zeros((1, 65), np.int64))
    assert "length" in message and "64" in message and "65" in message, message


def test_corrupt_plans_are_refused(server):
    plan = (MODELS / "dense.graft").read_bytes()
    damaged = {"cut": plan[:len(plan) // 2], "empty": b"", "noise": bytes(range(256)) * 16,
               "flipped": plan[:200] + bytes(byte ^ 0xff for byte in plan[200:400]) + plan[400:]}
    for name, data in damaged.items():
        file = server.repository.parent / name
        file.write_bytes(data)
        server.put(f"corrupt_{name}", file)
        message = server.failure(f"corrupt_{name}")
        assert "model.graft" in message, message


def test_missing_file_is_named(server):
    (server.repository / "absent" / "1").mkdir(parents=True)
    (server.repository / "absent" / "config.pbtxt").write_text('backend: "graft"', encoding="utf-8")
    assert "there is no model.graft" in server.failure("absent")


def test_plan_for_a_gpu_that_is_not_here_is_refused_on_it_and_warned_of_on_the_cpu(server):
    server.put("foreign", MODELS / "dense-gpu.graft", parameter("device", "cuda:7"))
    message = server.failure("foreign")
    assert "cuda" in message.lower(), message
    server.serve("slow", "dense-gpu")
    assert "made for sm_90a only" in server.log()
    np.testing.assert_allclose(server.infer("slow", x=X)["y"], dense(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("config", "words"), [
    (parameter("speed", "high"), ["there is no parameter 'speed'", "threads"]),
    (parameter("threads", "many"), ["'many'", "threads"]),
    (parameter("memory_limit", "1T"), ["'1T'", "bytes"]),
    (parameter("deadline", "-1"), ["'-1'", "seconds"]),
    (parameter("precision", "fp16"), ["precision", "compiled"]),
    (parameter("device", "tpu"), ["tpu"]),
    ("max_batch_size: 64", ["64", "32"]),
    ('input { name: "x" data_type: TYPE_FP16 dims: [ 8 ] } max_batch_size: 8', ["input 'x'", "TYPE_FP16", "TYPE_FP32"]),
    ('input { name: "x" data_type: TYPE_FP32 dims: [ 9 ] } max_batch_size: 8', ["input 'x'", "[-1,9]", "[batch, 8]"]),
    ('input { name: "q" data_type: TYPE_FP32 dims: [ 8 ] } max_batch_size: 8', ["no input 'q'", "x"]),
    ('max_batch_size: 8 sequence_batching { state { input_name: "x" output_name: "q" data_type: TYPE_FP32 dims: 8 } }',
     ["no output 'q'", "state"]),
    ('output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }', ["max_batch_size is 0", "[batch, 4]"]),
])
def test_configuration_that_does_not_fit_is_refused(server, config, words):
    server.put("unfit", MODELS / "dense.graft", config)
    message = server.failure("unfit")
    assert all(word in message for word in words), message


def test_batch_of_a_model_without_one_is_refused(server):
    server.put("unbatched", MODELS / "rounds.graft", "max_batch_size: 2")
    assert "no batch" in server.failure("unbatched")


def test_memory_limit_is_told_to_the_client(server):
    server.serve("narrow", "rounds", parameter("memory_limit", "64"))
    message = refusal(server, "narrow", n=np.array([2]), x=STATE)
    assert "64" in message and "limit" in message, message


def test_deadline_of_the_model_and_timeout_of_a_client_end_a_run(server):
    server.serve("hasty", "rounds", parameter("deadline", "0.05"))
    assert "deadline" in refusal(server, "hasty", n=np.array([10**9]), x=STATE)
    assert server.infer("hasty", n=np.array([2]), x=STATE)["y"].shape == (1, 64)
    server.serve("patient", "rounds")
    with pytest.raises(InferenceServerException, match="deadline"):
        server.grpc.infer("patient", inputs_of(grpc_client, {"n": np.array([10**9]), "x": STATE}), timeout=50000)
    assert server.infer("patient", n=np.array([2]), x=STATE)["y"].shape == (1, 64)


def test_client_that_leaves_ends_its_run(server):
    server.serve("left", "rounds")
    answered = threading.Event()
    call = server.grpc.async_infer("left", inputs_of(grpc_client, {"n": np.array([10**9]), "x": STATE}),
                                   lambda result, error: answered.set())
    while server.grpc.get_inference_statistics("left", as_json=True)["model_stats"][0].get("inference_stats") is None:
        time.sleep(0.01)
    time.sleep(0.3)
    call.cancel()
    assert answered.wait(30)
    begin = time.monotonic()
    while server.metric("graft_cancelled_runs", "left") == 0:  # the run would go on for minutes
        assert time.monotonic() - begin < 30, "the run goes on"
        time.sleep(0.1)
    assert server.infer("left", n=np.array([2]), x=STATE)["y"].shape == (1, 64)


def test_model_replaced_under_load_gives_old_or_new_results(server):
    server.serve("reloaded", "dense")
    old, new = dense(X), dense(X, "dense-other")
    wrong, seen, stop = [], set(), threading.Event()

    def ask():
        with grpc_client.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            while not stop.is_set():
                y = client.infer("reloaded", inputs_of(grpc_client, {"x": X})).as_numpy("y")
                which = [name for name, wanted in (("old", old), ("new", new)) if np.allclose(y, wanted, 1e-5, 1e-6)]
                seen.update(which)
                if not which:
                    wrong.append(y)

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for each in askers:
        each.start()
    for index in range(6):
        server.put("reloaded", MODELS / f"{'dense' if index % 2 else 'dense-other'}.graft")
        server.grpc.load_model("reloaded")
        time.sleep(0.1)
    stop.set()
    for each in askers:
        each.join()
    assert not wrong
    assert seen == {"old", "new"}


def test_server_of_another_interface_is_refused(tmp_path):
    source, library = tmp_path / "older.c", tmp_path / "older.so"
    source.write_text("#include <stdint.h>\nvoid* TRITONBACKEND_ApiVersion(uint32_t* major, uint32_t* minor) "
                      "{ *major = 2; *minor = 0; return 0; }\n", encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    other = Server(tmp_path, LD_PRELOAD=os.fspath(library))
    try:
        other.put("dense", MODELS / "dense.graft")
        message = other.failure("dense")
        assert "interface 2.0" in message and "1.19" in message, message
    finally:
        other.stop()
