# SPDX-License-Identifier: Apache-2.0
"""The command from end to end, as its users see it: results, messages and exit status."""

import json
import os
import re
import signal
import subprocess
import time

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from conftest import COMMAND, expected, two_layers
from onnx import TensorProto, helper

BATCH = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)


def compile_plan(graft, *words):
    """Compiles the small model into plan.graft."""
    done = graft("compile", "model.onnx", "-o", "plan.graft", "--tune", "off", *words)
    assert done.returncode == 0, done.stderr
    return done


def test_a_plan_computes_what_the_model_means(graft, model, tmp_path):
    compile_plan(graft)
    np.save(tmp_path / "x.npy", BATCH)
    done = graft("run", "plan.graft", "--input", "x=x.npy", "--output", "y.npz")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["y"], expected(two_layers(), BATCH), atol=1e-5)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_inputs_come_from_archives(graft, model, tmp_path, save):
    save(tmp_path / "given.npz", x=np.asfortranarray(BATCH))
    done = graft("run", "model.onnx", "--input", "given.npz", "--output", "y.npy")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(two_layers(), BATCH), atol=1e-5)


@pytest.fixture
def two_outputs(tmp_path):
    """A model with the outputs `twice` and `less`, saved as two.onnx; x is saved beside it."""
    nodes = [helper.make_node("Add", ["x", "x"], ["twice"]), helper.make_node("Neg", ["x"], ["less"])]
    graph = helper.make_graph(nodes, "two", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 4])],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, [5, 4])
                               for name in ("twice", "less")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
              tmp_path / "two.onnx")
    np.save(tmp_path / "x.npy", BATCH)


def test_outputs_are_selected_by_name(graft, two_outputs, tmp_path):
    done = graft("run", "two.onnx", "-i", "x.npy", "--outputs", "less", "-o", "y.npy")
    assert done.returncode == 0 and "less" in done.stdout and "twice" not in done.stdout, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), -BATCH)
    assert graft("run", "two.onnx", "-i", "x.npy", "--outputs", "less,twice", "-o", "y.npz").returncode == 0
    assert np.load(tmp_path / "y.npz").files == ["less", "twice"]
    np.savez(tmp_path / "wrong.npz", twice=2 * BATCH, less=BATCH)
    for name, status in (("twice", 0), ("less", 1), ("less,twice", 1)):
        words = ("run", "two.onnx", "-i", "x.npy", "--reference", "wrong.npz", "--outputs", name)
        assert graft(*words).returncode == status, name


@pytest.mark.parametrize("words, status, parts", [
    (["--outputs", "less,z"], 2, ["'z'", "twice, less", "--outputs"]),
    (["--outputs", "y.npz"], 2, ["'y.npz'", "twice, less"]),
    (["-o", "y.npy"], 1, ["y.npy", "2 outputs", ".npz"]),
    (["-o", "y.txt", "--outputs", "less"], 1, ["y.txt", ".npz", ".npy"]),
])
def test_a_wrong_choice_of_outputs_is_named_before_the_run(graft, two_outputs, tmp_path, words, status, parts):
    done = graft("run", "two.onnx", "-i", "x.npy", *words)
    assert done.returncode == status and not done.stdout
    assert all(part in done.stderr for part in parts), done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["two.onnx", "x.npy"]


def test_onnxruntime_is_a_reference(graft, model):
    done = graft("run", "model.onnx", "--size", "batch=3", "--reference", "onnxruntime")
    assert done.returncode == 0, done.stderr
    assert "agrees" in done.stdout


def test_a_wrong_reference_fails(graft, model, tmp_path):
    np.save(tmp_path / "x.npy", BATCH)
    np.savez(tmp_path / "wrong.npz", y=expected(two_layers(), BATCH) + 0.01)
    done = graft("run", "model.onnx", "--input", "x.npy", "--reference", "wrong.npz")
    assert done.returncode == 1 and "WRONG" in done.stdout


