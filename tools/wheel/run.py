# SPDX-License-Identifier: Apache-2.0
"""`./dev wheel`: packs what build/ has into wheels of the Python package, graft_compiler-VERSION-....whl.

One is for Python 3.11, one (of Python's stable ABI) for 3.12 and everything newer. Only the extension module is
compiled for each; one line says which interpreter is not here.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import audit

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LEAST_GLIBC = (2, 36)  # older ones have not been tried
VERSION_OF = """
import pathlib, sys, sysconfig
print(*sys.version_info[:2], pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())
"""
BUILD = """
import ast, sys
from scikit_build_core.build import build_wheel
print(build_wheel(sys.argv[1], ast.literal_eval(sys.argv[2])))
"""
KEPT = ("CMAKE_CXX_COMPILER", "CMAKE_CXX_COMPILER_LAUNCHER", "CMAKE_BUILD_TYPE")


def build_folder():
    """The build that is packed."""
    return pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")).resolve()


def version_of(python):
    """(3, 12) of an interpreter that runs and has its headers, else None."""
    done = subprocess.run([python, "-c", VERSION_OF], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    return (int(words[0]), int(words[1])) if done.returncode == 0 and words[2] == "True" else None


def find_interpreters(named):
    """{"cp311": path, "cp312-abi3": path}, as far as there are such interpreters with headers: those named, this one,
    and those of the PATH and of pyenv."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    named = [os.path.abspath(python) if os.sep in python else python for python in named]  # another folder calls it
    candidates = [*named, sys.executable]
    for minor in range(11, 20):
        candidates += filter(None, [shutil.which(f"python3.{minor}")])
        candidates += sorted(map(str, pyenv.glob(f"3.{minor}.*/bin/python3")))
    found = {}
    for python in dict.fromkeys(candidates):
        version = version_of(python)
        kind = None if version is None or version < (3, 11) else "cp311" if version == (3, 11) else "cp312-abi3"
        if kind and kind not in found:
            found[kind] = python
    return found


def packed_files(build):
    """The binaries of the build that go into a wheel."""
    return [path for path in [build / "bin/graft", *build.glob("lib/libgraft*.so*")]
            if not path.is_symlink() and "_test" not in path.name]


def settings_of(build, name, glibc):
    """What scikit-build-core is told, beside python/pyproject.toml."""
    cache = (build / "CMakeCache.txt").read_text()
    kept = {f"cmake.define.{key}": match[1] for key in KEPT
            if (match := re.search(rf"^{key}:\w+=(.+)$", cache, re.MULTILINE))}
    tag = f"{'cp311-cp311' if name == 'cp311' else name}-manylinux_{glibc[0]}_{glibc[1]}_x86_64"
    return kept | {"wheel.tags": [tag], "cmake.source-dir": str(HERE), "build.targets": "graft_python",
                   "build-dir": str(build / f"wheel-{name}"), "cmake.define.GRAFT_BUILD": str(build)}


def build_wheel(python, name, build, output):
    """Packs a wheel for an interpreter; gives its path."""
    files = packed_files(build)
    glibc = max(LEAST_GLIBC, audit.glibc_of(files))
    packages = [sysconfig.get_path("purelib"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(packages), "PYTHONDONTWRITEBYTECODE": "1",
                   "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}
    done = subprocess.run([python, "-c", BUILD, output, repr(settings_of(build, name, glibc))], cwd=ROOT / "python",
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"wheel: {name} could not be built:\n{done.stdout[-6000:]}")
    return pathlib.Path(output) / done.stdout.splitlines()[-1]


def main():
    """Packs the wheels, and says how large they are."""
    parser = argparse.ArgumentParser(prog="./dev wheel", description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, help="the folder for the wheels (build/wheel)")
    parser.add_argument("--python", action="append", default=[], metavar="PROGRAM",
                        help="an interpreter to pack for, beside those that are found")
    parser.add_argument("--only", choices=["cp311", "cp312-abi3"], help="one of the two")
    options = parser.parse_args()
    build = build_folder()
    output = (options.output or build / "wheel").resolve()
    output.mkdir(parents=True, exist_ok=True)
    interpreters = find_interpreters(options.python)
    for name in [options.only] if options.only else ["cp311", "cp312-abi3"]:
        if name not in interpreters:
            print(f"{name}: skipped, there is no Python {'3.11' if name == 'cp311' else '3.12 or newer'} with headers")
            continue
        wheel = build_wheel(interpreters[name], name, build, output)
        if faults := list(audit.faults_of(wheel)):
            raise SystemExit("\n".join(f"wheel: {wheel.name}: {fault}" for fault in faults))
        print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB, packed by {interpreters[name]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
