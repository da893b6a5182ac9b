# SPDX-License-Identifier: Apache-2.0
"""./dev configures again where it has to: cmake is a script here that notes its calls."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = """
set -euo pipefail
root_folder=$1 deps_folder=$1/.deps
source <(sed -n '/^configure()/,/^}/p' "$2")
source <(sed -n '/^note_installed()/p' "$3")
mkdir -p "$deps_folder"
"""
CMAKE = """#!/bin/sh
echo "$@" >>"$CALLS"
for word; do folder=$word; [ "$before" = -B ] && made=$word; before=$word; done
mkdir -p "$made/CMakeFiles" && touch "$made/build.ninja"
"""


@pytest.fixture(name="configures")
def fixture_configures(tmp_path):
    """Runs lines of bash behind the functions of ./dev; gives how often cmake was called so far."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/cmake").write_text(CMAKE)
    (tmp_path / "bin/cmake").chmod(0o755)
    calls = tmp_path / "calls"
    calls.touch()

    def run(lines):
        environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "CALLS": str(calls)}
        subprocess.run(["bash", "-c", SCRIPT + lines, "bash", tmp_path, ROOT / "dev", ROOT / "tools/deps/install.sh"],
                       check=True, env=environment, cwd=tmp_path)
        return len(calls.read_text().splitlines())
    return run


def test_what_is_installed_later_is_looked_for(configures):
    assert configures("configure build") == 1
    assert configures("configure build") == 1  # nothing has changed
    assert configures("sleep 0.02; note_installed; configure build") == 2  # as `./dev bundle --part torch` does
    assert configures("configure build") == 2
    assert configures("configure build -DGRAFT_LLVM=OFF") == 3
    assert configures("configure other") == 4


def test_what_is_installed_while_cmake_looks_is_looked_for_the_next_time(configures):
    slow = "cmake() { command cmake \"$@\"; sleep 0.02; note_installed; }; configure build"
    assert configures(slow) == 1
    assert configures("configure build") == 2
    assert configures("configure build") == 2
