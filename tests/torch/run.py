# SPDX-License-Identifier: Apache-2.0
"""Graft inside PyTorch: installs Graft, builds the host against what was installed and nothing else, a program against
both, and runs tests/torch/test_*.py in torch's environment. Arguments go to pytest."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build"))
ENVIRONMENT = pathlib.Path(os.environ.get("GRAFT_TORCH_ENVIRONMENT", ROOT / ".deps" / "torch"))
LIBRARY = "libgraft_torch.so"


def run(*command, **options):
    """Runs a command; its failure is the test's."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}")


def build_host(torch):
    """libgraft_torch.so from the installed headers, put beside the libraries of the build tree, where the package
    looks, and tests/torch/program. The sources are copied, so that they see nothing of the tree that they come from."""
    prefix, sources, folder = (BUILD / "torch" / name for name in ("prefix", "sources", "host"))
    run("cmake", "--install", BUILD, "--prefix", prefix)
    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "host" / "torch", sources)
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    ccache = {**os.environ, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}
    run("cmake", "-G", "Ninja", "-S", sources, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DGRAFT_TORCH={torch}",
        *launcher)
    run("cmake", "--build", folder, env=ccache)
    run("cmake", "--install", folder, "--prefix", prefix)
    program = BUILD / "torch" / "program"
    run("cmake", "-G", "Ninja", "-S", ROOT / "tests" / "torch" / "program", "-B", program,
        f"-DCMAKE_PREFIX_PATH={prefix}", *launcher)
    run("cmake", "--build", program, env=ccache)
    shutil.copy2(next(prefix.glob(f"lib*/{LIBRARY}")), BUILD / "lib" / LIBRARY)


def main():
    """Builds, then tests."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.is_file():
        print(f"SKIPPED: there is no torch in {ENVIRONMENT}: ./dev test torch installs it")
        return 0
    torch = next(ENVIRONMENT.glob("lib/python*/site-packages/torch"))
    start = time.monotonic()
    build_host(torch)
    print(f"torch: {LIBRARY} built from the installed headers in {time.monotonic() - start:.0f} s", flush=True)
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "GRAFT_BUILD": str(BUILD)}
    named = any(pathlib.Path(word.partition("::")[0]).exists() for word in sys.argv[1:])
    chosen = [*sys.argv[1:], *([] if named else [ROOT / "tests" / "torch"])]
    return subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen], env=environment,
                          check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
