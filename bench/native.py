# SPDX-License-Identifier: Apache-2.0
"""Builds the bench's own C++ files for this machine, once per source, compiler and processor."""

import ctypes
import hashlib
import os
import subprocess
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
COMPILER = os.environ.get("CXX", "g++")
FLAGS = ["-std=c++20", "-O3", "-march=native", "-shared", "-fPIC", "-pthread"]


def load(name, flags=()):
    """Compiles bench/<name>.cpp into a shared library, unless that was done before, and opens it."""
    source = os.path.join(FOLDER, f"{name}.cpp")
    command = [COMPILER, *FLAGS, source, *flags]
    with open(source, "rb") as file:
        key = hashlib.sha256(file.read() + repr((command, _processor())).encode())
    cache = os.path.join(os.path.dirname(FOLDER), ".cache", "bench")
    os.makedirs(cache, exist_ok=True)
    library = os.path.join(cache, f"{name}-{key.hexdigest()[:12]}.so")
    if not os.path.exists(library):
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            partial = os.path.join(folder, f"{name}.so")
            subprocess.run([*command, "-o", partial], check=True)
            os.replace(partial, library)
    return ctypes.CDLL(library)


def _processor():
    """Gives the lines of /proc/cpuinfo that decide what -march=native means."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return sorted({line for line in file if line.startswith(("model name", "flags"))})
