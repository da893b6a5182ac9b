# SPDX-License-Identifier: Apache-2.0
"""Compiling, running and saving from Python."""

import copy
import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import graft
import numpy as np
import pytest
from conftest import BUILD, expected, layer_model, model_of
from onnx import TensorProto, helper


def test_computes_what_the_model_means(engine, x):
    np.testing.assert_allclose(engine(x), expected(x), atol=1e-5)
    np.testing.assert_allclose(engine.run({"x": x})["y"], expected(x), atol=1e-5)


def test_takes_a_path_bytes_and_a_message(x, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(layer_model().SerializeToString())
    for model in (path, str(path), path.read_bytes(), layer_model()):
        np.testing.assert_allclose(graft.compile(model, tune="off")(x), expected(x), atol=1e-5)


def test_a_plan_is_saved_and_loaded(engine, x, tmp_path):
    engine.save(tmp_path / "plan.graft")
    np.testing.assert_array_equal(graft.load(tmp_path / "plan.graft")(x), engine(x))


def test_describes_inputs_with_their_ranges(engine):
    (value,) = engine.inputs
    assert value.name == "x" and value.dtype == "float32" and value.shape == ("batch", 4)
    assert value.axes[0][2:] == (1, 8, 64)
    assert "x: float32[batch, 4]" in repr(engine)


def test_a_notebook_shows_a_table():
    model = layer_model()
    model.graph.input[0].name = model.graph.node[0].input[0] = "<x>"
    shown = graft.compile(model, dims={"batch": (1, 8, 64)}, tune="off")._repr_html_()
    assert "&lt;x&gt;" in shown and "<x>" not in shown and "batch: 1 to 64, optimum 8" in shown
    assert shown.count("<tr>") == 3 and "1 generated" in shown


@pytest.mark.parametrize("words, said", [
    (["-c", "from graft.frameworks import torch_command; torch_command()"], "graft-torch: graft.torch works inside"),
    (["-m", "graft.tensorflow", "--help"], "graft.tensorflow works inside TensorFlow"),
    (["-m", "graft.torch.command", "--help"], "graft.torch works inside PyTorch"),
])
def test_a_framework_that_is_not_there_is_one_sentence(words, said, tmp_path):
    for name in ("torch", "tensorflow"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('no {name} here')")
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": f"{tmp_path}:{BUILD / 'python'}"})
    assert done.returncode == 1 and said in done.stderr and sys.executable in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_models_in_a_frameworks_memory_are_told_what_takes_them():
    module = type("Module", (), {"__module__": "torch.nn.modules.module"})
    net = type("Sequential", (module,), {"__module__": "torch.nn.modules.container"})()
    with pytest.raises(graft.InvalidArgumentError, match="a Sequential is no model.*graft.torch.compile"):
        graft.compile(net)
    program = type("ExportedProgram", (), {"__module__": "torch.export.exported_program"})()
    with pytest.raises(graft.InvalidArgumentError, match="torch.export.save"):
        graft.check(program)
    with pytest.raises(graft.InvalidArgumentError, match="a int is no model.*give a path"):
        graft.compile(3)


def test_writes_into_arrays_of_the_caller(engine, x):
    target = np.zeros((5, 6), np.float32)[:, ::2]
    result = engine.run({"x": x}, {"y": target})
    assert result["y"] is target
    np.testing.assert_allclose(target, expected(x), atol=1e-5)


def test_inputs_of_any_strides_are_read_in_place(engine, x):
    np.testing.assert_allclose(engine(np.asfortranarray(x)), expected(x), atol=1e-5)
    np.testing.assert_allclose(engine(x[::-1]), expected(x[::-1]), atol=1e-5)


def test_results_live_longer_than_the_engine(x):
    result = graft.compile(layer_model(), tune="off")(x)
    np.testing.assert_allclose(result, expected(x), atol=1e-5)


def test_selected_outputs_alone_are_given(x):
    nodes = [helper.make_node("Add", ["x", "x"], ["twice"]), helper.make_node("Neg", ["x"], ["less"])]
    model = model_of(nodes, [("x", TensorProto.FLOAT, [5, 4])],
                     [("twice", TensorProto.FLOAT, [5, 4]), ("less", TensorProto.FLOAT, [5, 4])])
    both = graft.compile(model, tune="off")
    assert list(both.run({"x": x}, ["less"])) == ["less"]
    np.testing.assert_array_equal(both(x)[0], x + x)
    with pytest.raises(graft.InvalidArgumentError, match="no output 'more'.*twice, less"):
        both.run({"x": x}, ["more"])


@pytest.mark.parametrize("change, words", [
    (lambda x: [x, x], "has 1 inputs"),
    (lambda x: [x.astype(np.float64)], "type is f32, f64 was given"),
    (lambda x: [x.astype(">f4")], "byte order"),
    (lambda x: [x[:, :3]], "axis 1"),
    (lambda x: [np.zeros((65, 4), np.float32)], "batch"),
    (lambda x: [object()], "no array"),
    (lambda x: [None], "no array"),
])
def test_wrong_arrays_are_refused_with_what_to_change(engine, x, change, words):
    with pytest.raises(graft.InvalidArgumentError, match=words):
        engine(*change(x))


def test_read_only_outputs_are_refused(engine, x):
    target = np.zeros((5, 3), np.float32)
    target.flags.writeable = False
    with pytest.raises(graft.InvalidArgumentError, match="'y': its memory cannot be written"):
        engine.run({"x": x}, {"y": target})


def test_errors_have_classes_by_kind(tmp_path):
    with pytest.raises(graft.Error, match="missing.onnx"):
        graft.compile(tmp_path / "missing.onnx")
    for call in (graft.compile, graft.load, graft.check):
        with pytest.raises(FileNotFoundError, match="missing.onnx: cannot open the file") as missing:
            call(tmp_path / "missing.onnx")
        assert isinstance(missing.value, (graft.MissingFileError, graft.InvalidArgumentError))
    with pytest.raises(graft.InvalidModelError):
        graft.compile(b"no model")
    with pytest.raises(ValueError, match="precision"):
        graft.compile(layer_model(), precision="fp7")
    with pytest.raises(graft.InvalidArgumentError, match="dims\\['batch'\\]"):
        graft.compile(layer_model(), dims={"batch": (1, 2)})


def test_progress_is_told_and_can_stop():
    seen = []
    graft.compile(layer_model(), tune="off", progress=lambda *step: seen.append(step[0]))
    assert {"import", "passes", "fuse", "plan"} <= set(seen)
    with pytest.raises(graft.CancelledError):
        graft.compile(layer_model(), tune="off", progress=lambda *_: False)


def test_a_bar_is_drawn_over_one_line_and_says_how_it_ended(capsys):
    graft.compile(layer_model(), tune="off", progress=True)
    lines = capsys.readouterr().err
    assert lines.endswith("\n") and lines.count("\n") == 1 and " plan [" in lines and "\rcompiled in" in lines
    with pytest.raises(graft.CancelledError):
        graft.compile(layer_model(), tune="off", progress=True, deadline=1e-6)
    lines = capsys.readouterr().err
    assert "\rstopped after" in lines and "compiled" not in lines


def test_other_threads_go_on_while_the_compiler_works():
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)
    model = layers_model(12)
    graft.compile(layer_model(), tune="off")  # the code generator is open
    ticker = threading.Thread(target=tick)
    ticker.start()
    begin = time.monotonic()
    graft.compile(model, tune="off", dims={"batch": 3})
    end = time.monotonic()
    done.set()
    ticker.join()
    during = [moment for moment in ticks if begin <= moment <= end]
    assert len(during) > 0.05 * (end - begin) / 0.001, f"{len(during)} ticks in {end - begin:.2f} s"


def layers_model(count):
    """So many layers of different widths, so that each has a kernel of its own."""
    nodes, constants = [], []
    for i in range(count):
        constants.append((f"w{i}", np.full((4 + i, 5 + i), 0.1, np.float32)))
        nodes += [helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"p{i}"]),
                  helper.make_node("Tanh", [f"p{i}"], [f"h{i + 1}"])]
    return model_of(nodes, [("h0", TensorProto.FLOAT, ["batch", 4])],
                    [(f"h{count}", TensorProto.FLOAT, ["batch", 4 + count])], constants)


