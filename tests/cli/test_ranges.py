# SPDX-License-Identifier: Apache-2.0
"""Runs and steps as ranges of a profiler that speaks NVTX."""

import os
import pathlib
import shutil
import subprocess

import pytest

QUICK = ["--tune", "off", "--size", "batch=2", "--threads", "1"]


@pytest.fixture(name="tool")
def fixture_tool(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    source = pathlib.Path(__file__).with_name("nvtx_tool.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-D_GNU_SOURCE", str(source), "-o", str(tmp_path / "tool.so")],
                   check=True)
    return tmp_path / "tool.so"


def run(graft, tmp_path, **environment):
    done = graft("run", "model.onnx", *QUICK,
                 env={**os.environ, "RANGES": str(tmp_path / "ranges"), "GRAFT_RANGES": "nvtx", **environment})
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_run_and_its_steps_are_nested_ranges(graft, model, tmp_path, tool):
    run(graft, tmp_path, NVTX_INJECTION64_PATH=str(tool))
    depth, deepest, names = 0, 0, []
    for line in (tmp_path / "ranges").read_text().splitlines():
        depth += 1 if line.startswith("+") else -1
        deepest = max(deepest, depth)
        names += [line[1:]] if line.startswith("+") else []
        assert depth >= 0
    assert depth == 0 and deepest == 2 and len(names) >= 2, names


@pytest.mark.parametrize("path, refuses, told", [
    ("", False, "names no profiler"), ("absent.so", False, "absent.so"), ("tool.so", True, "refuses to begin"),
])
def test_without_a_profiler_the_run_goes_on_and_says_so(graft, model, tmp_path, tool, path, refuses, told):
    more = {"REFUSES": "1"} if refuses else {}
    said = run(graft, tmp_path, NVTX_INJECTION64_PATH=str(tmp_path / path) if path else "", **more)
    assert told in said, said


def test_other_words_are_refused(graft, model):
    done = graft("run", "model.onnx", *QUICK, env={**os.environ, "GRAFT_RANGES": "itt"})
    assert done.returncode != 0 and "GRAFT_RANGES" in done.stderr, done.stderr
