# SPDX-License-Identifier: Apache-2.0
"""Whole networks against ONNX Runtime: sizes that vary under one plan, and machines with narrower vectors."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "models"))

import minilm  # noqa: E402
import networks  # noqa: E402

COMMAND = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")) / "bin" / "graft"
LENGTHS = ["--dim", "batch=1:1:8", "--dim", "length=1:64:256"]
BATCHES = ["--dim", "batch=1:1:8"]


@pytest.fixture(scope="module", autouse=True)
def environment(tmp_path_factory):
    """A kernel cache of the tests' own, and the Python that has ONNX Runtime."""
    os.environ["GRAFT_CACHE"] = str(tmp_path_factory.mktemp("cache") / "kernels")
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"


def run(*words):
    """Runs the command and gives its output; a failure shows its messages."""
    done = subprocess.run([str(COMMAND), *map(str, words)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def compiled(model, folder, *options):
    """Compiles a model into a folder; gives the plan, none of whose steps may be interpreted."""
    plan = folder / "network.graft"
    report = run("compile", model, "-o", plan, "--tune", "off", *options)
    ways = re.search(r"\d+ steps, [^;]*", report).group()
    assert "generated" in ways and "interpreter" not in ways, report
    return plan


def agrees(plan, model, *options):
    """Compares a plan with ONNX Runtime on random inputs."""
    run("run", plan, "--reference", "onnxruntime", "--reference-model", model, *options)


@pytest.mark.parametrize("name", ["tiny_mlp", "tiny_cnn"])
@pytest.mark.parametrize("target", ["native", "x86-64-v3", "portable"])
def test_small_networks_agree_on_every_target(name, target):
    model = networks.cached_path(name)
    for batch in (1, 3, 8):
        agrees(model, model, *BATCHES, "--target", target, "--tune", "off", "--size", f"batch={batch}", "--seed", batch)


@pytest.mark.parametrize("target", ["x86-64-v3", "portable"])
def test_minilm_agrees_on_other_targets(target):
    model = minilm.cached_path()
    for batch, length in ((2, 7), (3, 57)):
        agrees(model, model, *LENGTHS, "--target", target, "--tune", "off", "--size", f"batch={batch}",
               "--size", f"length={length}")


def test_one_plan_of_minilm_serves_every_length(tmp_path):
    model = minilm.cached_path()
    plan = compiled(model, tmp_path, *LENGTHS)
    for batch, length in ((1, 1), (2, 7), (1, 56), (3, 57), (1, 129), (1, 256)):
        agrees(plan, model, "--size", f"batch={batch}", "--size", f"length={length}")


def test_a_plan_for_another_machine_is_planned_anew(tmp_path):
    model = networks.cached_path("tiny_cnn")
    plan = compiled(model, tmp_path, *BATCHES, "--target", "portable")
    agrees(plan, model, "--size", "batch=3")


def test_a_tuned_network_agrees_and_its_record_can_be_used_again(tmp_path):
    model = networks.cached_path("tiny_cnn")
    plan, again = tmp_path / "tuned.graft", tmp_path / "again.graft"
    run("compile", model, "-o", plan, *BATCHES, "--tune", "full")
    agrees(plan, model, "--size", "batch=3")
    assert "times slower" in run("inspect", "--no-run", plan)
    run("compile", model, "-o", again, *BATCHES, "--tune", "full", "--record", plan)
    assert plan.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("name", ["tiny_mlp", "tiny_cnn", "tiny_transformer"])
def test_every_kernel_of_a_network_is_generated_for_a_gpu(name, tmp_path):
    compiled(networks.cached_path(name), tmp_path, "--dim", "batch=2", "--target", "sm_90a")


def test_every_kernel_of_minilm_is_generated_for_a_gpu(tmp_path):
    compiled(minilm.cached_path(), tmp_path, "--dim", "batch=2", "--dim", "length=128", "--target", "sm_90a")


def test_without_a_gpu_one_sentence_says_so():
    if pathlib.Path("/dev/nvidia0").exists():
        pytest.skip("there is a GPU")
    done = subprocess.run([str(COMMAND), "run", str(networks.cached_path("tiny_mlp")), "--device", "cuda"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "NVIDIA" in done.stderr and done.stderr.count("\n") == 1


def test_sizes_outside_the_ranges_are_refused_by_name(tmp_path):
    plan = compiled(minilm.cached_path(), tmp_path, *LENGTHS)
    done = subprocess.run([str(COMMAND), "run", str(plan), "--size", "batch=1", "--size", "length=257"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "length = 257 is outside 1..256" in done.stderr


def test_resnet50_agrees(tmp_path):
    model = networks.cached_path("resnet50")
    plan = compiled(model, tmp_path, *BATCHES)
    for batch in (1, 2):
        agrees(plan, model, "--size", f"batch={batch}")
