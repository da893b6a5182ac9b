# SPDX-License-Identifier: Apache-2.0
"""docs/tutorials/tensorrt_plugin.md, followed to the letter up to where TensorRT is needed."""

import re
import shlex
import subprocess
import sys

import onnx
import workshop

PAGE = (workshop.ROOT / "docs/tutorials/tensorrt_plugin.md").read_text()


def test_the_tutorial_makes_a_plugin_and_a_model_that_calls_it(tmp_path):
    blocks = re.findall(r"^```(python)?\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert [language for language, _ in blocks] == ["python", "", "", ""]
    subprocess.run([sys.executable, "-c", blocks[0][1]], cwd=tmp_path, check=True, timeout=60)
    said = [workshop.checked([workshop.COMMAND, *shlex.split(block)[1:]], cwd=tmp_path) for _, block in blocks[1:]]
    assert len(said) == 3
    [command], picture = blocks[1][1].splitlines(), (workshop.ROOT / "docs/images/tensorrt_check.txt").read_text()
    assert f"$ {command}\n{said[0]}" == picture, "the picture shows other lines: write them into the .txt, ./dev docs"
    kinds = [node.op_type for node in onnx.load(tmp_path / "plugins/model.onnx").graph.node]
    assert "Det" not in kinds and kinds[0] == "Relu" and kinds[-1] == "Neg" and len(kinds) == 3
