# SPDX-License-Identifier: Apache-2.0
"""Kernels beside a plan: exported, imported where there is no code generator, and run there."""

import os
import shutil

import numpy as np
import pytest
from conftest import COMMAND, expected, two_layers


@pytest.fixture
def bare(tmp_path):
    """A copy of the command without code generators."""
    folder = tmp_path / "bare"
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    shutil.copy(COMMAND, folder / "bin/graft")
    for module in (COMMAND.parent.parent / "lib").glob("*.so*"):
        if module.name.startswith(("libgraft_onednn", "libdnnl", "libgomp")):
            shutil.copy(module, folder / "lib")
    return folder / "bin/graft"


@pytest.fixture
def exported(graft, model):
    """The small model as plan, with its kernels in a file."""
    assert graft("compile", model, "-o", "plan.graft", "--tune", "off", "--disable", "onednn").returncode == 0
    done = graft("cache", "export", "plan.graft", "-o", "plan.kernels")
    assert done.returncode == 0, done.stderr
    assert "units of kernels" in done.stdout


def test_kernels_run_where_there_is_no_code_generator(graft, model, tmp_path, exported, bare):
    environment = {**os.environ, "GRAFT_CACHE": str(tmp_path / "production")}
    np.save(tmp_path / "x.npy", x := np.arange(12, dtype=np.float32).reshape(3, 4))
    run = ("run", "plan.graft", "--input", "x=x.npy", "-o", "y.npy")

    def bare_graft(*words):
        return graft(*words, env=environment, executable=str(bare))
    without = bare_graft(*run)
    assert without.returncode == 0 and "interpreter" in without.stderr
    assert "code that will run" in bare_graft("cache", "import", "plan.kernels").stderr
    imported = bare_graft("cache", "import", "plan.kernels", "--trust")
    assert imported.returncode == 0, imported.stderr
    done = bare_graft(*run)
    assert done.returncode == 0 and done.stderr == ""
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(two_layers(), x), rtol=1e-5, atol=1e-5)


def test_what_cannot_be_used_is_refused(graft, tmp_path, exported):
    whole = (tmp_path / "plan.kernels").read_bytes()
    (tmp_path / "cut.kernels").write_bytes(whole[:-1])
    (tmp_path / "other.kernels").write_bytes(b"something else")
    for name in ("cut.kernels", "other.kernels", "plan.graft"):
        done = graft("cache", "import", name, "--trust")
        assert done.returncode == 1 and name in done.stderr and "export" in done.stderr
    shut = {**os.environ, "GRAFT_CACHE": "/proc/self"}
    done = graft("cache", "import", "plan.kernels", "--trust", env=shut)
    assert done.returncode == 1 and "GRAFT_CACHE" in done.stderr
    done = graft("cache", "export", "plan.graft", "-o", "plan.graft")
    assert done.returncode == 2 and (tmp_path / "plan.graft").stat().st_size > 1000
