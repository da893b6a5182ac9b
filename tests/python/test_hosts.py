# SPDX-License-Identifier: Apache-2.0
"""graft-host: what it says if a library cannot be built, and that it leaves nothing behind. tests/wheel builds one."""

import os
import pathlib
import re
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


def test_a_torch_that_is_too_old_is_refused(tmp_path):
    (tmp_path / "include/torch").mkdir(parents=True)
    (tmp_path / "include/torch/library.h").touch()
    (tmp_path / "version.py").write_text("__version__ = '2.8.0+cu128'\n")
    done = graft_host("torch", "--package", tmp_path, "-o", tmp_path)
    assert done.returncode == 1 and "torch 2.8.0 is older than 2.9" in done.stderr, done.stderr


def test_versions_that_nobody_tried_are_noted():
    oldest, *_, newest = hosts.supported("torch")
    assert not hosts.untried("torch", oldest) and not hosts.untried("torch", newest + "+cu130")
    assert "PyTorch 99.1.0 is newer than " + newest in hosts.untried("torch", "99.1.0+cpu")
    assert hosts.supported("mxnet") == [] and not hosts.untried("mxnet", "99.1.0")


def test_a_library_for_one_version_comes_first(tmp_path, monkeypatch):
    monkeypatch.setattr(hosts, "_build_tree", lambda: tmp_path)
    for folder in ("lib", "lib/torch-2.9.1"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "libgraft_torch.so").touch()
    assert hosts.find("torch", version="2.9.1+cu128") == tmp_path / "lib/torch-2.9.1/libgraft_torch.so"
    assert hosts.find("torch", version="2.11.0") == hosts.find("torch") == tmp_path / "lib/libgraft_torch.so"


def test_pages_and_messages_name_the_supported_versions():
    root = pathlib.Path(__file__).resolve().parents[2]
    oldest, *_, newest = [version.rpartition(".")[0] for version in hosts.supported("torch")]
    named = {}
    for path in [*root.glob("docs/*.md"), root / "src/import/pt2/program.cpp"]:
        for found in re.findall(r"(?:torch|PyTorch) (2\.\d+) to (2\.\d+)", path.read_text()):
            named.setdefault(found, []).append(path.name)
    assert list(named) == [(oldest, newest)], named
    assert f"torch>={oldest}" in (root / "python/pyproject.toml").read_text()
    usual = re.search(r"^torch==(.*)$", (root / "tools/deps/environment-torch.txt").read_text(), re.M)[1]
    assert usual in hosts.supported("torch")
