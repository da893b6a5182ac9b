# SPDX-License-Identifier: Apache-2.0
"""The tutorials of docs/tutorials for PyTorch run from top to bottom, as they stand."""

import pathlib
import re

import pytest

TUTORIALS = pathlib.Path(__file__).resolve().parents[2] / "docs/tutorials"


@pytest.mark.parametrize("name", ["image_classifier"])
def test_a_tutorial_runs_as_it_stands(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (TUTORIALS / f"{name}.md").read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    names = {"__name__": "__main__"}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{name}.md, block {number}", "exec"), names)
