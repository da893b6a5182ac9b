# SPDX-License-Identifier: Apache-2.0
"""The cross-built command under qemu's emulation of one processor or another."""

import json
import os
import pathlib
import subprocess

import pytest

LIBRARIES = "/usr/aarch64-linux-gnu"
LEAST, NEON, MAXIMUM = "cortex-a57", "max,sve=off", "max,sve512=on"


def sve(bits):
    """A processor with vectors of that length."""
    return f"max,sve{bits}=on"


def build_of(variable):
    """A build folder that a variable names, or a skipped test."""
    folder = os.environ.get(variable)
    if not folder or not (pathlib.Path(folder) / "bin/graft").exists():
        pytest.skip(f"{variable} names no build with the command graft")
    return pathlib.Path(folder)


class Emulated:
    """Calls of the command; kernels stay in a cache of the test's own."""

    def __init__(self, folder):
        self.command = build_of("GRAFT_BUILD") / "bin/graft"
        self.cache = folder / "cache"

    def run(self, processor, *words, **options):
        """The finished process, its output as text."""
        environment = {**os.environ, "GRAFT_CACHE": str(self.cache), **options.pop("env", {})}
        line = ["qemu-aarch64", "-cpu", processor, "-L", LIBRARIES, str(self.command), *map(str, words)]
        return subprocess.run(line, capture_output=True, text=True, env=environment, check=False, timeout=600,
                              **options)

    def good(self, processor, *words, **options):
        """What it prints; it has to succeed."""
        done = self.run(processor, *words, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def target(self, processor):
        """The description of the machine, as `graft env` gives it."""
        text = json.loads(self.good(processor, "env", "--json", "-"))["machine"]
        return dict(word.split("=", 1) for word in text.split())


@pytest.fixture(name="emulated")
def fixture_emulated(tmp_path):
    """The command under emulation."""
    return Emulated(tmp_path)


@pytest.fixture(name="native")
def fixture_native(tmp_path):
    """The same version's command of this machine."""
    command = build_of("GRAFT_NATIVE_BUILD") / "bin/graft"

    def run(*words):
        environment = {**os.environ, "GRAFT_CACHE": str(tmp_path / "native")}
        subprocess.run([str(command), *map(str, words)], check=True, capture_output=True, env=environment)

    return run
