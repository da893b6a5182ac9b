# SPDX-License-Identifier: Apache-2.0
"""docs/plugins.md, followed to the letter, as far as it goes without TensorRT."""

import re
import shlex
import subprocess
import sys

import onnx
import workshop

PAGE = (workshop.ROOT / "docs" / "plugins.md").read_text()


def block_with(text):
    [found] = [block for block in re.findall(r"^```(?:python)?\n(.*?)^```", PAGE, re.S | re.M) if text in block]
    return found


def test_the_walk_through_makes_a_library_and_a_model_that_calls_it(headers, tmp_path):
    subprocess.run([sys.executable, "-c", block_with("make_model(")], cwd=tmp_path, check=True, timeout=60)
    make, build, run = block_with("trtexec").splitlines()
    workshop.checked([workshop.COMMAND, *shlex.split(make)[1:]], cwd=tmp_path)
    for words in build.replace("/opt/TensorRT/include", str(headers["11.1"])).split(" && "):
        workshop.checked(shlex.split(words), cwd=tmp_path)
    given = dict(word.lstrip("-").split("=", 1) for word in shlex.split(run)[1:])
    model = onnx.load(tmp_path / given["onnx"])
    onnx.checker.check_model(model)
    assert [node.op_type for node in model.graph.node] == ["Relu", "LayerNorm", "Neg"]
    assert (tmp_path / given["dynamicPlugins"]).exists()
    assert given["shapes"].split(":")[0] == model.graph.input[0].name


def test_the_operator_of_torch_takes_its_inputs_as_the_page_hands_them(tmp_path):
    subprocess.run([sys.executable, "-c", block_with("make_model(")], cwd=tmp_path, check=True, timeout=60)
    make = block_with("--for torch").splitlines()[0]
    workshop.checked([workshop.COMMAND, *shlex.split(make)[1:]], cwd=tmp_path)
    page = (tmp_path / "kernels" / "README.md").read_text()
    assert "- inputs: `h` f32[batch, length, 768], `scale` f32[768], `bias` f32[768]" in page
    assert "kernels.LayerNorm(h, torch.ones_like(h[0, 0]), torch.zeros_like(h[0, 0]))" in block_with("--for torch")
