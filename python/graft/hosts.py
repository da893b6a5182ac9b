# SPDX-License-Identifier: Apache-2.0
"""Builds the library that brings engines into an installed framework, and finds it.

`graft-host torch` (or tensorflow, mxnet) compiles libgraft_torch.so for the torch of this environment, in about a
minute, and puts it beside the package's libraries. It needs g++ or clang++ with C++20, cmake and ninja
(`pip install graft-compiler[host]` brings the latter two). Another version of the framework needs another build.
"""

import argparse
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FRAMEWORKS = {"torch": "PyTorch", "tensorflow": "TensorFlow", "mxnet": "MXNet"}
_HERE = pathlib.Path(__file__).parent


class BuildError(Exception):
    """A library that cannot be built: why, and what to do."""


def library_name(framework: str) -> str:
    """The library's file name."""
    return f"libgraft_{framework}.so"


def places(framework: str, version: str = "") -> list[pathlib.Path]:
    """Where the library can be: beside the package's own, and beside those of a build tree. In front of either, a
    folder for one version of the framework, as there may be several: torch-2.9.1."""
    folders = [_HERE / "lib", _build_tree() / "lib"]
    release = version.partition("+")[0]
    return [place / library_name(framework) for folder in folders
            for place in ([folder / f"{framework}-{release}"] if release else []) + [folder]]


def find(framework: str, path: str | os.PathLike[str] | None = None, version: str = "") -> pathlib.Path | None:
    """The library's file; `path`: the only place to look at."""
    candidates = [pathlib.Path(path)] if path else places(framework, version)
    return next((each for each in candidates if each.is_file()), None)


def missing(framework: str, version: str, path: str | os.PathLike[str] | None = None) -> str:
    """What to say where there is none."""
    looked = [path] if path else places(framework)
    return (f"{library_name(framework)} is in none of {', '.join(map(str, looked))}: `graft-host {framework}` (or "
            f"{sys.executable} -m graft.hosts {framework}) builds it for {FRAMEWORKS[framework]} {version}")


def _build_tree() -> pathlib.Path:
    """The build folder whose package this is, if it is one: its Python files are links into the source tree."""
    return _HERE.parent.parent


def _sources(framework: str) -> pathlib.Path:
    """What is compiled: a wheel carries it, a build tree has it in its source tree."""
    carried = _HERE / "hosts" / framework
    return carried if carried.is_dir() else pathlib.Path(__file__).resolve().parents[2] / "src" / "host" / framework


def supported(framework: str) -> list[str]:
    """The versions of the framework that were tried, oldest first: 2.9.1. Empty where no list says so."""
    listed = _sources(framework) / "versions.txt"
    lines = listed.read_text().splitlines() if listed.is_file() else []
    return [line.split()[0] for line in lines if line[:1].isdigit()]


def untried(framework: str, version: str) -> str:
    """What to say of a version that is none of those, and newer than all; else nothing."""
    def numbers(text: str) -> list[int]:
        return [int(each) for each in re.findall(r"\d+", text)[:2]]
    known = supported(framework)
    if not known or numbers(version) <= numbers(known[-1]):
        return ""
    return (f"{FRAMEWORKS[framework]} {version.partition('+')[0]} is newer than {known[-1]}, the newest version that "
            "Graft was tried with")


def _package_of(framework: str) -> pathlib.Path:
    """The framework's folder in this environment, found without importing it."""
    found = importlib.util.find_spec(framework)
    if found is None or not found.submodule_search_locations:
        raise BuildError(f"{sys.executable} has no {FRAMEWORKS[framework]}: pip install {framework}, or give --package")
    return pathlib.Path(found.submodule_search_locations[0])


def _version_of(package: pathlib.Path) -> str:
    """What the framework's folder says of its version; empty if it says nothing."""
    file = package / "version.py"
    found = re.search(r"^__version__ = '(.+?)'", file.read_text(), re.M) if file.is_file() else None
    return found[1] if found else ""


