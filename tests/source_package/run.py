# SPDX-License-Identifier: Apache-2.0
"""`pip install ./python` from nothing: a copy of the sources without anything built or installed beside them, and an
empty virtual environment. pip brings what pyproject.toml asks for; compilers and libraries are the system's. The
package then compiles and runs a model, and holds the licences of what it carries."""

import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")).resolve()
SOURCES = ("CMakeLists.txt", "LICENSE", "THIRD_PARTY_NOTICES.md", "cmake", "docs", "include", "python", "src", "tools")
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/cli"), str(ROOT / "tools/wheel")]

import audit  # noqa: E402
from support.command import run  # noqa: E402

PROGRAM = """
import numpy as np
import graft

engine = graft.compile("model.onnx", dims={"batch": (1, 2, 4)}, tune="off")
ways = engine.describe()["ways"]
assert ways["interpreter"] == 0, ways
np.save("y.npy", engine(np.load("x.npy")))
print(graft.__file__)
"""


def environment_of(sources):
    """What pip is called with: the compiler of the build under test, whose objects ccache has."""
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)[1]
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    launcher = {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache"} if shutil.which("ccache") else {}
    return {**variables, **launcher, "CXX": compiler, "CCACHE_BASEDIR": str(sources), "CCACHE_NOHASHDIR": "1"}


def main():
    """Copies, installs and tries."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch).resolve()
        (sources := folder / "sources").mkdir()
        for name in SOURCES:
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, sources / name)
        run(sys.executable, "-m", "venv", folder / "environment")
        python = folder / "environment/bin/python"
        start = time.monotonic()
        run(python, "-m", "pip", "install", "--disable-pip-version-check", "./python", cwd=sources,
            env=environment_of(sources))
        seconds = time.monotonic() - start
        import numpy as np
        import onnx
        from conftest import expected, two_layers
        onnx.save(two_layers(), folder / "model.onnx")
        np.save(folder / "x.npy", x := np.arange(12, dtype=np.float32).reshape(3, 4))
        clean = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(folder)}
        package = pathlib.Path(run(python, "-c", PROGRAM, cwd=folder, env=clean).strip()).parent
        if not package.is_relative_to(folder):
            sys.exit(f"source_package: {package} is not the installed one")
        np.testing.assert_allclose(np.load(folder / "y.npy"), expected(two_layers(), x), rtol=1e-5, atol=1e-5)
        print(run("graft", "--version", cwd=folder, env=clean), end="")
        texts = [str(path) for path in package.glob("licences/**/*")]
        if missing := audit.missing_licences(audit.binaries(package), texts):
            sys.exit(f"source_package: there is no licence of {', '.join(missing)}")
    print(f"installed from source in {seconds:.0f} s")


if __name__ == "__main__":
    main()
