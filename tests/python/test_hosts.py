# SPDX-License-Identifier: Apache-2.0
"""graft-host: what it says if a library cannot be built, and that it leaves nothing behind. tests/wheel builds one."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from graft import hosts

BUILD = pathlib.Path(os.environ["GRAFT_BUILD"])


def graft_host(*words, path=None):
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python"), **({"PATH": str(path)} if path else {})}
    done = subprocess.run([sys.executable, "-m", "graft.hosts", *map(str, words)], capture_output=True, text=True,
                          check=False, env=environment)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize("missing, said", [
    ("cmake", "there is no cmake on the PATH: pip install graft-compiler[host]"),
    ("ninja", "there is no ninja on the PATH"), ("c++", "install g++ 12 or newer")])
def test_a_missing_tool_is_named_with_its_remedy(tmp_path, missing, said):
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in {"cmake", "ninja", "c++"} - {missing}:
        (tools / tool).symlink_to(shutil.which(tool))
    done = graft_host("torch", "--package", tmp_path, "-o", tmp_path, path=tools)
    assert done.returncode == 1 and said in done.stderr, done.stderr


def test_an_environment_without_the_framework_is_named(tmp_path):
    done = graft_host("mxnet", "-o", tmp_path)
    assert done.returncode == 1 and f"{sys.executable} has no MXNet" in done.stderr, done.stderr


def test_a_folder_that_is_no_framework_is_refused_and_nothing_is_written(tmp_path):
    output = tmp_path / "output"
    output.mkdir()
    done = graft_host("torch", "--package", tmp_path, "-o", output)
    assert done.returncode == 1 and "no torch in GRAFT_TORCH" in done.stderr, done.stderr
    assert not list(output.iterdir())


def test_a_folder_that_is_not_there_is_refused_before_anything_is_compiled(tmp_path):
    done = graft_host("torch", "--package", tmp_path, "-o", tmp_path / "absent")
    assert done.returncode == 1 and "cannot be written to: give --output" in done.stderr, done.stderr


def test_what_is_missing_names_the_command(tmp_path):
    said = hosts.missing("torch", "2.11.0", tmp_path / "libgraft_torch.so")
    assert "graft-host torch" in said and "PyTorch 2.11.0" in said and str(tmp_path) in said
    assert hosts.find("torch", tmp_path / "libgraft_torch.so") is None
