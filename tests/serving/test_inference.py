# SPDX-License-Identifier: Apache-2.0
"""What clients get: results, batches, strings, shared memory."""

import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.utils.shared_memory as shm
from conftest import MODELS, dense, inputs_of, weights
from tritonclient.utils import InferenceServerException

WAITS = "dynamic_batching { max_queue_delay_microseconds: 300000 }"


def rows(count, seed=0):
    """Input of the network `dense`."""
    return np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)


def at_once(server, name, requests):
    """Sends requests at the same time; their results, or what went wrong, in order."""
    answers = [None] * len(requests)
    done = threading.Semaphore(0)

    def take(index, result, error):
        answers[index] = error if error else result
        done.release()

    for index, arrays in enumerate(requests):
        server.grpc.async_infer(name, inputs_of(grpc_client, arrays),
                                lambda result, error, index=index: take(index, result, error))
    for _ in requests:
        assert done.acquire(timeout=60)  # pylint: disable=consider-using-with
    return answers


def test_both_protocols_give_what_numpy_gives(server):
    server.serve("dense", "dense")
    for client in (server.grpc, server.http):
        for count in (1, 5, 32):
            np.testing.assert_allclose(server.infer("dense", client=client, x=rows(count))["y"], dense(rows(count)),
                                       rtol=1e-5, atol=1e-6)


def test_configuration_is_completed_from_the_plan(server):
    server.serve("completed", "dense")
    config = server.config("completed")
    assert config["max_batch_size"] == 32
    assert "dynamic_batching" in config
    assert [(each["name"], each["data_type"], each["dims"]) for each in config["input"]] == [("x", "TYPE_FP32", ["8"])]
    assert [(each["name"], each["dims"]) for each in config["output"]] == [("y", ["4"])]
    assert config["instance_group"][0]["kind"] == "KIND_CPU"


def test_folder_named_like_the_backend_needs_no_configuration(server):
    server.serve("bare.graft", "dense")
    (server.repository / "bare.graft" / "config.pbtxt").unlink()
    server.grpc.load_model("bare.graft")
    np.testing.assert_allclose(server.infer("bare.graft", x=rows(3))["y"], dense(rows(3)), rtol=1e-5, atol=1e-6)


def test_unbounded_batch_gets_the_default_of_triton(server):
    server.serve("unbounded", "dense-unbounded")
    assert server.config("unbounded")["max_batch_size"] == 4


def test_what_the_configuration_says_stays(server):
    server.serve("said", "dense", 'max_batch_size: 8 sequence_batching { }')
    config = server.config("said")
    assert config["max_batch_size"] == 8
    assert "dynamic_batching" not in config


def test_requests_are_joined_and_their_rows_come_back(server):
    server.serve("joined", "dense", WAITS)
    requests = [{"x": rows(1 + index % 3, seed=index)} for index in range(15)]  # 30 rows
    joined = server.metric("graft_joined_requests", "joined")
    before = server.counts("joined")
    answers = at_once(server, "joined", requests)
    for request, answer in zip(requests, answers, strict=True):
        np.testing.assert_allclose(answer.as_numpy("y"), dense(request["x"]), rtol=1e-5, atol=1e-6)
    after = server.counts("joined")
    assert after[0] - before[0] == 30
    assert after[1] - before[1] < 8
    assert server.metric("graft_joined_requests", "joined") - joined >= 8


def test_requests_of_one_length_are_joined_and_others_are_not_mixed_in(server):
    server.serve("lengths", "rows", WAITS)
    requests = [{"i": np.random.default_rng(index).integers(0, 10, (2, 1 + index % 2))} for index in range(8)]
    for request, answer in zip(requests, at_once(server, "lengths", requests), strict=True):
        np.testing.assert_array_equal(answer.as_numpy("y"), weights("table", 10, 3)[request["i"]])


