# SPDX-License-Identifier: Apache-2.0
"""Types and documentation of the package are complete, and true of what is built."""

import ast
import inspect
import os
import pathlib
import re
import subprocess
import sys

import graft
from conftest import BUILD, ROOT
from graft import _graft

PACKAGE = ROOT / "python/graft"


def test_the_types_hold(tmp_path):
    # torch is in an environment of its own.
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--exclude", "graft/(torch|mxnet|tensorflow)/",
                           "--cache-dir", str(tmp_path), str(PACKAGE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_program_is_checked_against_the_types(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import graft\nengine = graft.compile('m.onnx', dims={'batch': 8})\n"
                       "reveal_type(engine.inputs[0].name)\nengine.save(3)\ngraft.load('x', devise='cpu')\n")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(program)],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "MYPYPATH": str(pathlib.Path(PACKAGE).parent)})
    assert 'Revealed type is "builtins.str' in done.stdout or 'Revealed type is "str' in done.stdout, done.stdout
    assert "program.py:4" in done.stdout and "devise" in done.stdout


def test_misspelt_choices_and_an_operator_are_seen_by_the_callers_check(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""from typing import Annotated
import graft
from graft import operators as op
from graft.operators import Tensor

graft.compile("m.onnx", precison="fp16")
graft.compile("m.onnx", precision="int8x")
graft.compile("m.onnx", tune="slow")
graft.check("m.onnx", deadline="long")
graft.compile("m.onnx", precision="bf16", tune="full", deadline=3.5, mode="interpret", tag=["serve"], threads=2)


@graft.operator("example::RootMeanSquare")
def root_mean_square(x: Annotated[Tensor, "T[..., n]"], scale: Annotated[Tensor, "T[n]"], *,
                     epsilon: float = 1e-5) -> Annotated[Tensor, "T[..., n]"]:
    return x / op.sqrt((x * x).sum("n") / op.size("n") + epsilon) * scale
""")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(program)],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "MYPYPATH": str(pathlib.Path(PACKAGE).parent)})
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if "program.py:" in line and "error" in line}
    assert lines == {6, 7, 8, 9}, done.stdout


def stub_functions():
    """{name: number of arguments} of the extension's stub; methods as Class.name, without self."""
    found = {}
    for node in ast.parse((PACKAGE / "_graft.pyi").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = len(node.args.posonlyargs + node.args.args)
        elif isinstance(node, ast.ClassDef):
            for item in (each for each in node.body if isinstance(each, ast.FunctionDef)):
                found[f"{node.name}.{item.name}"] = len(item.args.posonlyargs + item.args.args) - 1
    return found


def built_functions():
    """The same of the extension itself, by the signatures that nanobind keeps."""
    found = {}

    def add(name, function, skipped):
        text = function.__nb_signature__[0][0]
        arguments = re.search(r"\((.*)\) ->", text)[1]
        depth, count = 0, bool(arguments)
        for letter in arguments:
            depth += (letter in "[(") - (letter in "])")
            count += letter == "," and depth == 0
        found[name] = count - skipped - len(re.findall(r"(?:^|, )/(?:,|$)", arguments))

    for name, thing in vars(_graft).items():
        if hasattr(thing, "__nb_signature__"):
            add(name, thing, 0)
        elif inspect.isclass(thing):
            for method, function in vars(thing).items():
                if hasattr(function, "__nb_signature__"):
                    add(f"{name}.{method}", function, 1)
    return found


def test_the_stub_is_that_of_the_extension():
    assert stub_functions() == built_functions()


def test_everything_public_is_documented():
    missing = []
    for name in graft.__all__:
        thing = getattr(graft, name)
        parts = [(name, thing)]
        if inspect.isclass(thing):
            parts += [(f"{name}.{key}", value) for key, value in vars(thing).items()
                      if not key.startswith("_") and (callable(value) or isinstance(value, property))]
        missing += [key for key, value in parts if not inspect.getdoc(value)]
    assert not missing
    assert (BUILD / "python/graft/py.typed").exists()
