# SPDX-License-Identifier: Apache-2.0
"""What `./dev update` says of files that it renewed, and which tests it has renew them."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/tests"))

import update  # noqa: E402

DIGESTS = """// heading
// case: Abs
operator Abs
// expect
fused      1
sm_90a     2 3

// case: Neg
operator Neg
// expect
fused      4
"""


def test_digests_are_told_by_operator_with_the_machines_that_differ():
    after = DIGESTS.replace("2 3", "2 5") + "\n// case: Sin\noperator Sin\n// expect\nfused      7\n"
    path = "tests/golden/kernels/digests.graft"
    assert update.difference({path: DIGESTS}, {path: after}) == ["Abs: digests (sm_90a)", "Sin: digests (new)"]
    assert update.difference({path: after}, {path: DIGESTS}) == ["Abs: digests (sm_90a)", "Sin: digests (gone)"]


def test_an_operator_has_one_line_for_all_its_files():
    paths = ["tests/golden/kernels/digests.graft", "tests/golden/refusals/refusals.graft"]
    after = DIGESTS.replace("2 3", "2 5")
    assert update.difference(dict.fromkeys(paths, DIGESTS), dict.fromkeys(paths, after)) == [
        "Abs: digests (sm_90a), refusals (changed)"]


def test_passes_are_told_with_their_cases_and_pages_with_their_lines():
    path, page = "tests/golden/passes/fold_constants.graft", "docs/operators.md"
    lines = update.difference({path: DIGESTS, page: "a\nb\n"}, {path: DIGESTS.replace("4", "5"), page: "a\nc\nd\n"})
    assert lines == ["docs/operators.md: 2 lines", "fold_constants: Neg (changed)"]


def test_nothing_is_told_of_what_is_as_it_was():
    assert not update.difference({"docs/x.md": "a"}, {"docs/x.md": "a"})


def test_names_choose_the_tests_that_renew_their_cases():
    chosen = [tests for _, tests in update.filters(["Abs", "fold_constants"])]
    assert chosen[0] == "KernelDigests.*", "cases of new operators come first"
    assert chosen[1] == "Abs.*:*.Abs:fold_constants.*:*.fold_constants"
    assert "*Refusals*/Abs" in chosen[2].split(":")
    assert [tests for _, tests in update.filters([])][1:3] == ["*", "*Refusals*/*:*OtherAttributes*/*"]


def test_what_is_derived_is_found():
    found = update.snapshot()
    assert {"tests/golden/kernels/digests.graft", "docs/operators.md", "README.md"} <= found.keys()
    assert "Abs" in update.cases(found["tests/golden/kernels/digests.graft"])
