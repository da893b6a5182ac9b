# SPDX-License-Identifier: Apache-2.0
"""Asynchronous runs: futures, asyncio, errors, cancelling, and an interpreter that ends."""

import asyncio
import concurrent.futures
import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import graft
import numpy as np
import pytest
from conftest import BUILD, expected, layer_model, model_of
from onnx import TensorProto, helper

TURNS = 1 << 40  # far more than anybody waits for


def loop_model():
    """left = turns - turns, by a loop of as many steps."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["more"]), helper.make_node("Sub", ["n", "one"], ["next"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("c", TensorProto.BOOL, []),
         helper.make_tensor_value_info("n", TensorProto.INT64, [])],
        [helper.make_tensor_value_info("more", TensorProto.BOOL, []),
         helper.make_tensor_value_info("next", TensorProto.INT64, [])],
        [helper.make_tensor("one", TensorProto.INT64, [], [1])])
    return model_of([helper.make_node("Loop", ["turns", "", "turns"], ["left"], body=body)],
                    [("turns", TensorProto.INT64, [])], [("left", TensorProto.INT64, [])])


@pytest.fixture(name="loop", scope="module")
def fixture_loop():
    return graft.compile(loop_model(), tune="off", threads=1)


def test_a_future_has_the_results_of_a_run(engine, x):
    with graft.Session(engine) as session:
        future = session.run_async({"x": x})
        assert isinstance(future, concurrent.futures.Future)
        np.testing.assert_allclose(future.result(60)["y"], expected(x), rtol=1e-6)
        assert future.done() and not future.cancel()


def test_queued_runs_have_results_of_their_own(engine, x):
    with graft.Session(engine) as session:
        futures = [session.run_async({"x": x + i}) for i in range(16)]
        for i, future in enumerate(futures):
            np.testing.assert_allclose(future.result(60)["y"], expected(x + i), rtol=1e-5)


def test_results_go_into_the_caller_s_array(engine, x):
    y = np.zeros((5, 3), np.float32)
    with graft.Session(engine) as session:
        assert session.run_async({"x": x}, {"y": y}).result(60)["y"] is y
    np.testing.assert_allclose(y, expected(x), rtol=1e-6)


def test_tasks_of_asyncio_run_at_the_same_time(engine, x):
    async def both():
        runs = [asyncio.wrap_future(engine.run_async({"x": x + i})) for i in range(20)]
        return await asyncio.gather(*runs)
    for i, results in enumerate(asyncio.run(both())):
        np.testing.assert_allclose(results["y"], expected(x + i), rtol=1e-5)


def test_wrong_names_raise_at_once_and_wrong_shapes_in_the_future(engine, x):
    with graft.Session(engine) as session:
        with pytest.raises(graft.InvalidArgumentError, match="'z'"):
            session.run_async({"x": x, "z": x})
        with pytest.raises(graft.InvalidArgumentError, match="input 'x'"):
            session.run_async({"x": x[:, :3]}).result(60)
        np.testing.assert_allclose(session.run({"x": x})["y"], expected(x), rtol=1e-6)
    with pytest.raises(graft.InvalidArgumentError, match="closed"):
        session.run_async({"x": x})


def test_a_future_is_cancelled_while_its_run_goes_on_or_waits(loop):
    with graft.Session(loop) as session:
        first, second = (session.run_async({"turns": np.int64(TURNS)}) for _ in range(2))
        third = session.run_async({"turns": np.int64(5)})
        assert second.cancel() and first.cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            first.result(60)
        assert third.result(60)["left"] == 0


def test_a_cancelled_task_ends_its_run(loop):
    async def give_up():
        session = graft.Session(loop)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(session.run_async({"turns": np.int64(TURNS)})), 0.05)
        session.wait()  # forever, if it went on
        session.close()
    asyncio.run(give_up())


def test_a_session_cancels_all_of_its_runs_and_a_deadline_each(loop):
    with graft.Session(loop) as session:
        futures = [session.run_async({"turns": np.int64(TURNS)}) for _ in range(3)]
        session.cancel()
        for future in futures:
            with pytest.raises(graft.CancelledError, match="cancelled"):
                future.result(60)
        session.set_deadline(0.02)
        with pytest.raises(graft.CancelledError, match="deadline"):
            session.run_async({"turns": np.int64(TURNS)}).result(60)


def test_a_session_that_is_closed_or_dropped_leaves_no_future_behind(loop):
    session = graft.Session(loop)
    futures = [session.run_async({"turns": np.int64(TURNS)}) for _ in range(2)]
    session.close()
    for future in futures:
        with pytest.raises(graft.CancelledError):
            future.result(60)
    session = graft.Session(loop)
    kept = weakref.ref(session)
    future = session.run_async({"turns": np.int64(20_000)})
    del session
    assert future.result(60)["left"] == 0
    del future
    end = time.monotonic() + 60
    while kept() is not None and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    assert kept() is None  # the run was all that kept it


def test_callbacks_run_on_the_session_s_thread_and_may_use_the_session(engine, x):
    with graft.Session(engine) as session:
        seen = []

        def again(_):
            seen.append(threading.get_ident())
            seen.append(session.run({"x": x})["y"])
            seen.append(session.arena_bytes)
        session.run_async({"x": x}).add_done_callback(again)
        session.wait()
        assert seen[0] != threading.get_ident() and len(seen) == 3
        np.testing.assert_allclose(seen[1], expected(x), rtol=1e-6)


def test_other_threads_of_python_go_on_meanwhile(loop):
    with graft.Session(loop) as session:
        future = session.run_async({"turns": np.int64(TURNS)})
        count, end = 0, time.monotonic() + 0.05
        while time.monotonic() < end:
            count += 1
        assert count > 1000 and not future.done()
        future.cancel()


def test_a_setting_that_waits_lets_other_threads_end_the_run(loop):
    with graft.Session(loop) as session:
        future = session.run_async({"turns": np.int64(TURNS)})
        threading.Timer(0.05, future.cancel).start()
        session.set_memory_limit(1 << 30)
        assert future.cancelled()


def test_results_are_tensors_of_torch_for_inputs_of_torch(engine, x):
    torch = pytest.importorskip("torch")
    with graft.Session(engine) as session:
        y = session.run_async({"x": torch.from_numpy(x)}).result(60)["y"]
        assert isinstance(y, torch.Tensor)
        np.testing.assert_allclose(y.numpy(), expected(x), rtol=1e-6)


def test_many_threads_start_runs_of_one_engine(engine, x):
    wrong = []

    def work(seed):
        mine = [x + seed + i for i in range(20)]
        for array, future in [(array, engine.run_async({"x": array})) for array in mine]:
            if not np.allclose(future.result(60)["y"], expected(array), rtol=1e-5):
                wrong.append(seed)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("ending", ["", "session.run_async({'turns': turns}).cancel()", "del session"])
def test_an_interpreter_that_ends_ends_asynchronous_runs(tmp_path, ending):
    (tmp_path / "loop.onnx").write_bytes(loop_model().SerializeToString())
    program = f"""
import numpy, graft
engine = graft.compile("loop.onnx", tune="off")
turns = numpy.int64({TURNS})
session = graft.Session(engine)
futures = [session.run_async({{"turns": turns}}) for _ in range(3)]
futures.append(engine.run_async({{"turns": turns}}))
{ending}
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=120, capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert done.returncode == 0 and done.stderr == "", done.stderr
