# SPDX-License-Identifier: Apache-2.0
"""The architectures that no bench was tuned on against ONNX Runtime, in their small forms."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "models"))

import networks  # noqa: E402
from architectures import ARCHITECTURES  # noqa: E402

COMMAND = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")) / "bin" / "graft"
SIZES = {"batch": 2, "length": 9}


@pytest.fixture(scope="module", autouse=True)
def environment(tmp_path_factory):
    """A kernel cache of the tests' own, and the Python that has ONNX Runtime."""
    os.environ["GRAFT_CACHE"] = str(tmp_path_factory.mktemp("cache") / "kernels")
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_small_form_agrees_with_onnxruntime(name, tmp_path):
    import numpy as np
    inputs = ARCHITECTURES[name].small_inputs(batch=SIZES["batch"], seed=1)
    np.savez(tmp_path / "inputs.npz", **inputs)
    model = networks.small_path(name)
    dims = [word for size, value in SIZES.items() for word in ("--dim", f"{size}={value}")
            if size == "batch" or "input_ids" in inputs]
    done = subprocess.run([str(COMMAND), "run", model, "--tune", "off", *dims, "-i", str(tmp_path / "inputs.npz"),
                           "--reference", "onnxruntime"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
