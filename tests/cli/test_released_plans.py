# SPDX-License-Identifier: Apache-2.0
"""Plans that versions of Graft have written, kept in tests/cli/released: those that CHANGELOG.md says this version
reads still compute what they did, others are refused by name. `released/write.py` writes those of a version that has
not been released."""

import pathlib
import re

import pytest
from conftest import ROOT

FOLDER = pathlib.Path(__file__).resolve().parent / "released"
CHANGES = (ROOT / "CHANGELOG.md").read_text()
VERSIONS = re.findall(r"^## (\d+\.\d+\.\d+)", CHANGES, re.MULTILINE)
# "Reads plans of 0.1 and 0.2." of the newest version.
READ = re.findall(r"\d+\.\d+", re.search(r"^## [^#]*?Reads plans of ([^\n]*)\n", CHANGES, re.MULTILINE | re.DOTALL)[1])
PLANS = sorted(FOLDER.glob("*/*.graft"))


def test_every_version_has_plans():
    assert VERSIONS[0] == re.search(r"project\(graft VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert {path.parent.name for path in PLANS} == set(VERSIONS)
    assert VERSIONS[0].rpartition(".")[0] in READ


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.parent.name}-{plan.stem}")
def test_plans_compute_what_they_did_or_are_refused(graft, plan):
    words = ["run", plan, "--input", plan.with_suffix(".inputs.npz"), "--reference", plan.with_suffix(".results.npz")]
    done = graft(*words)
    if plan.parent.name.rpartition(".")[0] in READ:
        assert done.returncode == 0, done.stderr + "\nfor a version not yet released: tests/cli/released/write.py"
    else:
        assert done.returncode == 1 and "its format is version" in done.stderr, done.stderr
