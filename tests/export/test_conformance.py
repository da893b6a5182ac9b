# SPDX-License-Identifier: Apache-2.0
"""The node cases of the onnx package, imported and written again.

Reading what was written gives the same graph (graft_export_tests compares them), onnx's checker takes it where it takes
the original, and its results are those that the case expects.
"""

import dataclasses
import functools
import importlib.util
import os
import pathlib
import subprocess
import sys

import onnx
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TESTS = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")) / "bin" / "graft_export_tests"
sys.path.insert(0, str(ROOT / "tests/conformance"))
import case_files  # noqa: E402


def conformance():
    """tests/conformance/run.py as a module."""
    spec = importlib.util.spec_from_file_location("conformance_run", ROOT / "tests/conformance/run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The cases whose models were read, with the models as they were written, beside the original cases."""
    models, results = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("written")
    cases = case_files.collect()
    for case in cases:
        (models / f"{case.name}.onnx").write_bytes(case.model.SerializeToString())
    done = subprocess.run([TESTS, "--gtest_filter=*keeps_the_models_of_a_folder", "--gtest_brief=1"],
                          env={**os.environ, "GRAFT_TEST_MODELS": str(models), "GRAFT_TEST_WRITTEN": str(results)},
                          capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return [(case, dataclasses.replace(case, model=onnx.load(results / f"{case.name}.onnx")))
            for case in cases if (results / f"{case.name}.onnx").exists()]


def checker_fault(model):
    """What onnx's checker says against a model, or None."""
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as fault:
        return str(fault)
    return None


def test_the_checker_takes_what_was_written(written):
    checked = [(case, copy.name, checker_fault(copy.model)) for case, copy in written]
    faults = [f"{name}: {fault}" for case, name, fault in checked if fault and not checker_fault(case.model)]
    assert not faults, "\n".join(faults[:20])
    assert len(checked) > 1500


def test_what_was_written_gives_the_expected_results(written):
    run = conformance()
    must_pass = {name for mode, name in run.read_expected() if mode == "interpret"}
    copies = [copy for _, copy in written if copy.name in must_pass]
    assert {copy.name for copy in copies} == must_pass
    judge = functools.partial(run.check, mode="interpret", device="cpu")
    faults = [f"{name}: {fault}" for name, _, fault in run.run_all(copies, judge, os.cpu_count()) if fault]
    assert not faults, "\n".join(faults[:20])
