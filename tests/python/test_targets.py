# SPDX-License-Identifier: Apache-2.0
"""Compiling for a machine that is not here: the engine is described and saved, and runs where it was made for."""

import os
import subprocess
import sys

import graft
import numpy as np
import pytest
from conftest import BUILD, ROOT, expected, layer_model

EMULATOR = BUILD / "emulator"
RUN = """
import pickle
import sys
import numpy as np
import graft
engine = graft.load(sys.argv[1])
assert engine.device == "cuda"
assert graft.Engine.from_bytes(engine.to_bytes()).device == pickle.loads(pickle.dumps(engine)).device == "cuda"
assert engine.describe()["ways"]["generated"] == 1, engine.describe()["ways"]
np.save(sys.argv[3], engine(np.load(sys.argv[2])))
"""


def compiled(target):
    return graft.compile(layer_model(), dims={"batch": (1, 8, 64)}, target=target, tune="off")


def test_an_engine_for_another_machine_is_told_of_and_not_run(x):
    engine = compiled("sm_90a")
    assert "kind=cuda" in engine.describe()["target"] and engine.output_shapes({"x": (5, 4)}) == {"y": (5, 3)}
    for call in (lambda: engine(x), lambda: graft.Session(engine), lambda: graft.bench(engine, seconds=0.01),
                 engine.profile):
        with pytest.raises(graft.UnsupportedError, match="compiled for another machine.*save it"):
            call()


def test_its_plan_serves_this_machine_too(x, tmp_path):
    compiled("sm_90a").save(tmp_path / "gpu.graft")
    np.testing.assert_allclose(graft.load(tmp_path / "gpu.graft")(x), expected(x), rtol=1e-5, atol=1e-5)


def test_one_plan_for_several_machines_runs_here_when_the_first_is_this_one(x, tmp_path):
    engine = compiled(["native", "sm_90a", "x86-64-v4"])
    np.testing.assert_allclose(engine(x), expected(x), rtol=1e-5, atol=1e-5)
    engine.save(tmp_path / "plan.graft")
    done = subprocess.run([BUILD / "bin/graft", "inspect", tmp_path / "plan.graft", "--no-run", "--losses", "--target",
                           "sm_90a"], capture_output=True, text=True, check=True)
    assert "sm_90a" in done.stdout and "made for" not in done.stderr, done.stderr


@pytest.mark.skipif(not (EMULATOR / "libcuda.so.1").exists(), reason="this build has no emulated GPU")
def test_a_plan_for_a_gpu_made_without_one_runs_there(x, tmp_path):
    compiled("sm_90a").save(tmp_path / "gpu.graft")
    np.save(tmp_path / "x.npy", x)
    preload = f"{EMULATOR}/libcuda.so.1:{EMULATOR}/libnvrtc.so.13"
    environment = {**os.environ, "LD_PRELOAD": preload, "GRAFT_CACHE": "/dev/null", "GRAFT_DISABLE": "cublaslt,cudnn",
                   "PYTHONPATH": str(BUILD / "python")}
    done = subprocess.run([sys.executable, "-c", RUN, *(str(tmp_path / name) for name in ("gpu.graft", "x.npy", "y"))],
                          env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "made for" not in done.stderr, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(x), rtol=1e-5, atol=1e-5)
    bench = [BUILD / "bin/graft", "bench", tmp_path / "gpu.graft", "--iterations", "3", "--warmup", "1"]
    done = subprocess.run(bench, env=environment, capture_output=True, text=True, check=True)
    assert "inputs and outputs on the device" in done.stdout and "made for" not in done.stderr, done.stdout
    done = subprocess.run([*bench, "--device", "cpu"], env=environment, capture_output=True, text=True, check=True)
    assert "threads" in done.stdout and "choose the device" in done.stderr, done.stderr


@pytest.mark.parametrize("target, kind, said", [("sm_12", graft.InvalidArgumentError, "sm_12"),
                                                (7, graft.InvalidArgumentError, "target is 7")])
def test_what_is_no_target_is_said(target, kind, said):
    with pytest.raises(kind, match=said):
        compiled(target)
