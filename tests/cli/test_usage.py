# SPDX-License-Identifier: Apache-2.0
"""How the command takes what people write, and how it ends."""

import os
import signal
import subprocess
import time

import numpy as np
import pytest
from conftest import COMMAND

QUICK = ["--tune", "off"]


@pytest.mark.parametrize("words", [
    ["--dim", "bacth=2"], ["--dim", "batch"], ["--target", "skylake"], ["--shapes", "z:1x4"], ["--shapes", "x:1x5"],
    ["--tune", "slow"], ["--precision", "tf32"], ["--fp32-units", "tf32"], ["--device", "tpu"],
    ["--disable", "nothing"], ["--target", "x86-64-v3", "--device", "cuda"], ["--min-shapes", "x:1x4"],
    ["--size", "batch=2"],
], ids=" ".join)
def test_wrong_usage_ends_with_2_and_names_the_option(graft, model, words):
    done = graft("compile", "model.onnx", *QUICK, *words) if "--tune" not in words else graft(
        "compile", "model.onnx", *words)
    assert done.returncode == 2 and words[0] in done.stderr, (done.returncode, done.stderr)


def test_what_is_wrong_with_a_file_ends_with_1(graft, model, tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    for name in ("broken.onnx", "absent.onnx"):
        done = graft("compile", name, *QUICK)
        assert done.returncode == 1 and name in done.stderr or "not an ONNX model" in done.stderr, done.stderr


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_it_with_its_own_status(model, tmp_path, number, status):
    process = subprocess.Popen([COMMAND, "bench", "model.onnx", *QUICK, "--duration", "60"], cwd=tmp_path,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == status and "stopped" in errors, errors


def test_lists_of_trtexec_are_taken(graft, tmp_path):
    import onnx
    from onnx import TensorProto, helper
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["y"])], "g",
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "k"]) for name in "ab"],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "k"])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "m.onnx")
    assert graft("compile", "m.onnx", *QUICK, "--shapes=a:2x4,b:2x4", "-o", "fixed.graft").returncode == 0
    assert "f32[2, 4]" in graft("run", "fixed.graft").stdout
    ranges = ["--min-shapes", "a:1x4,b:1x4", "--opt-shapes", "a:2x4,b:2x4", "--max-shapes", "a:8x4,b:8x4"]
    assert graft("compile", "m.onnx", *QUICK, *ranges, "-o", "open.graft").returncode == 0
    assert graft("compile", "m.onnx", *QUICK, "--dim", "n=1:2:8,k=4", "-o", "dims.graft").returncode == 0
    assert "f32[3, 4]" in graft("run", "dims.graft", "--size", "n=3,k=4").stdout
    assert graft("compile", "m.onnx", *QUICK, "--shapes", "a:2x4,b:2").returncode == 2
    done = graft("compile", "m.onnx", *QUICK, "--shapes", "a:2x4,a:2x4")
    assert done.returncode == 2 and "chosen twice" in done.stderr


def test_a_model_comes_from_standard_input(graft, model, tmp_path):
    for name in ("-", "/dev/stdin"):
        with open(model, "rb") as file:
            done = graft("compile", name, *QUICK, "-o", "plan.graft", stdin=file)
        assert done.returncode == 0, done.stderr
    assert graft("run", "plan.graft").returncode == 0
    with open(tmp_path / "plan.graft", "rb") as file:
        assert "y  f32[1, 33]" in graft("run", "-", stdin=file).stdout
    with open(model, "rb") as file:
        done = graft("compile", "-", *QUICK, stdin=file)
    assert done.returncode == 2 and "--output" in done.stderr
    with open(os.devnull, "rb") as file:
        done = graft("check", "-", stdin=file)
    assert done.returncode == 1 and "standard input: model: the file is empty" in done.stderr, done.stderr


@pytest.mark.parametrize("words", [
    ["convert", "p.graft", "--precision", "fp16", "-o", "q.onnx"],
    ["extract", "p.graft", "--outputs", "y", "-o", "q.onnx"],
    ["reduce", "p.graft", "--check", "false", "-o", "q.onnx"], ["compile", "p.graft"], ["opt", "p.graft"],
    ["embed", "p.graft", "--outputs", "y", "-o", "q.pb"], ["plugin", "p.graft", "--nodes", "y", "-o", "q"],
], ids=lambda words: words[0])
def test_a_plan_where_a_model_belongs_is_called_one(graft, model, tmp_path, words):
    assert graft("compile", "model.onnx", *QUICK, "-o", "p.graft").returncode == 0
    done = graft(*words)
    assert done.returncode == 2 and "'p.graft' is a plan of Graft" in done.stderr, done.stderr


