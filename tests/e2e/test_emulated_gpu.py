# SPDX-License-Identifier: Apache-2.0
"""Whole networks on an emulated GPU, which looks at each access to memory, beside the same networks on this CPU.

Generated kernels only, by the schedules of the cost model: blocks with roles, teams, short products, windows over
channels, attention, normalisation. The GPU has few multiprocessors, so that blocks go on to further tiles.
"""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "models"))

import minilm  # noqa: E402
import networks  # noqa: E402
from network_builder import cached  # noqa: E402

BUILD = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build"))
COMMAND = BUILD / "bin" / "graft"
EMULATOR = BUILD / "emulator"
LAYERS = 2

NETWORKS = {
    "mobilenet_v2": (lambda: networks.cached_path("mobilenet_v2"), {"batch": 2}),
    "minilm": (lambda: cached(f"minilm-seeded-{LAYERS}", lambda: minilm.seeded(layers=LAYERS)),
               {"batch": 2, "length": 45}),
}


@pytest.mark.skipif(not (EMULATOR / "libcuda.so.1").exists(), reason="this build has no emulated GPU")
@pytest.mark.parametrize("name, precision, tolerance", [("mobilenet_v2", "fp16", 2e-2), ("minilm", "fp16", 2e-2),
                                                        ("minilm", "fp32", 2e-4)])
def test_gives_what_the_cpu_gives(name, precision, tolerance, tmp_path):
    model, sizes = NETWORKS[name]
    words = [word for size in sizes.items() for word in ("--size", "=".join(map(str, size)))]
    known = [word for size in sizes.items() for word in ("--dim", "=".join(map(str, size)))]
    expected = tmp_path / "expected.npz"
    run = [COMMAND, "run", model(), "--seed", "5"]
    subprocess.run([*run, *words, "--tune", "off", "-o", expected], check=True, stdout=subprocess.DEVNULL)
    emulated = {**os.environ, "GRAFT_CACHE": "/dev/null", "GRAFT_DISABLE": "cublaslt,cudnn",
                "LD_PRELOAD": f"{EMULATOR}/libcuda.so.1:{EMULATOR}/libnvrtc.so.13"}
    on_gpu = [*run, *known, "--device", "cuda", "--tune", "off", "--precision", precision]
    done = subprocess.run([*on_gpu, "-o", tmp_path / "got.npz"], env=emulated, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    got = np.load(tmp_path / "got.npz")
    for output, wanted in np.load(expected).items():
        assert np.abs(got[output] - wanted).max() <= tolerance * np.abs(wanted).max(), output
