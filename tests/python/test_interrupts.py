# SPDX-License-Identifier: Apache-2.0
"""Ending what goes on: Ctrl-C, cancel(), deadlines, and an interpreter that ends."""

import os
import signal
import subprocess
import sys
import threading
import time

import graft
import numpy as np
import pytest
from conftest import BUILD, layer_model, model_of
from onnx import TensorProto, helper

SIZE, PRODUCTS = 1200, 60


def long_model():
    """y = x^61, which takes a second or more."""
    names = ["x", *(f"p{number}" for number in range(1, PRODUCTS)), "y"]
    nodes = [helper.make_node("MatMul", [before, "x"], [after]) for before, after in zip(names, names[1:])]
    return model_of(nodes, [("x", TensorProto.FLOAT, [SIZE, SIZE])], [("y", TensorProto.FLOAT, [SIZE, SIZE])])


class Long:
    """A run that takes long, and how long."""

    def __init__(self):
        self.engine = graft.compile(long_model(), tune="off")
        self.x = np.roll(np.eye(SIZE, dtype=np.float32), 1, axis=1)
        start = time.monotonic()
        self.y = self.engine(self.x)
        self.seconds = time.monotonic() - start

    def after(self, share, act):
        """A timer that acts when so much of the run has passed."""
        timer = threading.Timer(self.seconds * share, act)
        timer.start()
        return timer


@pytest.fixture(name="long", scope="module")
def fixture_long():
    return Long()


def interrupt():
    """Ctrl-C, as a terminal sends it."""
    os.kill(os.getpid(), signal.SIGINT)


def test_control_c_ends_a_run_long_before_it_is_done(long):
    start = time.monotonic()
    timer = long.after(0.1, interrupt)
    with pytest.raises(KeyboardInterrupt):
        long.engine(long.x)
    assert time.monotonic() - start < 0.6 * long.seconds
    timer.join()
    np.testing.assert_array_equal(long.engine(long.x), long.y)  # and all goes on


def expect_a_whole_run(long, handler):
    """Where this handles the signal, Ctrl-C in the middle of a run leaves it its results."""
    former = signal.signal(signal.SIGINT, handler)
    try:
        timer = long.after(0.3, interrupt)
        np.testing.assert_array_equal(long.engine(long.x), long.y)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, former)


def test_a_handler_that_raises_nothing_lets_the_run_end_with_its_results(long):
    seen = []
    expect_a_whole_run(long, lambda number, _: seen.append(number))
    assert seen == [signal.SIGINT]


def test_ignored_signals_stay_ignored(long):
    expect_a_whole_run(long, signal.SIG_IGN)


def test_the_signal_is_python_s_again_after_a_run(long):
    long.engine(long.x)
    with pytest.raises(KeyboardInterrupt):
        interrupt()
        time.sleep(1)


def test_control_c_stops_a_compilation_between_its_steps():
    """The progress function makes sure that there is something to stop; the signal is the process's."""
    steps = []

    def slowly(*step):
        steps.append(step)
        if len(steps) == 2:
            interrupt()
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        graft.compile(long_model(), tune="off", progress=slowly)
    before = len(steps)
    graft.compile(long_model(), tune="off", progress=lambda *step: steps.append(step))
    assert before < len(steps) - before


def test_control_c_stops_compiling_that_measures(tmp_path):
    """Nobody asks for progress."""
    timer = threading.Timer(0.3, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        end = time.monotonic() + 60
        while time.monotonic() < end:  # one may take less than the timer
            graft.compile(long_model(), tune="full")
    timer.join()


def test_another_thread_cancels_a_run(long):
    session, errors = graft.Session(long.engine), []

    def work():
        try:
            session.run({"x": long.x})
        except graft.CancelledError as error:
            errors.append(str(error))

    start = time.monotonic()
    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.1 * long.seconds)
    session.cancel()
    thread.join()
    assert errors and "cancelled" in errors[0]
    assert time.monotonic() - start < 0.6 * long.seconds
    np.testing.assert_array_equal(session.run({"x": long.x})["y"], long.y)
    session.close()
    session.cancel()


def test_a_run_has_a_deadline(long):
    with graft.Session(long.engine) as session:
        session.set_deadline(0.1 * long.seconds)
        with pytest.raises(graft.CancelledError, match="deadline"):
            session.run({"x": long.x})
        session.set_deadline(0)
        np.testing.assert_array_equal(session.run({"x": long.x})["y"], long.y)
        with pytest.raises(graft.InvalidArgumentError, match="seconds"):
            session.set_deadline(-1)


def in_child(program, folder):
    """Runs a program in an interpreter of its own."""
    return subprocess.run([sys.executable, "-c", program], cwd=folder, timeout=120, capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": str(BUILD / "python")})


def test_an_interpreter_that_ends_ends_a_long_run(tmp_path, long):
    (tmp_path / "model.onnx").write_bytes(long_model().SerializeToString())
    program = """
import threading, time, numpy, graft
engine = graft.compile("model.onnx", tune="off")
x = numpy.zeros(engine.inputs[0].shape, numpy.float32)
def forever():
    while True:
        engine(x)
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.2)
print(time.time(), flush=True)
"""
    done = in_child(program, tmp_path)
    assert done.returncode == 0, done.stderr
    assert time.time() - float(done.stdout) < max(0.6 * long.seconds, 1)


def test_an_interpreter_may_end_while_a_run_goes_on(tmp_path):
    (tmp_path / "model.onnx").write_bytes(layer_model().SerializeToString())
    program = """
import threading, numpy, graft
engine = graft.compile("model.onnx", tune="off")
x = numpy.ones((60, 4), numpy.float32)
def forever():
    while True:
        engine(x)
for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
for _ in range(100):
    engine(x)
"""
    for _ in range(3):
        done = in_child(program, tmp_path)
        assert done.returncode == 0, done.stderr
