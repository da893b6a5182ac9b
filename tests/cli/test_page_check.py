# SPDX-License-Identifier: Apache-2.0
"""What the check of pages finds, and what it leaves alone."""

import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools/checks"))

import check_pages  # noqa: E402

PAGE = ROOT / "docs/README.md"


@pytest.mark.parametrize("text, fault", [
    ("see [there](NOWHERE.md)", "dead link"),
    ("see [there](SERVING.md#no-such-heading)", "a heading that SERVING.md does not have"),
    ("`src/base/no_such_file.h`", "there is no src/base/no_such_file.h"),
    ("```\n./dev fly\n```", "no command 'fly'"),
    ("```\ngraft fly model.onnx\n```", "no command 'fly'"),
    ("`graft serve model.graft --wings 2`", "graft serve has no option --wings"),
])
def test_what_does_not_exist_is_found(text, fault):
    [(_, message)] = check_pages.page_faults(PAGE, text)
    assert fault in message


@pytest.mark.parametrize("text", [
    "[there](SERVING.md#five-commands), [elsewhere](https://example.org/NOWHERE.md)",
    "`src/ops/philox`, `src/host/NAME`", "`graft run model.onnx --tune off --reference interpreter`",
    "```\ngraft compile model.onnx -o a.graft | other --wings\n```", "./dev test -R ops",
])
def test_what_exists_is_left_alone(text):
    assert not list(check_pages.page_faults(PAGE, text))