def test_the_seed_of_the_process_makes_random_inputs(graft, model):
    def result(*words, **variables):
        done = graft("run", "model.onnx", *QUICK, *words, env={**os.environ, **variables})
        assert done.returncode == 0, done.stderr
        return done.stdout
    assert result() == result("--seed", "1") == result(GRAFT_SEED="1") == result("--seed", "1", GRAFT_SEED="7")
    assert result(GRAFT_SEED="7") == result("--seed", "7") != result()
    assert result("--seed", "18446744073709551615")
    for wrong in ("-1", "18446744073709551616", "1.5", "one"):
        assert graft("run", "model.onnx", *QUICK, f"--seed={wrong}").returncode == 2


def test_questions_about_the_cache_make_no_folder(graft, tmp_path):
    environment = {**os.environ, "GRAFT_CACHE": str(tmp_path / "no/cache")}
    for words in (["cache", "size"], ["cache", "list"], ["cache", "clear"], ["env"]):
        done = graft(*words, env=environment)
        assert done.returncode == 0 and "no/cache" in done.stdout + done.stderr or words[1:] == ["clear"], done.stderr
        assert not (tmp_path / "no").exists(), words


def test_the_reference_is_of_the_active_environment(graft, model, tmp_path):
    (tmp_path / "venv/bin").mkdir(parents=True)
    program = tmp_path / "venv/bin/python"
    program.write_text("#!/bin/sh\necho \"$0\" >>calls\nexit 1\n")
    program.chmod(0o755)
    done = graft("run", "model.onnx", *QUICK, "--reference", "onnxruntime",
                 env={**os.environ, "VIRTUAL_ENV": str(tmp_path / "venv")})
    assert done.returncode == 0 and str(program) in (tmp_path / "calls").read_text()  # asked first; the next one has it
    done = graft("run", "model.onnx", *QUICK, "--reference", "onnxruntime",
                 env={"VIRTUAL_ENV": str(tmp_path / "venv"), "PATH": str(tmp_path), "GRAFT_CACHE": str(tmp_path / "c")})
    assert done.returncode in (0, 1) and "device error" not in done.stderr


def test_a_warning_is_one_line(graft, tmp_path):
    import onnx
    from onnx import TensorProto, helper
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.COMPLEX64, [4])],
                              [helper.make_tensor_value_info("y", TensorProto.COMPLEX64, [4])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "c.onnx")
    done = graft("run", "c.onnx", *QUICK, "--mode", "interpret")
    assert "\\n" not in done.stderr, done.stderr


def test_the_first_line_of_inspect_is_short(graft, model):
    done = graft("inspect", "model.onnx", *QUICK, "--no-run")
    assert len(done.stdout.splitlines()[0]) <= 100, done.stdout.splitlines()[0]
    assert np.all([len(line) < 400 for line in done.stdout.splitlines()])


def test_fp32_units_choose_what_multiplies_f32(graft, tmp_path):
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    weights = np.random.default_rng(0).standard_normal((512, 256)).astype(np.float32)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [128, 512])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [128, 256])],
                              [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "m.onnx")
    plan = graft("compile", "m.onnx", *QUICK, "--target", "x86-64-v4", "--compile-to", "plan").stdout
    text = next(line for line in plan.splitlines() if line.startswith("record ")).removeprefix("record ")
    with_tiles = text.replace("+avx512vl", "+avx512vl,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16")
    described = ["m.onnx", *QUICK, "--target", with_tiles, "--compile-to", "plan"]
    chosen = graft("compile", *described).stdout
    assert "unit=amx_f32" in chosen, chosen
    kept = graft("compile", *described, "--fp32-units", "fma").stdout
    assert "generated contract" in kept and "unit=" not in kept, kept
    # The plan runs here as well, on whatever this machine multiplies with.
    assert graft("compile", *described[:-2], "-o", "tiles.graft").returncode == 0
    assert graft("compile", *described[:-2], "--fp32-units", "fma", "-o", "fma.graft").returncode == 0
    assert "option fp32-units = fma" in graft("inspect", "fma.graft", "--no-run").stdout
    x = np.random.default_rng(1).standard_normal((128, 512)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    exact, magnitudes = x.astype(np.float64) @ weights, np.abs(x).astype(np.float64) @ np.abs(weights)
    for model in ("m.onnx", "tiles.graft", "fma.graft"):
        assert graft("run", model, "--input", "x.npy", "--output", "y.npy").returncode == 0
        error = np.abs(np.load(tmp_path / "y.npy") - exact) / magnitudes
        assert error.max() < 5e-7, model  # of a chain of multiply-adds: 3e-7