def test_results_do_not_depend_on_generated_kernels(graft, model, tmp_path):
    for mode in ("generated", "interpret"):
        assert graft("run", "model.onnx", "--mode", mode, "--output", f"{mode}.npy").returncode == 0
    generated, interpreted = np.load(tmp_path / "generated.npy"), np.load(tmp_path / "interpret.npy")
    np.testing.assert_allclose(generated, interpreted, atol=1e-5)
    assert np.ptp(generated) > 0.1


def test_a_plan_keeps_constants_without_axes(graft, tmp_path):
    nodes = [helper.make_node("Gather", ["x", "which"], ["row"], axis=0),
             helper.make_node("Mul", ["row", "two"], ["y"])]
    for odd in range(4):  # names of several lengths, since what follows them in the file is aligned
        weights = [onnx.numpy_helper.from_array(np.array(1), "which"),
                   onnx.numpy_helper.from_array(np.float32(2), "two")]
        graph = helper.make_graph(nodes, "g" * (odd + 1),
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])], weights)
        opsets = [helper.make_opsetid("", 20)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "model.onnx")
        np.save(tmp_path / "x.npy", BATCH[:, :3].copy())
        compile_plan(graft)
        done = graft("run", "plan.graft", "--input", "x.npy", "--output", "y.npy")
        assert done.returncode == 0, done.stderr
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), 2 * BATCH[1, :3])


def test_the_same_choices_give_the_same_plan(graft, model, tmp_path):
    compile_plan(graft, "--dim", "batch=1:8:64")
    first = (tmp_path / "plan.graft").read_bytes()
    compile_plan(graft, "--dim", "batch=1:8:64")
    assert (tmp_path / "plan.graft").read_bytes() == first


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90a", "sm_120"])
def test_a_plan_is_made_for_a_gpu_that_is_not_here(graft, model, tmp_path, gpu):
    done = graft("compile", "model.onnx", "--target", gpu, "--tune", "off", "--compile-to", "plan")
    assert done.returncode == 0 and f"record kind=cuda name={gpu}" in done.stdout, done.stderr
    assert done.stdout.count("generated") >= 1
    compile_plan(graft, "--target", "native", "--target", gpu)
    np.save(tmp_path / "x.npy", BATCH)
    done = graft("run", "plan.graft", "--input", "x=x.npy", "--output", "y.npz")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["y"], expected(two_layers(), BATCH), atol=1e-5)


@pytest.mark.parametrize("stage", ["import", "passes"])
def test_a_stage_can_be_printed_and_read_back(graft, model, tmp_path, stage):
    done = graft("compile", "model.onnx", "--compile-to", stage, "-o", "stage.txt")
    assert done.returncode == 0, done.stderr
    done = graft("compile", "stage.txt", "--compile-from", stage, "-o", "plan.graft")
    assert done.returncode == 0, done.stderr
    np.save(tmp_path / "x.npy", BATCH)
    assert graft("run", "plan.graft", "--input", "x.npy", "--output", "y.npy").returncode == 0
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(two_layers(), BATCH), atol=1e-5)


def test_an_edited_stage_is_what_is_compiled(graft, model, tmp_path):
    graft("compile", "model.onnx", "--compile-to", "import", "-o", "stage.txt")
    text = (tmp_path / "stage.txt").read_text()
    assert "Relu" in text
    (tmp_path / "stage.txt").write_text(text.replace("Relu", "Neg"))
    np.save(tmp_path / "x.npy", BATCH)
    assert graft("compile", "stage.txt", "--compile-from", "import", "-o", "plan.graft").returncode == 0
    assert graft("run", "plan.graft", "--input", "x.npy", "--output", "y.npy").returncode == 0
    assert np.load(tmp_path / "y.npy").min() < 0


@pytest.mark.parametrize("stage, word", [("fuse", "multiply"), ("plan", "generated contract")])
def test_later_stages_can_be_read_by_a_person(graft, model, stage, word):
    done = graft("compile", "model.onnx", "--compile-to", stage)
    assert done.returncode == 0 and word in done.stdout


