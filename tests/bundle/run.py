# SPDX-License-Identifier: Apache-2.0
"""What a user of the bundle relies on: unpacked into an empty folder, with nothing of ours in the environment, its
programs find everything inside it, ask for no newer glibc than they promise, and pass their own test."""

import os
import pathlib
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools/bundle"), str(ROOT / "tests")]

import libraries  # noqa: E402
import run as bundle  # noqa: E402
from support.command import run  # noqa: E402


def faults_of(tree):
    """What is wrong with an unpacked bundle, as sentences."""
    files = bundle.binaries(tree)
    # What others made is looked for by the programs that use it, with the paths of those.
    for path in (file for file in files if file.name.startswith(("graft", "libgraft"))):
        for name, place in libraries.needed(path).items():
            if not place.resolve().is_relative_to(tree):
                yield f"{path.name} takes {name} from {place}"
    if libraries.glibc_version(files) > bundle.MOST_GLIBC:
        yield f"the binaries need glibc {libraries.glibc_version(files)}"
    for name in ("README.md", "LICENSE", "THIRD_PARTY_NOTICES.md", "tests/conformance/cases.zip"):
        if not (tree / name).exists():
            yield f"{name} is missing"
    shipped = [path for path in (tree / "lib").glob("*.so*") if not path.name.startswith("libgraft")]
    texts = list((tree / "licences").glob("*.txt"))
    if not shipped or len(texts) < len(shipped):
        yield f"{len(shipped)} libraries of others, and {len(texts)} licences"


def main():
    """Makes the first archive, unpacks it and tries it."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch).resolve()
        made = run(sys.executable, ROOT / "tools/bundle/run.py", "--part", "main", "-o", scratch)
        archive, = scratch.glob("*.tar.xz")
        with tarfile.open(archive) as tar:
            tar.extractall(scratch / "empty")
        tree, = (scratch / "empty").iterdir()
        if faults := list(faults_of(tree)):
            sys.exit("\n".join(faults))
        clean = {"PATH": "/usr/bin:/bin", "HOME": str(scratch), "PYTHON": sys.executable,
                 "PYTHONDONTWRITEBYTECODE": "1"}
        test = tree / "bin/graft-selftest"
        last = {name: run(test, "--device", "cpu", *words, env=clean, cwd=scratch).splitlines()[-1]
                for name, words in {"quick": ("quick",), "cases": ("conformance", "--mode", "interpret", "--quiet",
                                                                   "--filter", "softmax")}.items()}
        print(made, *(f"{name}: {line}" for name, line in last.items()), sep="\n")
        if any(" 0 failed" not in line or line.startswith("0 passed") for line in last.values()):
            sys.exit("the bundle's own test did not pass")


if __name__ == "__main__":
    os.environ.pop("LD_LIBRARY_PATH", None)
    main()
