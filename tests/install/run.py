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
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools/wheel")]

import audit  # noqa: E402
from support.command import run  # noqa: E402
from support.modules import missing_modules  # noqa: E402

OURS = re.compile(r"(typeinfo for |typeinfo name for |vtable for )?graft(::|_)")


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


C_PROGRAM = """
#include <stdio.h>
#include <graft/graft_c.h>
int main(void) { return printf("%s\\n", graft_version()) < 0; }
"""


def flags_of(tree):
    """What pkg-config says of the tree, where there is pkg-config."""
    if not shutil.which("pkg-config"):
        print("install: no pkg-config here, its file is not tried")
        return None
    folder, = tree.glob("lib*/**/pkgconfig")
    return run("pkg-config", "--cflags", "--libs", "graft",
               env={**os.environ, "PKG_CONFIG_PATH": str(folder), "PKG_CONFIG_LIBDIR": ""}).split()


def try_compilers(tree, folder):
    """A C program builds with what pkg-config says; C++17 is told that graft.h is C++20."""
    (folder / "version.c").write_text(C_PROGRAM)
    if flags := flags_of(tree):
        library, = {path.parent for path in tree.glob("lib*/**/libgraft.so")}
        run("cc", "-std=c99", "-Wall", "-Werror", folder / "version.c", *flags, f"-Wl,-rpath,{library}",
            "-o", folder / "version")
        print("pkg-config: a C program says", run(folder / "version"), end="")
    (folder / "old.cpp").write_text("#include <graft/graft.h>\n")
    done = subprocess.run(["c++", "-std=c++17", "-fsyntax-only", f"-I{tree / 'include'}", str(folder / "old.cpp")],
                          capture_output=True, text=True, check=False)
    if done.returncode == 0 or "graft.h is C++20" not in done.stderr:
        sys.exit(f"install: C++17 was told\n{done.stderr}")


def faults_of_host(tree, folder):
    """A library for a framework, by graft_host(): installed beside Graft it finds it, and shows one name."""
    run("cmake", "-S", pathlib.Path(__file__).parent / "host", "-B", folder, f"-DCMAKE_PREFIX_PATH={tree}",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    run("cmake", "--build", folder)
    run("cmake", "--install", folder, "--prefix", tree)
    library, = tree.glob("lib*/**/libgraft_nothing.so")
    for name in missing_libraries(library):
        yield f"{library.name} does not find {name}"
    shown = re.findall(r" T (\w+)", run("nm", "-D", "--defined-only", library))
    if shown != ["graft_nothing_run"]:
        yield f"{library.name} shows {', '.join(shown)}"
    if "-O2" not in (folder / "compile_commands.json").read_text():
        yield f"{library.name} was not optimised"


def faults_of_licences(tree):
    """What the tree holds of others without their licence beside it."""
    texts = [str(path.relative_to(tree)) for path in tree.glob("share/doc/**/licences/**/*") if path.is_file()]
    linked = {name for path in audit.binaries(tree) for name in audit.dynamic_entries(path, "NEEDED")}
    for word in audit.missing_licences(audit.binaries(tree), texts):
        if word != "llvm" or not any(name.startswith("libLLVM") for name in linked):
            yield f"there is no licence of {word}"


def main():
    """Installs, moves, and looks."""
    build = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build"))
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        run("cmake", "--install", build, "--prefix", scratch / "first")
        tree = pathlib.Path(shutil.move(scratch / "first", scratch / "moved"))
        libraries = [path for path in tree.glob("lib*/**/libgraft*.so*") if not path.is_symlink()]
        faults = [] if libraries else ["no library was installed"]
        faults += [f"{name} was built and not installed" for name in missing_modules(build, libraries)]
        for path in libraries:
            faults += [f"{path.name} exports {name}" for name in foreign_symbols(path)]
        for path in [*libraries, *(tree / "bin").glob("*"), *tree.glob("lib*/triton/*/*.so")]:
            faults += [f"{path.name} does not find {name}" for name in missing_libraries(path)]
        faults += faults_of_licences(tree)
        faults += faults_of_host(tree, scratch / "host")
        if faults:
            sys.exit("\n".join(faults))
        try_compilers(tree, scratch)
        for source in sorted(ROOT.glob("examples/*/CMakeLists.txt")):
            build_example(source.parent, tree, scratch / source.parent.name)
    print(f"install: {len(libraries)} libraries, moved and clean")


if __name__ == "__main__":
    main()