def _need_tools() -> None:
    """Raises BuildError naming the first tool that is missing."""
    for tools, remedy in ((("cmake",), "pip install graft-compiler[host]"),
                          (("ninja", "ninja-build"), "pip install graft-compiler[host]"),
                          ((os.environ.get("CXX", "c++"), "g++", "clang++"), "install g++ 12 or newer")):
        if not any(map(shutil.which, tools)):
            raise BuildError(f"there is no {tools[0]} on the PATH: {remedy}")


def _cause(printed: str) -> str:
    """What a failed cmake or compiler printed that says why: its errors, else its last lines."""
    if configuring := re.search(r"CMake Error at [^\n]*\n(.*?)\n\n", printed, re.S):
        return " ".join(configuring[1].split())
    lines = printed.splitlines()
    return "\n".join([line for line in lines if "error" in line.lower()][:20] or lines[-20:])


def _run(*command: str | os.PathLike[str]) -> None:
    """Runs a command quietly; raises BuildError with the cause if it fails."""
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    if done.returncode:
        raise BuildError(f"{command[0]} failed: {_cause(done.stdout)}")


def build(framework: str, package: str | os.PathLike[str] | None = None,
          output: str | os.PathLike[str] | None = None) -> pathlib.Path:
    """Compiles the library for the framework in `package` (its folder; that of this environment if None) and gives its
    path: in the folder `output`, else beside the package's libraries. Nothing is written there unless all went well.
    Raises BuildError."""
    name = library_name(framework)
    folder = pathlib.Path(output) if output else places(framework)[0 if (_HERE / "lib").is_dir() else 1].parent
    if not os.access(folder, os.W_OK):
        raise BuildError(f"{folder} cannot be written to: give --output FOLDER, and load the library by its path")
    package = pathlib.Path(package) if package else _package_of(framework)
    _need_tools()
    with tempfile.TemporaryDirectory(prefix="graft-host-") as made:
        scratch = pathlib.Path(made)
        graft = _HERE  # a wheel is an installed tree
        if not (_HERE / "lib" / "cmake").is_dir():
            graft = scratch / "graft"
            _run("cmake", "--install", _build_tree(), "--prefix", graft)
        _run("cmake", "-G", "Ninja", "-S", _sources(framework), "-B", scratch / "build",
             f"-DCMAKE_PREFIX_PATH={graft}", f"-DGRAFT_{framework.upper()}={package}", "-DCMAKE_INSTALL_LIBDIR=lib")
        _run("cmake", "--build", scratch / "build")
        _run("cmake", "--install", scratch / "build", "--prefix", scratch / "made")
        if graft == _HERE and folder == _HERE / "lib":  # with its headers and find_package(graft_torch)
            shutil.copytree(scratch / "made", _HERE, dirs_exist_ok=True, ignore=shutil.ignore_patterns(name))
        placed = folder / f".{name}.{os.getpid()}"
        shutil.copy2(scratch / "made" / "lib" / name, placed)
        os.replace(placed, folder / name)  # a process that has the old one open keeps it
    return folder / name


def main() -> int:
    """The command graft-host."""
    parser = argparse.ArgumentParser("graft-host", description=__doc__.split("\n", maxsplit=1)[0], epilog=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=FRAMEWORKS, nargs="?")
    parser.add_argument("--prefix", action="store_true", help="print the folder for CMAKE_PREFIX_PATH of C++ programs")
    parser.add_argument("--package", metavar="FOLDER", help="the framework's folder, such as SITE_PACKAGES/torch; "
                                                            "that of this environment if it is not given")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="where the library goes; beside the package's own if "
                                                                 "it is not given")
    chosen = parser.parse_args()
    if chosen.prefix and not chosen.framework and (_HERE / "lib" / "cmake").is_dir():
        print(_HERE)
        return 0
    if chosen.prefix or not chosen.framework:
        parser.error("name a framework, or give --prefix alone, in an installed wheel")
    try:
        package = pathlib.Path(chosen.package) if chosen.package else _package_of(chosen.framework)
        print(build(chosen.framework, package, chosen.output))
        if note := untried(chosen.framework, _version_of(package)):
            print(f"graft-host: {note}", file=sys.stderr)
    except (BuildError, OSError) as error:
        print(f"graft-host: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
