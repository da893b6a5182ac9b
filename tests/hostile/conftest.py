# SPDX-License-Identifier: Apache-2.0
"""The command as built, within bounds of processor time and memory."""

import os
import pathlib
import resource
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COMMAND = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")) / "bin" / "graft"
MEGABYTES = 1500


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """A kernel cache of the tests' own."""
    os.environ["GRAFT_CACHE"] = str(tmp_path_factory.mktemp("cache") / "kernels")


@pytest.fixture
def bounded(tmp_path):
    """Runs the command in a folder of the test's own; gives what it said and whether it failed."""
    def run(*words, seconds=20, environment=None):
        def limit():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            resource.setrlimit(resource.RLIMIT_AS, (100 << 30, 100 << 30))

        with tempfile.TemporaryFile() as output:
            started = subprocess.Popen([str(COMMAND), *map(str, words)], cwd=tmp_path, stdin=subprocess.DEVNULL,
                                       env=os.environ | (environment or {}),
                                       stdout=output, stderr=subprocess.STDOUT, preexec_fn=limit)
            _, status, usage = os.wait4(started.pid, 0)
            started.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            said = output.read().decode(errors="replace")
        assert started.returncode in (0, 1, 2), f"ended by {started.returncode}: {said[-500:]}"
        assert "internal error" not in said and "Traceback" not in said, said[:500]
        assert usage.ru_maxrss >> 10 <= MEGABYTES, f"{usage.ru_maxrss >> 10} MB"
        return started.returncode, said
    return run


def compiled(bounded, model, *words, **limits):
    return bounded("compile", model, "-o", "made.graft", "--tune", "off", *words, **limits)


def python_says(folder, script, *words):
    pytest.importorskip("numpy")
    if not (COMMAND.parent.parent / "python" / "graft").is_dir():
        pytest.skip("this build has no Python package")
    environment = dict(os.environ, PYTHONPATH=str(COMMAND.parent.parent / "python"))
    done = subprocess.run([sys.executable, "-c", script, *words], cwd=folder, env=environment, capture_output=True,
                          text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-800:]
    return done.stdout.split()