def test_an_edited_choice_is_what_is_built(graft, model, tmp_path):
    graft("compile", "model.onnx", "--tune", "off", "--compile-to", "plan", "-o", "choices.txt")
    text = (tmp_path / "choices.txt").read_text()
    assert "m=56 " in text or "m=48 " in text
    edited = re.sub(r"use (.*) m=\d+ ", r"use \1 m=8 ", text)
    (tmp_path / "choices.txt").write_text(edited)
    done = graft("compile", "model.onnx", "--tune", "off", "--record", "choices.txt", "-o", "plan.graft")
    assert done.returncode == 0, done.stderr
    assert " m=8 " in graft("inspect", "--no-run", "--text", "plan.graft").stdout
    (tmp_path / "choices.txt").write_text(edited + "nonsense\n")
    done = graft("compile", "model.onnx", "--record", "choices.txt")
    assert done.returncode == 1 and "record, line" in done.stderr


@pytest.mark.parametrize("words, message", [
    ([], "subcommand"),
    (["fly"], ""),
    (["compile"], "MODEL"),
    (["compile", "model.onnx", "--tune", "slow"], "off, fast, full"),
    (["compile", "model.onnx", "--dim", "batch"], "NAME=SIZE"),
    (["compile", "model.onnx", "--dim", "batch=8:1"], "MIN <= OPT <= MAX"),
    (["compile", "model.onnx", "--shapes", "x:1xfour"], "--shapes: 'x:1xfour' is not INPUT:SIZExSIZE"),
    (["compile", "model.onnx", "--compile-to", "moon"], "import, passes, fuse or plan"),
    (["run", "model.onnx", "--size", "batch"], "NAME=SIZE"),
    (["opt", "model.onnx", "--pass", "none"], "graft opt"),
])
def test_wrong_usage_ends_with_2(graft, model, words, message):
    done = graft(*words)
    assert done.returncode == 2 and message in done.stderr


@pytest.mark.parametrize("words, status, parts", [
    (["compile", "absent.onnx"], 1, ["absent.onnx"]),
    (["run", "absent.graft"], 1, ["absent.graft"]),
    (["compile", "model.onnx", "--dim", "length=4"], 2, ["length", "batch"]),
    (["compile", "model.onnx", "--shapes", "x:1x5"], 2, ["'x'", "axis 1", "4", "5"]),
    (["compile", "model.onnx", "--shapes", "z:1x4"], 2, ["'z'", "x"]),
    (["compile", "model.onnx", "--target", "moon"], 2, ["moon", "x86-64-v3"]),
    (["run", "model.onnx", "--input", "z=model.onnx"], 2, ["'z'", "x"]),
    (["run", "model.onnx", "--input", "model.onnx"], 1, ["model.onnx", ".npy"]),
])
def test_a_failure_names_cause_and_remedy_in_a_line(graft, model, words, status, parts):
    """Of a file or the machine it ends with 1, of an option with 2."""
    done = graft(*words)
    assert done.returncode == status, done.stdout
    assert all(part in done.stderr for part in parts), done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("x, parts", [
    (np.zeros((5, 3), np.float32), ["'x'", "axis 1", "3", "4"]),
    (np.zeros((9, 4), np.float32), ["'x'", "axis 0", "9", "8"]),
    (np.zeros(4, np.float32), ["'x'", "2 axes", "[4]"]),
    (np.zeros((5, 4), np.int64), ["'x'", "i64", "f32"]),
])
def test_a_wrong_input_is_named_with_axis_value_and_range(graft, model, tmp_path, x, parts):
    compile_plan(graft, "--dim", "batch=1:2:8")
    np.save(tmp_path / "x.npy", x)
    done = graft("run", "plan.graft", "--input", "x.npy")
    assert done.returncode == 1
    assert all(part in done.stderr for part in parts), done.stderr


def test_truncated_models_and_plans_fail_cleanly(graft, model, tmp_path):
    compile_plan(graft)
    for name in ("model.onnx", "plan.graft"):
        whole = (tmp_path / name).read_bytes()
        for share in (0.0, 0.1, 0.5, 0.9):
            path = tmp_path / ("cut." + name)
            path.write_bytes(whole[:int(share * len(whole))])
            done = graft("run", path)
            assert done.returncode == 1 and "cut." in done.stderr, (name, share, done.stderr)


