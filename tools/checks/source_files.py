# SPDX-License-Identifier: Apache-2.0
"""The files that the checks read."""

import pathlib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDERS = ("include", "src", "tools", "tests", "bench", "examples", "models", "python", "cmake")
CPP = {".h", ".c", ".cpp", ".inc", ".cu"}
OTHER = {".py", ".sh", ".cmake", ".proto", ".fbs"}


def files_with(suffixes):
    """All files of the project with one of the suffixes, in a stable order."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file() and "__pycache__" not in path.parts:
                yield path


def cpp_files():
    """The C++ and C files."""
    return files_with(CPP)


def source_files():
    """Every file that is program text, the scripts at the root included."""
    yield from files_with(CPP | OTHER)
    for name in ("CMakeLists.txt", "dev", ".ci/run"):
        yield ROOT / name