def test_progress_is_told_again_within_a_long_step():
    """Which is where Ctrl-C is seen: between two steps all kernels are compiled."""
    seen = []

    def tell(*step):
        if step not in seen:
            time.sleep(0.11)  # as long as a step that is told again
        seen.append(step)

    graft.compile(layers_model(8), tune="off", threads=1, dims={"batch": 7}, progress=tell)
    assert len(seen) > len(set(seen))


def test_exceptions_of_the_progress_function_come_out():
    def fail(*_):
        raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"):
        graft.compile(layer_model(), tune="off", progress=fail)


def test_control_c_stops_compiling():
    main = threading.get_ident()
    with pytest.raises(KeyboardInterrupt):
        graft.compile(layer_model(), tune="off", progress=lambda *_: signal.pthread_kill(main, signal.SIGINT))


def test_a_closed_session_says_so(engine, x):
    session = graft.Session(engine)
    session.close()
    session.close()
    with pytest.raises(graft.InvalidArgumentError, match="closed"):
        session.run({"x": x})


def test_threads_run_one_engine_at_the_same_time(engine):
    failures = []

    def work(seed):
        x = np.random.default_rng(seed).standard_normal((seed + 1, 4)).astype(np.float32)
        for _ in range(200):
            if not np.allclose(engine(x), expected(x), atol=1e-5):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.fixture(name="slow", scope="module")
