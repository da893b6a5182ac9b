# SPDX-License-Identifier: Apache-2.0
"""What quantising refuses, and what it leaves behind: results that are not finite, hostile calibration files, metrics
that are slow, and options that say nothing."""

import json
import os
import pathlib
import signal
import subprocess
import time

import numpy as np
import onnx
import pytest
from conftest import COMMAND
from onnx import TensorProto, helper, numpy_helper


def save(path, nodes, kind=TensorProto.FLOAT, shape=("n", 32)):
    random = np.random.default_rng(3)
    constants = [numpy_helper.from_array((random.standard_normal((32, 32)) / 6).astype(np.float32), name)
                 for name in ("w0", "w1")]
    graph = helper.make_graph(nodes, "network", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 32])],
                              [helper.make_tensor_value_info("y", kind, list(shape))], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def products(*behind):
    return [helper.make_node("MatMul", ["x", "w0"], ["h"], name="first"), helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "w1"], ["p"], name="second"), *behind]


@pytest.fixture
def network(tmp_path):
    save(tmp_path / "net.onnx", products(helper.make_node("Identity", ["p"], ["y"])))
    np.save(tmp_path / "x.npy", np.random.default_rng(4).standard_normal((16, 32)).astype(np.float32))


def convert(graft, *words, model="net.onnx"):
    return graft("convert", model, *words, "-o", "q.onnx", "--json", "report.json")


def quantization(folder):
    return json.loads((folder / "report.json").read_text())["quantization"]


INT8 = ("--precision", "int8", "--calibrate", "x.npy")


def test_no_bound_holds_where_infinities_differ(graft, tmp_path, network):
    save(tmp_path / "log.onnx", products(helper.make_node("Relu", ["p"], ["q"]), helper.make_node("Log", ["q"], ["y"])))
    done = convert(graft, *INT8, "--max-error", "1e-4", model="log.onnx")
    assert done.returncode == 1 and "inf" in done.stderr and not (tmp_path / "q.onnx").exists()
    done = convert(graft, *INT8, model="log.onnx")
    assert done.returncode == 0 and "elements of the fp32 results are not finite" in done.stdout
    found = quantization(tmp_path)
    assert found["error"] is None and found["noise_db"] is None and found["not_finite_fp32"] > 0


@pytest.mark.parametrize("words", [("int8", "--activations", "dynamic"), ("int8", "--activations", "float"),
                                   ("int4", "--rounding", "nearest"), ("int8",), ("int4",)])
def test_samples_with_nan_are_refused(graft, tmp_path, network, words):
    samples = np.load(tmp_path / "x.npy")
    samples[3, 5] = np.nan
    np.save(tmp_path / "x.npy", samples)
    done = convert(graft, "--calibrate", "x.npy", "--precision", *words)
    assert done.returncode == 1 and "NaN" in done.stderr and "'x'" in done.stderr and "x.npy" in done.stderr
    assert not (tmp_path / "q.onnx").exists()


def test_answers_that_differ_are_the_error_of_integers(graft, tmp_path, network):
    save(tmp_path / "answer.onnx", products(helper.make_node("ArgMax", ["p"], ["y"], axis=1, keepdims=0)),
         TensorProto.INT64, ["n"])
    np.save(tmp_path / "x.npy", np.random.default_rng(4).standard_normal((4096, 32)).astype(np.float32))
    done = convert(graft, *INT8, "--method", "minmax", model="answer.onnx")
    assert done.returncode == 0, done.stderr
    error = quantization(tmp_path)["error"]
    assert 0 < error < 0.2 and error * 4096 == pytest.approx(round(error * 4096))


METRIC = """
import pathlib, subprocess, time

def slow(run):
    child = subprocess.Popen(["sleep", "300"])
    pathlib.Path("pids").write_text(f"{child.pid} {__import__('os').getpid()}")
    time.sleep(300)

def counted(run):
    with open("calls", "a") as file:
        file.write("x")
    return 1.0
"""


