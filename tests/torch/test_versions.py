# SPDX-License-Identifier: Apache-2.0
"""What one version of torch wrote, another reads: modules and programs with engines, and plans. Each version that these
tests run with (`./dev test torch --torch 2.9`) leaves its files in the build folder, and reads those of all others."""

import os
import pathlib

import pytest
import torch
from conftest import BUILD, FAST, TORCH, close

import graft.torch
from graft.torch import script

FILES = BUILD / "hosts" / "files"
SUPPORTED = pathlib.Path(__file__).resolve().parents[2] / "src" / "host" / "torch" / "versions.txt"


def write(suffix, save):
    """A file of this version, which appears as a whole: another version may read at the same time."""
    FILES.mkdir(parents=True, exist_ok=True)
    path = FILES / f"torch-{torch.__version__.partition('+')[0]}{suffix}"
    hidden = FILES / f".{os.getpid()}{suffix}"
    save(hidden)
    os.replace(hidden, path)
    return path


def written(suffix):
    """The files of all versions, as far as they are of this build of Graft."""
    built = (BUILD / "lib" / "libgraft.so").stat().st_mtime
    return [path for path in sorted(FILES.glob(f"torch-*{suffix}")) if path.stat().st_mtime > built]


def test_modules_with_engines(split, image):
    made = script.compile(torch.jit.script(split), [image], **FAST)
    own = write(".pt", lambda path: torch.jit.save(made, str(path)))
    assert own in written(".pt")
    for path in written(".pt"):
        print(path.name)
        close(torch.jit.load(str(path))(image), split(image))


def test_programs_with_engines(split, image):
    program = graft.torch.compile(split, [image], **FAST)
    own = write("-engines.pt2", lambda path: graft.torch.save(program, path))
    assert own in written("-engines.pt2")
    for path in written("-engines.pt2"):
        print(path.name)
        close(graft.torch.load(path)(image), split(image))


def test_plans(split, image):
    plan = script.convert_to_plan(torch.jit.script(split.stem), [image], **FAST)
    own = write(".graft", lambda path: path.write_bytes(plan))
    assert own in written(".graft")
    for path in written(".graft"):
        print(path.name)
        close(torch.as_tensor(graft.load(str(path))(image)), split.stem(image))


def test_programs_that_graft_reads_without_torch(split, image):
    program = torch.export.export(split.stem, (image,))
    own = write("-plain.pt2", lambda path: torch.export.save(program, path))
    assert own in written("-plain.pt2")
    for path in written("-plain.pt2"):
        print(path.name)
        close(torch.as_tensor(graft.compile(str(path), **FAST)(image)), split.stem(image))


@pytest.mark.skipif(not SUPPORTED.is_file(), reason="the list is in the source tree")
def test_this_version_is_one_of_those_that_are_supported():
    listed = [line.split()[0] for line in SUPPORTED.read_text().splitlines() if not line.startswith("#")]
    assert ".".join(map(str, TORCH)) in [version.rpartition(".")[0] for version in listed]