def fixture_slow():
    """A run that takes a while."""
    nodes = [helper.make_node("MatMul", ["x", "x"], ["a"]), helper.make_node("MatMul", ["a", "x"], ["y"])]
    model = model_of(nodes, [("x", TensorProto.FLOAT, [1500, 1500])], [("y", TensorProto.FLOAT, [1500, 1500])])
    return graft.compile(model, tune="off"), np.zeros((1500, 1500), np.float32)


def test_two_threads_in_one_session_get_an_error(slow):
    engine, x = slow
    session, refused, started = graft.Session(engine), [], threading.Event()

    def enter():
        started.set()
        for _ in range(20):
            try:
                session.run({"x": x})
            except graft.InvalidArgumentError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=enter) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused and all("another thread" in text for text in refused)


def test_the_interpreter_goes_on_while_a_run_lasts(slow):
    engine, x = slow
    counted, done = 0, threading.Event()

    def work():
        for _ in range(5):
            engine(x)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        counted += 1
        time.sleep(0)
    thread.join()
    assert counted > 100


def run_in_child(engine, x, queue):
    """What a forked DataLoader worker does."""
    queue.put(engine(x))


def test_an_engine_works_after_fork(engine, x):
    engine(x)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=run_in_child, args=(engine, x, queue))
    child.start()
    np.testing.assert_allclose(queue.get(timeout=60), expected(x), atol=1e-5)
    child.join(timeout=60)
    assert child.exitcode == 0


def test_messages_go_to_logging(caplog):
    with caplog.at_level(logging.DEBUG, logger="graft"):
        graft.compile(layer_model(), tune="off")
    assert any("fold_constants" in record.message for record in caplog.records)
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="graft"):
        graft.compile(layer_model(), tune="off")
    assert not caplog.records  # a line for each pass is nothing that a service wants in its log


@pytest.mark.parametrize("order", [("graft", "onnx", "onnxruntime"), ("onnxruntime", "graft", "onnx"),
                                   ("onnx", "onnxruntime", "graft")])
