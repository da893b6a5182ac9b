# SPDX-License-Identifier: Apache-2.0
"""The notebooks of examples/ run from top to bottom, and are kept without results."""

import ast
import contextlib
import io
import json

import pytest
from conftest import ROOT

NOTEBOOKS = sorted(ROOT.glob("examples/**/*.ipynb"))


def run_cell(source, where, names):
    """What a notebook does with a cell: its last line, when it is an expression, is shown."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), where, "exec"), names)
    return eval(compile(ast.Expression(last.value), where, "eval"), names) if last else None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(path.read_text())["cells"]
    names, printed = {"__name__": "__main__"}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        shown = [run_cell("".join(cell["source"]), f"{path.name} cell {number}", names)
                 for number, cell in enumerate(cells) if cell["cell_type"] == "code"]
    assert any(value is not None for value in shown) and "f64 was given" in printed.getvalue()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_results(path):
    notebook = json.loads(path.read_text())
    assert notebook["nbformat"] == 4 and len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None


def test_there_is_a_notebook():
    assert NOTEBOOKS
