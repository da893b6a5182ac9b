# SPDX-License-Identifier: Apache-2.0
"""The tests of arrays on a GPU, on an emulated one: those that need no framework."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT

EMULATOR = BUILD / "emulator"


@pytest.mark.skipif(not (EMULATOR / "libcuda.so.1").exists(), reason="this build has no emulated GPU")
def test_arrays_on_an_emulated_gpu():
    environment = {**os.environ, "GRAFT_CACHE": "/dev/null", "GRAFT_DISABLE": "cublaslt,cudnn",
                   "LD_PRELOAD": f"{EMULATOR}/libcuda.so.1:{EMULATOR}/libnvrtc.so.13"}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                           pathlib.Path(__file__).with_name("test_device.py")],
                          env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) >= 20, done.stdout
