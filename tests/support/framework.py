# SPDX-License-Identifier: Apache-2.0
"""Graft inside a framework: installs Graft, builds the host (src/host/NAME) against what was installed and nothing
else, programs in C++ against both, and runs tests/NAME/test_*.py in the framework's environment, .deps/NAME."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.command import run  # noqa: E402

BUILD = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build"))
CCACHE = {**os.environ, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}


def build(sources, folder, *settings):
    """A CMake project."""
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    run("cmake", "-G", "Ninja", "-S", sources, "-B", folder, *settings, *launcher)
    run("cmake", "--build", folder, env=CCACHE)


def build_host(name, setting, programs, folder_name=None):
    """libgraft_NAME.so from the installed headers, put beside the libraries of the build tree, where the package
    looks; `setting` is the framework's folder for CMake. The sources are copied, so that they see nothing of the tree
    that they come from. `programs`: folders of tests/NAME with projects that use both. `folder_name`: of one version
    among several, torch-2.9.1."""
    library, here = f"libgraft_{name}.so", BUILD / "hosts" / (folder_name or name)
    prefix, sources, folder = (here / part for part in ("prefix", "sources", "host"))
    run("cmake", "--install", BUILD, "--prefix", prefix)
    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "host" / name, sources)
    build(sources, folder, f"-DCMAKE_PREFIX_PATH={prefix}", setting)
    run("cmake", "--install", folder, "--prefix", prefix)
    for program in programs:
        folder = here / program
        build(ROOT / "tests" / name / program, folder, f"-DCMAKE_PREFIX_PATH={prefix}", setting)
    place = BUILD / "lib" / (folder_name or "") / library
    place.parent.mkdir(exist_ok=True)
    shutil.copy2(next(prefix.glob(f"lib*/{library}")), place)
    return library


def environment_of(name):
    """The framework's Python; None where there is none, which is then said."""
    environment = pathlib.Path(os.environ.get(f"GRAFT_{name.upper()}_ENVIRONMENT", ROOT / ".deps" / name))
    python = environment / "bin" / "python"
    listed = (ROOT / "tools" / "deps" / f"environment-{name}.txt").read_text()
    stated = re.search(r"^# python: (\d+)\.(\d+)$", listed, re.M)
    if stated and sys.version_info[:2] > tuple(map(int, stated.groups())):
        print(f"SKIPPED: {name} is for Python up to {'.'.join(stated.groups())}, and this is {sys.version.split()[0]}")
        return None
    if not python.is_file():
        print(f"SKIPPED: there is no {name} in {environment}: ./dev test {name} installs it")
        return None
    return python


def version_of(package):
    """The release that a framework's folder holds: 2.9.1."""
    return re.search(r"^__version__ = '([\d.]+)", (package / "version.py").read_text(), re.M)[1]


def run_tests(name, python, host=None):
    """Runs tests/NAME in the environment; arguments of the command line go to pytest. `host`: the folder where the host
    was built, and programs that use it, where there is one. Returns the exit status."""
    variables = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "GRAFT_BUILD": str(BUILD)}
    if host is not None:
        variables["GRAFT_TEST_HOST"] = str(host)
    named = any(pathlib.Path(word.partition("::")[0]).exists() for word in sys.argv[1:])
    chosen = [*sys.argv[1:], *([] if named else [ROOT / "tests" / name])]
    return subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen], env=variables,
                          check=False).returncode


def test_framework(name, programs=()):
    """Builds, then tests. Returns the exit status."""
    python = environment_of(name)
    if python is None:
        return 0
    package = next(python.parents[1].glob(f"lib/python*/site-packages/{name}"))
    start = time.monotonic()
    named = None if python.parents[1].name == name else f"{name}-{version_of(package)}"
    library = build_host(name, f"-DGRAFT_{name.upper()}={package}", programs, named)
    folder = BUILD / "hosts" / (named or name)
    print(f"{folder.name}: {library} built from the installed headers in {time.monotonic() - start:.0f} s", flush=True)
    return run_tests(name, python, folder)