def test_fault_of_one_request_is_not_the_fault_of_those_joined_with_it(server):
    server.serve("guilty", "rows", WAITS)
    requests = [{"i": np.full((2, 3), index)} for index in range(8)]
    requests[3]["i"][1, 1] = 99
    answers = at_once(server, "guilty", requests)
    for index, answer in enumerate(answers):
        if index == 3:
            assert isinstance(answer, InferenceServerException)
            assert "index 99 is out of range" in answer.message()
        else:
            np.testing.assert_array_equal(answer.as_numpy("y"), weights("table", 10, 3)[requests[index]["i"]])
    assert server.metric("graft_retried_requests", "guilty") == 8
    assert server.metric("graft_run_failures", "guilty") == 2  # joined, and alone
    assert server.metric("graft_run_seconds", "guilty") > 0


def test_kernels_of_all_models_are_counted(server):
    before = [server.metric(f"graft_kernel_cache_{end}", None) for end in ("hits", "misses")]
    server.serve("counted", "dense")
    after = [server.metric(f"graft_kernel_cache_{end}", None) for end in ("hits", "misses")]
    assert sum(after) > sum(before)
    assert server.metric("graft_kernel_compilations", None) >= 0


def test_instances_share_an_engine_and_answer_at_the_same_time(server):
    server.serve("several", "dense", "instance_group { count: 3 kind: KIND_CPU } dynamic_batching { }")
    requests = [{"x": rows(2, seed=index)} for index in range(64)]
    for request, answer in zip(requests, at_once(server, "several", requests), strict=True):
        np.testing.assert_allclose(answer.as_numpy("y"), dense(request["x"]), rtol=1e-5, atol=1e-6)


def test_strings_go_in_and_out_of_joined_runs(server):
    server.serve("texts", "texts", "dynamic_batching { max_queue_delay_microseconds: 200000 }")
    requests = [{"a": np.array([[f"{index}ä", ""]], dtype=object), "b": np.array([["x" * index, "€"]], dtype=object)}
                for index in range(6)]
    for request, answer in zip(requests, at_once(server, "texts", requests), strict=True):
        wanted = [(a + b).encode() for a, b in zip(request["a"][0], request["b"][0])]
        assert answer.as_numpy("c").tolist() == [wanted]
    assert server.counts("texts")[1] < 6


def test_scalar_output_and_empty_input(server):
    server.serve("total", "total")
    assert server.config("total").get("max_batch_size", 0) == 0
    x = np.arange(5, dtype=np.float32)
    assert server.infer("total", x=x)["s"].tolist() == [10.0]
    server.serve("empty", "rows")
    assert server.infer("empty", i=np.zeros((2, 0), np.int64))["y"].shape == (2, 0, 3)


def test_only_outputs_that_are_asked_for_come(server):
    server.serve("asked", "dense")
    result = server.grpc.infer("asked", inputs_of(grpc_client, {"x": rows(1)}),
                               outputs=[grpc_client.InferRequestedOutput("y")])
    assert [each.name for each in result.get_response().outputs] == ["y"]


def test_shared_memory_is_read_and_written_in_place(server):
    server.serve("shared", "dense")
    x = rows(4)
    given = shm.create_shared_memory_region("given", "/graft_given", x.nbytes)
    taken = shm.create_shared_memory_region("taken", "/graft_taken", 4 * 4 * 4)
    try:
        shm.set_shared_memory_region(given, [x])
        server.grpc.register_system_shared_memory("given", "/graft_given", x.nbytes)
        server.grpc.register_system_shared_memory("taken", "/graft_taken", 4 * 4 * 4)
        place = grpc_client.InferInput("x", [4, 8], "FP32")
        place.set_shared_memory("given", x.nbytes)
        output = grpc_client.InferRequestedOutput("y")
        output.set_shared_memory("taken", 4 * 4 * 4)
        server.grpc.infer("shared", [place], outputs=[output])
        np.testing.assert_allclose(shm.get_contents_as_numpy(taken, np.float32, [4, 4]), dense(x), rtol=1e-5, atol=1e-6)
        output.set_shared_memory("taken", 4)
        with pytest.raises(InferenceServerException, match="size"):
            server.grpc.infer("shared", [place], outputs=[output])
        assert server.infer("shared", x=x)["y"].shape == (4, 4)
    finally:
        server.grpc.unregister_system_shared_memory()
        shm.destroy_shared_memory_region(given)
        shm.destroy_shared_memory_region(taken)


