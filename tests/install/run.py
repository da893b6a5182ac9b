# SPDX-License-Identifier: Apache-2.0
"""What a user of the installed library relies on: the install tree can be moved, its libraries show
no names but ours, and each example builds against it and runs."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OURS = re.compile(r"(typeinfo for |typeinfo name for |vtable for )?graft(::|_)")


def run(*command, **options):
    """Runs a command and returns what it prints; its failure is the test's."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def foreign_symbols(library):
    """The names that a library exports although they are not ours."""
    lines = run("nm", "-DC", "--defined-only", library).splitlines()
    names = [line.split(maxsplit=2)[2] for line in lines if line]
    return [name for name in names if not OURS.match(name)]


def missing_libraries(program):
    """The libraries that a program or library of the tree asks for and the loader does not find."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    return re.findall(r"(\S+) => not found", run("ldd", program, env=environment))


def build_example(source, prefix, folder):
    """Builds an example with find_package(graft) from the given tree, and runs it."""
    run("cmake", "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", folder)
    print(run(folder / source.name, cwd=folder), end="")


def main():
    """Installs, moves, and looks."""
    build = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build"))
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        run("cmake", "--install", build, "--prefix", scratch / "first")
        tree = pathlib.Path(shutil.move(scratch / "first", scratch / "moved"))
        libraries = [path for path in tree.glob("lib*/**/libgraft*.so*") if not path.is_symlink()]
        faults = [] if libraries else ["no library was installed"]
        for path in libraries:
            faults += [f"{path.name} exports {name}" for name in foreign_symbols(path)]
        for path in [*libraries, *(tree / "bin").glob("*")]:
            faults += [f"{path.name} does not find {name}" for name in missing_libraries(path)]
        if faults:
            sys.exit("\n".join(faults))
        for source in sorted(ROOT.glob("examples/*/CMakeLists.txt")):
            build_example(source.parent, tree, scratch / source.parent.name)
    print(f"install: {len(libraries)} libraries, moved and clean")


if __name__ == "__main__":
    main()
