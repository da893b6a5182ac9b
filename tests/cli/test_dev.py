# SPDX-License-Identifier: Apache-2.0
"""./dev configures again where it has to: cmake is a script here that notes its calls. Each long test has its turn."""

import os
import pathlib
import re
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


LEFT_OUT = """
set -euo pipefail
source <(sed -n '/^long_tests=/p; /^long_tests_left_out()/,/^}/p' "$1")
git() { printf '%07x\\n' "$hash"; }  # the hash of a commit
for hash in {0..19}; do long_tests_left_out; done
"""


def long_tests():
    """The array of that name in ./dev."""
    words = re.search(r"^long_tests=\((.*)\)$", (ROOT / "dev").read_text(), re.MULTILINE)[1]
    return [quoted or word for quoted, word in re.findall(r'"([^"]+)"|(\S+)', words)]


def test_each_long_test_has_its_turn():
    lines = subprocess.run(["bash", "-c", LEFT_OUT, "bash", ROOT / "dev"], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    turns = [set(long_tests()) - set(line.split("|")) for line in lines]
    assert all(len(turn) == 1 for turn in turns)
    assert set.union(*turns) == set(long_tests())


def test_the_long_tests_are_those_of_that_label():
    labelled = re.findall(r"^graft_add_own_build\((\S+) long ", text := (ROOT / "cmake/tests.cmake").read_text(),
                          re.MULTILINE)
    labelled += re.findall(r"set_tests_properties\((\S+) PROPERTIES LABELS \"long;", text)
    labelled += re.search(r"^set\(graft_long_kinds ([^)]*)\)", text, re.MULTILINE)[1].split()
    assert {name for name in long_tests() if ":" not in name} == set(labelled)
    assert "fuzz" in labelled


@pytest.mark.parametrize("words", [["fuzz", "--help"], ["clean", "-h"], ["test", "--help"], ["sanitize", "--help"]])
def test_help_is_help_and_does_nothing(words):
    done = subprocess.run([ROOT / "dev", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "fuzz" in done.stdout and not done.stderr, done.stderr


def test_a_word_in_place_of_seconds_is_refused_before_anything_is_built():
    done = subprocess.run([ROOT / "dev", "fuzz", "soon"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "soon is no number of seconds" in done.stderr, done.stderr
