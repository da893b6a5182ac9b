# SPDX-License-Identifier: Apache-2.0
"""The modules of a build: code generators, libraries and kernels that are opened while running, so that no linker
misses one."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def missing_modules(build, files):
    """The modules in the build's lib/ that are not among the files that were handed out."""
    folders = [folder for kind in ("codegen", "library", "kernels") for folder in (ROOT / "src" / kind).iterdir()]
    names = {f"libgraft_{folder.name}.so" for folder in folders}
    built = {name for name in names if (build / "lib" / name).exists()}
    return sorted(built - {pathlib.PurePath(file).name for file in files})
