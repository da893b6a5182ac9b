# SPDX-License-Identifier: Apache-2.0
"""docs/FIRST_OPERATORS.md lists operators that have no converter yet, by the derived pages."""

import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("heading, page", [("PyTorch", "aten_operators"), ("TensorFlow", "tensorflow_operators"),
                                           ("MXNet", "mxnet_operators")])
def test_listed_operators_have_no_converter(heading, page):
    text = (DOCS / "FIRST_OPERATORS.md").read_text()
    section = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    listed = {name for row in re.findall(r"^\| \w.*$", section, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)}
    rows = re.findall(r"^\| `([^`]+)` \|[^|]*\| yes", (DOCS / f"{page}.md").read_text(), re.MULTILINE)
    converted = {name for row in rows for name in (row, row.split(".")[0])}
    assert len(listed) > 20 and len(converted) > 100
    assert not listed & converted, "these are converted now: remove them from docs/FIRST_OPERATORS.md"


def test_names_of_mxnet_exist():
    text = (DOCS / "FIRST_OPERATORS.md").read_text().partition("## MXNet")[2]
    known = set(re.findall(r"`([^`]+)`", (DOCS / "mxnet_operators.md").read_text()))
    assert not set(re.findall(r"`([^`]+)`", text)) - known
