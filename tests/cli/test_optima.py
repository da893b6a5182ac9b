# SPDX-License-Identifier: Apache-2.0
"""Several optima of a dimension."""

import json

import numpy as np
import pytest

QUICK = ["--tune", "off"]


@pytest.fixture(name="plan")
def fixture_plan(graft, model):
    done = graft("compile", "model.onnx", "-o", "plan.graft", *QUICK, "--dim", "batch=1:8,1,32:64")
    assert done.returncode == 0, done.stderr
    return "plan.graft"


@pytest.mark.parametrize("batch, optimum", [(1, 1), (5, 8), (8, 8), (9, 32), (64, 32)])
def test_inspect_shows_the_optimum_that_a_run_takes(graft, plan, batch, optimum):
    for words in (["--runs", "2"], ["--no-run"]):
        done = graft("inspect", plan, "--size", f"batch={batch}", *words)
        assert done.returncode == 0, done.stderr
        assert f"\noptimum batch={optimum}" in done.stdout and "batch=8; batch=1; batch=32" in done.stdout
    report = json.loads(graft("inspect", plan, "--size", f"batch={batch}", "--no-run", "--json", "-").stdout)
    assert report["optimum"] == {"batch": optimum}
    assert [each["sizes"]["batch"] for each in report["optima"]] == [8, 1, 32]
    done = graft("inspect", plan, "--losses", "--runs", "2", "--size", f"batch={batch}")
    assert done.returncode == 0, done.stderr


def test_without_sizes_it_is_the_main_one_and_other_plans_say_nothing(graft, plan):
    assert "\noptimum batch=8" in graft("inspect", plan, "--no-run").stdout
    assert "optimum" not in graft("inspect", "model.onnx", *QUICK, "--dim", "batch=1:8:64", "--no-run").stdout


def test_results_are_those_of_one_optimum(graft, plan, tmp_path):
    assert graft("compile", "model.onnx", "-o", "one.graft", *QUICK, "--dim", "batch=1:8:64").returncode == 0
    for batch in (1, 8, 40):
        for name in (plan, "one.graft"):
            done = graft("run", name, "--size", f"batch={batch}", "--seed", "3", "-o", f"{name}.npz")
            assert done.returncode == 0, done.stderr
        one, several = np.load(tmp_path / "one.graft.npz"), np.load(tmp_path / f"{plan}.npz")
        for output in one.files:
            np.testing.assert_allclose(several[output], one[output], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dim", ["batch=1:8,8:64", "batch=1:8,65:64", "batch=1:,:64",
                                 "batch=1:" + ",".join(map(str, range(1, 18))) + ":64"])
def test_wrong_optima_are_refused(graft, model, dim):
    done = graft("compile", "model.onnx", *QUICK, "--dim", dim)
    assert done.returncode == 2 and "--dim" in done.stderr, (done.returncode, done.stderr)
