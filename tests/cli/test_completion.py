# SPDX-License-Identifier: Apache-2.0
"""What bash completes, and the manual page."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build"))
SCRIPT = """
source "$1"
COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2))
_graft "$2" "${COMP_WORDS[COMP_CWORD]}" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(*words):
    """What is offered for the last word of a line."""
    script = ROOT / "tools/completion/graft.bash"
    done = subprocess.run(["bash", "-c", SCRIPT, "bash", script, BUILD / "bin/graft", *words], capture_output=True,
                          text=True, check=True)
    return done.stdout.split()


def test_commands_are_completed():
    assert {"compile", "build", "run", "bench", "check", "help"} <= set(completed(""))
    assert completed("compi") == ["compile"]
    assert completed("help", "che") == ["check"]


def test_options_are_completed_by_command():
    assert completed("compile", "--tu") == ["--tune"]
    assert {"-o", "--output"} <= set(completed("compile", "-"))
    assert completed("bench", "--no-such") == []
    assert completed("run", "model") == []  # files, which bash adds itself


@pytest.mark.parametrize("words, found", [
    (["cache", ""], {"list", "size", "clear", "export", "import"}), (["cache", "si"], {"size"}),
    (["compile", "--precision", ""], {"fp32", "tf32", "fp16", "bf16"}), (["compile", "--tune", "=", "fa"], {"fast"}),
    (["run", "--mode", "="], {"generated", "interpret"}), (["compile", "--target", "sm_9"], {"sm_90a"}),
    (["bench", "m.onnx", "--hint", "l"], {"latency"}), (["compile", "--tune=fu"], {"--tune=full"}),
    (["compile", "--disable", "recognise_gel"], {"recognise_gelu"}), (["completion", ""], set()),
    (["compile", "-o", ""], set()), (["compile", "model.onnx", ""], set()),
])
def test_values_are_completed(words, found):
    assert set(completed(*words)) == found


@pytest.mark.parametrize("shell, name", [("bash", "graft.bash"), ("zsh", "_graft"), ("fish", "graft.fish")])
def test_the_command_prints_what_is_installed(shell, name):
    done = subprocess.run([BUILD / "bin/graft", "completion", shell], capture_output=True, text=True, check=True)
    assert done.stdout == (ROOT / "tools/completion" / name).read_text()
    if shutil.which(shell):
        check = subprocess.run([shell, "-n"], input=done.stdout, capture_output=True, text=True, check=False)
        assert check.returncode == 0, check.stderr


def test_the_manual_page_is_one():
    page = (ROOT / "docs/graft.1").read_text()
    assert re.search(r"^\.TH GRAFT 1 ", page, re.MULTILINE)
    for command in ("compile", "run", "cache"):
        assert f'.SS "graft {command}"' in page
    if not shutil.which("man"):
        pytest.skip("no man here to read it")
    done = subprocess.run(["man", "--warnings", "-l", ROOT / "docs/graft.1"], capture_output=True, text=True,
                          check=True, env={**os.environ, "MANPAGER": "cat", "LC_ALL": "C.UTF-8", "MANWIDTH": "130"})
    assert "--tune" in done.stdout and not done.stderr