def test_an_unknown_operator_is_named(graft, tmp_path):
    graph = helper.make_graph([helper.make_node("Teleport", ["x"], ["y"], name="here", domain="science")], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("science", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "odd.onnx")
    for command in ("compile", "check"):
        done = graft(command, "odd.onnx")
        assert done.returncode == 1
        assert "here" in done.stdout + done.stderr and "Teleport" in done.stdout + done.stderr


@pytest.mark.parametrize("path", ["absent/plan.graft", "/proc/plan.graft", "model.onnx/plan.graft"])
def test_a_place_that_cannot_be_written_is_named(graft, model, path):
    done = graft("compile", "model.onnx", "-o", path)
    assert done.returncode == 1 and path.split("/plan")[0] in done.stderr


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_archives_are_refused(graft, model, tmp_path, save):
    save(tmp_path / "whole.npz", x=BATCH)
    whole = (tmp_path / "whole.npz").read_bytes()
    random = np.random.default_rng(3)
    for number in range(60):
        damaged = bytearray(whole[:random.integers(len(whole))] if number % 3 == 0 else whole)
        for _ in range(3 if number % 3 else 0):
            damaged[random.integers(len(damaged))] ^= 1 << random.integers(8)
        (tmp_path / "given.npz").write_bytes(damaged)
        done = graft("run", "model.onnx", "--input", "given.npz")
        # A flipped bit of a time stamp does no harm; no other outcome than these two is right.
        assert done.returncode in (0, 1), (number, done.returncode, done.stderr)
        assert done.returncode == 0 or "given.npz" in done.stderr or "'x'" in done.stderr, (number, done.stderr)


def test_a_full_disk_is_reported(graft, model):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([str(COMMAND), "ops"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and "could not be written" in done.stderr


def test_a_limit_on_file_size_leaves_the_old_plan(graft, model, tmp_path):
    compile_plan(graft)
    old = (tmp_path / "plan.graft").read_bytes()
    words = f"ulimit -f 0; trap '' XFSZ; exec '{COMMAND}' compile model.onnx -o plan.graft --dim batch=3"
    done = subprocess.run(["bash", "-c", words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "plan.graft" in done.stderr
    assert (tmp_path / "plan.graft").read_bytes() == old
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "plan.graft"]


def test_interrupting_leaves_nothing_behind(model, tmp_path):
    process = subprocess.Popen([str(COMMAND), "bench", "model.onnx", "--duration", "60", "--json", "rows.json"],
                               cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "stopped" in errors
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


@pytest.fixture
def endless(tmp_path):
    """A plan whose one run takes hours: the sum of an element that is repeated 2^40 times."""
    constants = [onnx.numpy_helper.from_array(np.array(values, np.int64), name)
                 for name, values in (("shape", [1 << 40]), ("axes", [0]))]
    nodes = [helper.make_node("Expand", ["x", "shape"], ["many"]),
             helper.make_node("ReduceSum", ["many", "axes"], ["y"], keepdims=1)]
    graph = helper.make_graph(nodes, "endless", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
              tmp_path / "endless.onnx")
    done = subprocess.run([str(COMMAND), "compile", "endless.onnx", "-o", "endless.graft", "--tune", "off"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [["run"], ["bench", "--warmup", "0"]])
def test_the_first_interrupt_ends_a_run(endless, tmp_path, words):
    process = subprocess.Popen([str(COMMAND), *words, "endless.graft"], cwd=tmp_path, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    time.sleep(3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and "stopped" in errors


@pytest.mark.parametrize("words", [["run"], ["bench", "--warmup", "0"]])
def test_a_deadline_ends_a_run(graft, endless, words):
    done = graft(*words, "endless.graft", "--run-deadline", "0.5")
    assert done.returncode == 1 and "deadline" in done.stderr, done.stderr
    done = graft(*words, "endless.graft", "--deadline", "0.5")  # of compiling, which has been done
    assert done.returncode == 2 and "--run-deadline" in done.stderr, done.stderr


@pytest.fixture
def deaf(tmp_path):
    """A model whose one run takes ages in a loop of a size of the run: an element, repeated n^12 times, is summed."""
    nodes = [helper.make_node("Shape", ["x"], ["size"]), helper.make_node("Concat", ["size"] * 12, ["shape"], axis=0),
             helper.make_node("Expand", ["one", "shape"], ["many"]),
             helper.make_node("ReduceSum", ["many"], ["y"], keepdims=0)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
              helper.make_tensor_value_info("one", TensorProto.FLOAT, [1])]
    graph = helper.make_graph(nodes, "deaf", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
              tmp_path / "deaf.onnx")


@pytest.mark.parametrize("words", [["run"], ["bench", "--warmup", "0"]])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_does_not_end_ends_with_its_process(deaf, tmp_path, words, number):
    process = subprocess.Popen([str(COMMAND), *words, "deaf.onnx", "--size", "n=20"], cwd=tmp_path,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(3)
    assert process.poll() is None
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + number and "stopped" in errors


def test_a_deadline_ends_the_process_of_a_run_that_does_not_end(graft, deaf):
    done = graft("run", "deaf.onnx", "--size", "n=20", "--run-deadline", "0.5")
    assert done.returncode == 1 and "deadline" in done.stderr, done.stderr


def test_more_elements_than_can_be_counted_are_an_error(graft, deaf):
    done = graft("run", "deaf.onnx", "--size", "n=64")
    assert done.returncode == 1 and "node 'ReduceSum'" in done.stderr and "smaller sizes" in done.stderr, done.stderr


def test_bench_writes_rows(graft, model, tmp_path):
    done = graft("bench", "model.onnx", "--iterations", "20", "--size", "batch=2", "--json", "rows.json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert row["batch"] == 2 and row["runs"] == 20 and row["graft_ms"] > 0
    assert {"bench", "case", "device", "dtype", "batch", "graft_ms", "peers", "ratio"} <= set(row)
    assert "p99" in done.stdout


def test_check_says_how_each_operator_runs(graft, model):
    done = graft("check", "model.onnx")
    assert done.returncode == 0, done.stderr
    assert "MatMul + Add + Relu" in done.stdout and "generated" in done.stdout


def test_check_says_why_steps_were_not_fused(graft, model, tmp_path):
    assert "why:\n  nothing" in graft("check", "model.onnx", "--reasons").stdout
    weights = [onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], name="multiply"),
             helper.make_node("Softmax", ["a"], ["y"], name="normalise")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 4])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
              tmp_path / "apart.onnx")
    done = graft("check", "apart.onnx", "--reasons")
    assert "'multiply' (MatMul) and 'normalise' (Softmax) run apart: reductions read whole rows" in done.stdout


def test_operators_are_listed_for_tools(graft):
    operators = {(row["domain"], row["name"]): row for row in json.loads(graft("ops", "--json", "-").stdout)}
    assert len(operators) > 150
    softmax = operators["", "Softmax"]
    assert softmax["inputs"] == ["x"] and softmax["attributes"] == [{"name": "axis", "required": False, "default": -1}]
    assert softmax["since"] == 13 and softmax["forms"] == ["compute", "reduce"] and "f16" in softmax["types"]
    assert operators["", "TopK"]["forms"].count("sort") == 1


def test_inspect_names_nodes_and_writes_a_trace(graft, model, tmp_path):
    compile_plan(graft)
    done = graft("inspect", "plan.graft", "--runs", "3", "--trace", "trace.json")
    assert done.returncode == 0, done.stderr
    assert "multiply" in done.stdout and "arena" in done.stdout
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event["name"] == "multiply" and event["dur"] >= 0 for event in events)


def test_a_pass_can_be_run_alone(graft, model):
    done = graft("opt", "model.onnx", "--pass", "remove_dead_nodes")
    assert done.returncode == 0 and "(unchanged)" in done.stderr and "Relu" in done.stdout


def test_the_tables_are_printed(graft, model):
    assert "MatMul" in graft("ops").stdout
    environment = graft("env").stdout
    assert "GRAFT_DEBUG" in environment
    driver = re.search("^GPU driver  +(.*)$", environment, re.MULTILINE)[1]
    assert driver.startswith(("CUDA ", "none: ")) and bool(re.search("^GPU  +sm_", environment, re.MULTILINE)) \
        == driver.startswith("CUDA "), environment
    assert "recognise_gelu" in graft("opt").stdout
    assert graft("--version").stdout.startswith("graft ")
    for command in ("compile", "run", "bench", "check", "inspect", "opt", "ops", "env", "cache"):
        assert graft(command, "--help").returncode == 0


def test_the_cache_fills_and_empties(graft, model):
    compile_plan(graft)
    assert "removed" in graft("cache", "clear").stdout
    assert graft("cache", "size").stdout.startswith("0 B")
    # A plan holds no code: loading it fills the cache again.
    assert graft("run", "plan.graft").returncode == 0
    assert not graft("cache", "size").stdout.startswith("0 B")


def test_a_foreign_cache_is_not_used(graft, model, tmp_path):
    (tmp_path / "open").mkdir(mode=0o777)
    os.chmod(tmp_path / "open", 0o777)
    done = graft("run", "model.onnx", env={**os.environ, "GRAFT_CACHE": str(tmp_path / "open")})
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 1 and "is not used: others may write to it" in done.stderr, done.stderr
    assert not list((tmp_path / "open").iterdir())


@pytest.mark.parametrize("harm", ["cut", "flipped", "emptied", "exchanged"])
def test_damaged_cache_entries_are_made_again(graft, model, tmp_path, harm):
    environment = {**os.environ, "GRAFT_CACHE": str(tmp_path / "kernels")}
    np.save(tmp_path / "x.npy", BATCH)
    words = ["run", "model.onnx", "--input", "x.npy", "--output", "y.npy"]
    # Two plans, so that there are entries to exchange.
    assert graft(*words, "--mode", "generated", env=environment).returncode == 0
    assert graft(*words, "--target", "portable", env=environment).returncode == 0
    entries = sorted((tmp_path / "kernels").iterdir())
    whole = [entry.read_bytes() for entry in entries]
    assert len(entries) >= 2
    for index, entry in enumerate(entries):
        damaged = bytearray(whole[index])
        damaged[len(damaged) // 2] ^= 1
        entry.write_bytes({"cut": whole[index][:-7], "flipped": damaged, "emptied": b"",
                           "exchanged": whole[index - 1]}[harm])
    done = graft(*words, env=environment)
    assert done.returncode == 0 and not done.stderr, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(two_layers(), BATCH), atol=1e-5)
    assert any(entry.exists() and entry.read_bytes() == bytes for entry, bytes in zip(entries, whole))


def test_killing_leaves_every_file_valid(graft, model, tmp_path):
    environment = {**os.environ, "GRAFT_CACHE": str(tmp_path / "cache")}
    started = time.perf_counter()
    assert graft("compile", "model.onnx", "--tune", "off", "-o", "whole.graft", env=environment).returncode == 0
    usual = time.perf_counter() - started
    whole = (tmp_path / "whole.graft").read_bytes()
    random = np.random.default_rng(11)
    finished = 0
    for moment in range(100):
        if moment % 10 == 0:
            graft("cache", "clear", env=environment)
        words = [str(COMMAND), "compile", "model.onnx", "--tune", "off", "-o", "plan.graft"]
        process = subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0, 1.3 * usual))
        process.kill()
        finished += process.wait() == 0
        if (tmp_path / "plan.graft").exists():
            assert (tmp_path / "plan.graft").read_bytes() == whole, moment
            (tmp_path / "plan.graft").unlink()
    assert finished < 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "model.onnx", "whole.graft"]
    done = graft("run", "whole.graft", "--size", "batch=2", "--reference", "onnxruntime", "--reference-model",
                 "model.onnx", env=environment)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_processes_share_one_cache(model, tmp_path):
    environment = {**os.environ, "GRAFT_CACHE": str(tmp_path / "cache")}
    for _ in range(3):
        processes = [subprocess.Popen([str(COMMAND), "run", "model.onnx", "--reference", "onnxruntime"], cwd=tmp_path,
                                      env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                     for _ in range(4)]
        for process in processes:
            output, errors = process.communicate(timeout=120)
            assert process.returncode == 0 and not errors, (output, errors)
        subprocess.run([str(COMMAND), "cache", "clear"], env=environment, check=True, stdout=subprocess.DEVNULL)


def bench_row(graft, *words, **options):
    """One row of bench on the plan, and what it said on standard error."""
    done = graft("bench", "plan.graft", "--iterations", "2", "--warmup", "0", "--json", "-", *words, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)[0], done.stderr


def test_threads_of_a_plan_are_chosen_when_it_runs(graft, model, tmp_path):
    compile_plan(graft, "--threads", "1")
    assert bench_row(graft)[0]["threads"] == 1
    assert bench_row(graft, "--threads", "3")[0]["threads"] == 3
    np.save(tmp_path / "x.npy", BATCH)
    done = graft("run", "plan.graft", "--threads", "2", "-i", "x.npy", "-o", "y.npy")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(two_layers(), BATCH), atol=1e-5)


def test_recorded_threads_are_no_more_than_the_process_can_use(graft, model):
    processors = os.sched_getaffinity(0)
    compile_plan(graft, "--threads", "4096")
    assert bench_row(graft)[0]["threads"] <= len(processors)
    compile_plan(graft)
    one = {min(processors)}
    assert bench_row(graft, preexec_fn=lambda: os.sched_setaffinity(0, one))[0]["threads"] == 1


def test_a_plan_for_a_gpu_says_so_when_a_cpu_runs_it(graft, model):
    compile_plan(graft)
    here, silence = bench_row(graft)
    assert "warning" not in silence
    compile_plan(graft, "--target", "sm_90a")
    row, warning = bench_row(graft)
    assert row["device"] == here["device"] and row["threads"] == here["threads"]
    assert "warning: the plan was made for sm_90a only" in warning
    assert f"the CPU with {here['threads']} threads" in warning
    done = graft("bench", "plan.graft", "--iterations", "2", "--warmup", "0")
    assert f"{row['device']}, {row['threads']} threads" in done.stdout


def test_a_gpu_that_is_not_here_is_an_error(graft, model):
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("there is a GPU")
    compile_plan(graft, "--target", "sm_90a")
    for words in (("run", "plan.graft"), ("bench", "plan.graft"), ("run", "model.onnx")):
        done = graft(*words, "--device", "cuda", "--size", "batch=2")
        assert done.returncode == 1 and "NVIDIA driver" in done.stderr, done.stderr


def test_other_choices_of_a_plan_are_refused(graft, model):
    compile_plan(graft)
    done = graft("run", "plan.graft", "--threads", "2", "--tune", "off")
    assert done.returncode == 2 and "--tune is chosen when a plan is compiled" in done.stderr


def test_compiling_stops_at_its_deadline(graft, model, tmp_path):
    done = graft("compile", "model.onnx", "-o", "plan.graft", "--deadline", "0.000001")
    assert done.returncode != 0 and "deadline of 1e-06 seconds" in done.stderr, done.stderr
    assert not (tmp_path / "plan.graft").exists()
    assert graft("compile", "model.onnx", "-o", "plan.graft", "--tune", "off", "--deadline", "1000").returncode == 0
    assert graft("compile", "model.onnx", "-o", "plan.graft", "--deadline", "-1").returncode == 2


def test_many_cuts_of_a_dimension_compile_and_run(graft, tmp_path):
    bounds = [onnx.numpy_helper.from_array(np.array([value]), name) for name, value in (("a", 1), ("b", -1), ("c", 0))]
    nodes = [helper.make_node("Slice", [f"v{i}", "a", "b", "c"], [f"v{i + 1}"]) for i in range(20)]
    graph = helper.make_graph(nodes, "cuts", [helper.make_tensor_value_info("v0", TensorProto.FLOAT, ["n", 4])],
                              [helper.make_tensor_value_info("v20", TensorProto.FLOAT, None)], bounds)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
              tmp_path / "cuts.onnx")
    assert graft("compile", "cuts.onnx", "-o", "cuts.graft", "--tune", "off").returncode == 0
    for rows in (45, 40, 41):
        x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
        np.save(tmp_path / "x.npy", x)
        done = graft("run", "cuts.graft", "-i", "x.npy", "-o", "y.npy")
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x[20:rows - 20])