def test_lives_beside_onnx_and_onnxruntime(order, tmp_path):
    (tmp_path / "model.onnx").write_bytes(layer_model().SerializeToString())
    program = "\n".join(f"import {name}" for name in order) + """
import numpy
x = numpy.ones((2, 4), numpy.float32)
mine = graft.compile("model.onnx", tune="off")(x)
theirs = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
assert abs(mine - theirs).max() < 1e-5 and onnx.load("model.onnx")
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=120,
                   env={**os.environ, "PYTHONPATH": str(BUILD / "python")})


def test_a_plan_is_loaded_from_memory(engine, x, tmp_path):
    engine.save(tmp_path / "plan.graft")
    plan = (tmp_path / "plan.graft").read_bytes()
    for form in (plan, bytearray(plan), memoryview(plan)):
        np.testing.assert_array_equal(graft.load(form)(x), engine(x))
    np.testing.assert_array_equal(graft.load(tmp_path / "plan.graft", threads=1, copy_weights=True)(x), engine(x))
    with pytest.raises(graft.InvalidModelError, match="plan in memory"):
        graft.load(plan[:-100])
    with pytest.raises(graft.InvalidArgumentError, match="a int is no plan"):
        graft.load(7)


def test_an_engine_goes_through_bytes(engine, x, tmp_path):
    plan = engine.to_bytes()
    engine.save(tmp_path / "plan.graft")
    assert plan == (tmp_path / "plan.graft").read_bytes()
    for again in (graft.Engine.from_bytes(plan), graft.Engine.from_bytes(bytearray(plan), threads=1), graft.load(plan)):
        np.testing.assert_array_equal(again(x), engine(x))
    with pytest.raises(graft.InvalidArgumentError, match="a str is no plan"):
        graft.Engine.from_bytes("plan.graft")
    with pytest.raises(graft.InvalidModelError, match="plan in memory"):
        graft.Engine.from_bytes(plan[:-100])


def run_unpickled(engine, x, queue):
    """What a worker that was spawned does."""
    queue.put(engine(x))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_engine_is_pickled_as_its_plan(engine, x, protocol):
    loaded = graft.load(engine.to_bytes(), threads=1)
    for given in (engine, loaded):
        again = pickle.loads(pickle.dumps(given, protocol))
        np.testing.assert_array_equal(again(x), engine(x))
        assert again.device == given.device and again.inputs == given.inputs and repr(again) == repr(given)


def test_a_spawned_process_is_given_an_engine(engine, x):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=run_unpickled, args=(engine, x, queue))
    child.start()
    np.testing.assert_array_equal(queue.get(timeout=120), engine(x))
    child.join(timeout=60)
    assert child.exitcode == 0


def test_a_copy_of_an_engine_is_the_engine(engine):
    assert copy.copy(engine) is engine and copy.deepcopy({"layer": [engine]})["layer"][0] is engine


def test_a_session_is_neither_pickled_nor_copied(engine):
    with graft.Session(engine) as session:
        for refused in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="pickle its engine"):
                refused(session)


def test_output_shapes_are_known_before_a_run(engine):
    assert engine.output_shapes({"x": (5, 4)}) == {"y": (5, 3)}
    with pytest.raises(graft.InvalidArgumentError, match="axis 1 must be 4, 5 was given"):
        engine.output_shapes({"x": (5, 5)})
    with pytest.raises(graft.InvalidArgumentError, match="batch = 65"):
        engine.output_shapes({"x": (65, 4)})
    with pytest.raises(graft.InvalidArgumentError, match="x are missing"):
        engine.output_shapes({})


def test_output_shapes_leave_open_what_values_decide():
    model = model_of([helper.make_node("NonZero", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["a", "b"])],
                     [("y", TensorProto.INT64, [2, None])])
    assert graft.compile(model, tune="off").output_shapes({"x": (3, 4)}) == {"y": (2, None)}


def test_check_says_how_each_step_runs():
    (record,) = graft.check(layer_model(), tune="off")
    assert record == {"step": 0, "name": record["name"], "operators": "MatMul + Relu", "way": "generated", "reason": ""}


def test_check_names_every_node_that_cannot_run():
    nodes = [helper.make_node("Foo", ["x"], ["h"], name="first", domain="theirs"),
             helper.make_node("Bar", ["h"], ["y"], name="second", domain="theirs")]
    model = layer_model()
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.opset_import.append(helper.make_opsetid("theirs", 1))
    records = graft.check(model.SerializeToString())
    assert [record["name"] for record in records] == ["first", "second"]
    assert {record["way"] for record in records} == {"cannot run"}
    assert "theirs.Foo" in records[0]["reason"]


def test_bench_and_profile_give_records(engine):
    record = graft.bench(engine, seconds=0.05, warmup=0.01)
    assert record["runs"] >= 3 and record["min_ms"] <= record["median_ms"] <= record["p99_ms"]
    (step, *_) = engine.profile(runs=2)
    assert step["way"] == "generated" and step["microseconds"] > 0 and step["operators"] == "MatMul + Relu"


@pytest.mark.parametrize("sizes, words", [
    ({"bacth": 8}, "no input has a size named 'bacth'; there are batch; did you mean 'batch'"),
    ({"batch": 2.5}, "batch.*give a whole number"),
    ({"batch": -1}, "batch.*give a whole number"),
    ({"batch": 65}, "batch = 65"),
    (8, "sizes is 8: give a dictionary"),
])
def test_bench_refuses_sizes_that_it_would_not_measure(engine, sizes, words):
    with pytest.raises(graft.InvalidArgumentError, match=words):
        graft.bench(engine, sizes=sizes, seconds=0, warmup=0)


def test_bench_takes_sizes_that_were_fixed_when_compiling():
    fixed = graft.compile(layer_model(), dims={"batch": 8}, tune="off")
    assert graft.bench(fixed, sizes={"batch": 8}, seconds=0, warmup=0)["runs"] >= 3
    with pytest.raises(graft.InvalidArgumentError, match="'batch' is 8 in this engine"):
        graft.bench(fixed, sizes={"batch": 9}, seconds=0, warmup=0)


def test_bench_measures_what_was_given_and_nothing_else(engine, x):
    with pytest.raises(graft.InvalidArgumentError, match="feeds or sizes, not both"):
        graft.bench(engine, {"x": x}, sizes={"batch": 8})
    with pytest.raises(graft.InvalidArgumentError, match="x are missing"):
        graft.bench(engine, {}, seconds=0, warmup=0)
    with pytest.raises(graft.InvalidArgumentError, match="x are missing"):
        engine.profile({})


def test_bench_says_that_strings_have_no_random_values():
    model = model_of([helper.make_node("Identity", ["x"], ["y"])], [("x", TensorProto.STRING, ["n"])],
                     [("y", TensorProto.STRING, ["n"])])
    with pytest.raises(graft.InvalidArgumentError, match="input 'x' is str, of which there are no random values"):
        graft.bench(graft.compile(model, tune="off"), seconds=0, warmup=0)


def test_the_command_is_inside():
    done = subprocess.run([sys.executable, "-m", "graft", "--version"], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert done.returncode == 0 and graft.__version__ in done.stdout
