# SPDX-License-Identifier: Apache-2.0
"""Folders of `graft plugin` for a framework, made and built in that framework's environment, which has no ONNX."""

import os
import pathlib
import shutil
import subprocess

import pytest

BUILD = pathlib.Path(os.environ["GRAFT_BUILD"])
COMMAND = BUILD / "bin" / "graft"

# Two results, one of them from two kernels' worth of work, and a size that is twice another.
MODEL = """graph "net" {
  opset "" 28
  input %x: f32[batch, length, 48]
  input %scale: f32[48]
  input %bias: f32[48]
  %y: f32[batch, length, 48], %mean: f32[batch, length, 1] = LayerNormalization "normalise" (%x, %scale, %bias)
  %twice: f32[batch, 2*length, 48] = Concat "twice" (%y, %x) {axis = 1}
  output %twice
  output %mean
}
"""


def run(words, **options):
    """A program that has to succeed; gives its output."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600, check=False,
                          **options)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def toolkit_include():
    """The folder of cuda.h; skips where there is none."""
    for folder in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if folder and (pathlib.Path(folder) / "include/cuda.h").exists():
            return pathlib.Path(folder) / "include"
    pytest.skip("no CUDA toolkit, whose headers the kernels' loader includes: set CUDA_HOME")


def made_folder(framework, folder):
    """The model's two nodes as one operator `Twice`, for sizes of a batch of 1 to 64."""
    text, model = folder / "net.txt", folder / "net.onnx"
    text.write_text(MODEL)
    run([COMMAND, "compile", text, "--compile-from", "import", "--compile-to", "import", "-o", model])
    run([COMMAND, "plugin", model, "--region", "twice,mean..x,scale,bias", "--name", "Twice", "--dim", "batch=1:8:64",
         "--for", framework, "-o", folder / "made"])
    return folder / "made"


def built(folder, *settings):
    """Builds a folder by its own project, without a warning."""
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    run(["cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", f"-DCUDA_INCLUDE={toolkit_include()}",
         "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", *settings, *launcher])
    run(["cmake", "--build", folder / "build"])
    return folder