SUMS = """max_batch_size: 8
sequence_batching {
  oldest { max_candidate_sequences: 4 max_queue_delay_microseconds: 100000 }
  state { input_name: "before" output_name: "after" data_type: TYPE_FP32 dims: [ 3 ]
          initial_state { name: "zeros" data_type: TYPE_FP32 dims: [ 3 ] zero_data: true } }
}"""


def test_sequences_keep_their_own_state_in_joined_runs(server):
    server.serve("sums", "sums", SUMS)
    assert [each["name"] for each in server.config("sums")["input"]] == ["x"]
    assert [each["name"] for each in server.config("sums")["output"]] == ["sum"]
    totals = {sequence: np.zeros((1, 3), np.float32) for sequence in (11, 12, 13)}
    for step in range(4):
        answers, done = {}, threading.Semaphore(0)
        for sequence in totals:
            x = np.full((1, 3), sequence * 10 + step, np.float32)
            totals[sequence] = totals[sequence] + x

            def take(result, error, sequence=sequence):
                answers[sequence] = error or result
                done.release()

            server.grpc.async_infer("sums", inputs_of(grpc_client, {"x": x}), take, sequence_id=sequence,
                                    sequence_start=step == 0, sequence_end=step == 3)
        for _ in totals:
            assert done.acquire(timeout=60)  # pylint: disable=consider-using-with
        for sequence, total in totals.items():
            np.testing.assert_array_equal(answers[sequence].as_numpy("sum"), total)
    requests, runs = server.counts("sums")
    assert requests == 12 and runs < 12


def test_requests_that_lie_side_by_side_are_joined_without_a_copy(server):
    server.serve("adjacent", "dense", WAITS)
    x = rows(8)
    region = shm.create_shared_memory_region("rows", "/graft_rows", x.nbytes)
    try:
        shm.set_shared_memory_region(region, [x])
        server.grpc.register_system_shared_memory("rows", "/graft_rows", x.nbytes)
        answers, done = [None] * 4, threading.Semaphore(0)

        def ask(index):
            # Its two rows lie behind those of the one before; the server queues them in this order.
            place = grpc_client.InferInput("x", [2, 8], "FP32")
            place.set_shared_memory("rows", 64, offset=64 * index)

            def take(result, error):
                answers[index] = error or result
                done.release()

            server.grpc.async_infer("adjacent", [place], take)

        for index in range(4):
            ask(index)
            time.sleep(0.02)
        for _ in answers:
            assert done.acquire(timeout=60)  # pylint: disable=consider-using-with
        np.testing.assert_allclose(np.concatenate([answer.as_numpy("y") for answer in answers]), dense(x), rtol=1e-5,
                                   atol=1e-6)
        assert server.metric("graft_joined_requests", "adjacent") == 4
        assert server.metric("graft_copied_bytes", "adjacent") == 0
    finally:
        server.grpc.unregister_system_shared_memory()
        shm.destroy_shared_memory_region(region)
    at_once(server, "adjacent", [{"x": rows(2, seed=index)} for index in range(4)])
    assert server.metric("graft_copied_bytes", "adjacent") > 0


def test_onnx_file_is_compiled_with_the_parameters(server):
    server.put("compiled", MODELS / "dense.onnx", 'parameters { key: "dim" value { string_value: "batch=1:2:6" } } '
               'parameters { key: "tune" value { string_value: "off" } }', file="model.onnx")
    server.grpc.load_model("compiled")
    assert server.config("compiled")["max_batch_size"] == 6
    np.testing.assert_allclose(server.infer("compiled", x=rows(6))["y"], dense(rows(6)), rtol=1e-5, atol=1e-6)