def start(folder, *words):
    (folder / "tmp").mkdir()
    return subprocess.Popen([COMMAND, "compile", "net.onnx", *words, "--tune", "off", "-o", "q.graft"], cwd=folder,
                            stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder / "tmp")})


def ends_with_all(running, folder, status, words):
    _, said = running.communicate(timeout=20)
    assert running.returncode == status and words in said
    for pid in (folder / "pids").read_text().split():
        state = pathlib.Path(f"/proc/{pid}/stat")
        for _ in range(50):  # who adopts what a killed process has left takes a moment
            if not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                break
            time.sleep(0.1)
        else:
            raise AssertionError(f"process {pid} still runs")
    assert not list((folder / "tmp").iterdir()) and not (folder / "q.graft").exists()


@pytest.mark.parametrize("precision", ["int8", "auto"])
def test_the_deadline_ends_a_slow_metric(tmp_path, network, precision):
    (tmp_path / "met.py").write_text(METRIC)
    running = start(tmp_path, "--precision", precision, "--calibrate", "x.npy", "--metric", "met.py:slow", "--max-drop",
                    "1", "--deadline", "4")
    ends_with_all(running, tmp_path, 1, "the deadline of 4 seconds passed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_slow_metric(tmp_path, network, number):
    (tmp_path / "met.py").write_text(METRIC)
    running = start(tmp_path, *INT8, "--metric", "met.py:slow", "--max-drop", "1", "--calibration-file", "ranges.json")
    while not (tmp_path / "pids").exists() or not (tmp_path / "pids").read_text():
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(number)
    ends_with_all(running, tmp_path, 128 + number, "")
    assert not (tmp_path / "ranges.json").exists()


def test_the_metric_of_fp32_is_asked_once(graft, tmp_path, network):
    (tmp_path / "met.py").write_text(METRIC)
    done = graft("compile", "net.onnx", "--precision", "auto", "--metric", "met.py:counted", "--max-drop", "1",
                 "--calibrate", "x.npy", "--tune", "off", "-o", "q.graft", "--json", "report.json")
    assert done.returncode == 0, done.stderr
    found = quantization(tmp_path)
    measured = [row for row in found["tried"] if row["metric"] is not None and row["precision"] != "int8"]
    quantised = (tmp_path / "calls").read_text().count("x") - len(measured)
    assert quantised >= 1 and (found["precision"] != "int8" or quantised == len(found["curve"]) - 1)


FILE = ("--calibration-file", "ranges.json")


@pytest.mark.parametrize("words, status", [
    (("--precision", "int8", "--max-error", "1e-9"), 1),  # refused
    (("--precision", "int8", "--metric", "met.py:fails", "--max-drop", "1"), 1),
    (("--precision", "auto", "--max-error", "1e-9"), 0),  # fp32 is taken
])
def test_a_calibration_file_is_of_a_result(graft, tmp_path, network, words, status):
    (tmp_path / "met.py").write_text("def fails(run): raise ValueError\n")
    done = graft("compile", "net.onnx", "--calibrate", "x.npy", *words, *FILE, "--tune", "off", "-o", "q.graft")
    assert done.returncode == status and not (tmp_path / "ranges.json").exists()
    assert convert(graft, *INT8, "--max-error", "0.5", *FILE).returncode == 0
    before = (tmp_path / "ranges.json").read_bytes()
    assert json.loads(before)["max_error"] == 0.5
    save(tmp_path / "other.onnx", products(helper.make_node("Relu", ["p"], ["y"])))
    graft("compile", "other.onnx", "--calibrate", "x.npy", *words, *FILE, "--tune", "off", "-o", "q.graft")
    assert (tmp_path / "ranges.json").read_bytes() == before


def test_auto_without_samples_makes_no_file_and_keeps_a_bound(graft, tmp_path, network):
    words = ("compile", "net.onnx", "--precision", "auto", *FILE, "--tune", "off", "-o", "q.graft", "--json",
             "report.json", "--max-error")
    done = graft(*words, "0.5")
    assert done.returncode == 1 and "there are no samples to make it from" in done.stderr
    assert not (tmp_path / "ranges.json").exists() and not (tmp_path / "q.graft").exists()
    assert convert(graft, *INT8, "--max-error", "0.5", *FILE).returncode == 0
    document = json.loads((tmp_path / "ranges.json").read_text())
    (tmp_path / "ranges.json").write_text(json.dumps({**document, "kept": ["second"]}))
    before = (tmp_path / "ranges.json").read_bytes()
    done = graft(*words, "0.5")
    assert done.returncode == 0, done.stderr
    found = quantization(tmp_path)
    assert found["random_inputs"] and (tmp_path / "ranges.json").read_bytes() == before
    note = next(row["note"] for row in found["tried"] if row["precision"] == "int8")
    assert "1 of 2 layers" in note


def test_hostile_calibration_files(graft, tmp_path, network):
    assert convert(graft, *INT8, "--max-error", "0.5", *FILE).returncode == 0
    document = json.loads((tmp_path / "ranges.json").read_text())
    for change, reason in (({"kept": ["none"]}, "no such node"), ({"smoothed": {"h": [0.5] * 32}}, "is no exponent"),
                           ({"smoothed": {"h": [1e9] * 32}}, "is no exponent")):
        (tmp_path / "ranges.json").write_text(json.dumps({**document, **change}))
        done = convert(graft, *INT8, *FILE)
        assert done.returncode == 1 and reason in done.stderr, done.stderr
        assert "ranges.json" in done.stderr and "to calibrate anew" in done.stderr
    (tmp_path / "ranges.json").write_text(json.dumps({**document, "smoothed": {"h": [0] * 32}}))
    done = convert(graft, *INT8, *FILE, "--smooth", "off")
    assert done.returncode == 1 and "smooth off is asked for: delete it" in done.stderr


@pytest.mark.parametrize("words, reason", [
    (("--precision", "int4", "--smooth", "off"), "--smooth"),
    (("--precision", "int4", "--smooth", "auto"), "--smooth"),
    ((*INT8, "--rounding", "nearest"), "--rounding"),
    ((*INT8, "--search-limit", "3"), "--search-limit bounds the search"),
    ((*INT8, "--min-snr", "9", "--max-error", "0.1"), "--min-snr says what the outputs keep"),
    (("--precision", "fp16", "--min-snr", "9"), "--min-snr"),
    ((*INT8, "--html", "./q.onnx"), "both write"),
    ((*INT8, "--html", "report.json"), "both write"),
    ((*INT8, *FILE, "--html", "ranges.json"), "both write"),
    ((*INT8, "--calibration-file", "q.onnx"), "both write"),
    ((*INT8, "--calibration-file", "report.json"), "both write"),
])
def test_options_that_do_not_go_together(graft, tmp_path, network, words, reason):
    done = convert(graft, *words)
    assert done.returncode == 2 and reason in done.stderr, done.stderr
    assert not (tmp_path / "q.onnx").exists()


@pytest.mark.parametrize("target", ["sm_90a", "neoverse-n1"])
def test_auto_measures_no_other_machine(graft, tmp_path, network, target):
    done = graft("compile", "net.onnx", "--precision", "auto", "--max-error", "0.5", "--target", target, "-o",
                 "q.graft")
    assert done.returncode == 1 and "measures times on this machine" in done.stderr and target in done.stderr
    assert "run it there, or choose a precision" in done.stderr


def test_it_says_where_fp32_is_faster(graft, tmp_path, network):
    done = convert(graft, *INT8, "--max-error", "0.5")
    assert done.returncode == 0, done.stderr
    curve = quantization(tmp_path)["curve"]
    chosen = next(point for point in curve if point["chosen"])
    assert ("fp32 is faster here" in done.stdout) == (chosen["milliseconds"] > curve[0]["milliseconds"])
