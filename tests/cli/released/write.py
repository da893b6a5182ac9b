# SPDX-License-Identifier: Apache-2.0
"""Writes the plans, inputs and results that stay as test data of this version, into a folder of its number:

    python tests/cli/released/write.py

A version's plans may be written again until it is released, and never after."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))

from conftest import COMMAND, two_layers  # noqa: E402

TARGETS = ["--target", "portable", "--target", "x86-64-v4", "--target", "sm_90a"]


def run(*words):
    """Runs a command; its failure ends this one."""
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


def write_plan(folder, name, model, feeds, options):
    """A plan with inputs, and what ONNX Runtime makes of them."""
    run(COMMAND, "compile", model, "-o", folder / f"{name}.graft", "--tune", "off", *options)
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    results = session.run(None, feeds)
    np.savez_compressed(folder / f"{name}.inputs.npz", **feeds)
    np.savez_compressed(folder / f"{name}.results.npz",
                        **dict(zip([output.name for output in session.get_outputs()], results)))


def main():
    """Writes the folder."""
    changes = (ROOT / "CHANGELOG.md").read_text()
    number, released = re.search(r"^## (\d+\.\d+\.\d+)( \(not released\))?", changes, re.MULTILINE).groups()
    if not released:
        sys.exit(f"{number} has been released: its plans stay as they are")
    folder = HERE / number
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(11)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        os.environ["GRAFT_CACHE"] = str(scratch / "cache")
        onnx.save(two_layers(), scratch / "layer.onnx")
        write_plan(folder, "layer", scratch / "layer.onnx", {"x": random.standard_normal((3, 4)).astype(np.float32)},
                   ["--dim", "batch=1:8:64", *TARGETS])
        for name in ("tiny_cnn", "tiny_transformer"):
            run(sys.executable, ROOT / "models/networks.py", name, "-o", scratch / f"{name}.onnx")
        ids = random.integers(0, 50, (2, 9))
        write_plan(folder, "tiny_transformer", scratch / "tiny_transformer.onnx",
                   {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)},
                   TARGETS)
        shape = [size.dim_value or 2 for size in
                 onnx.load(scratch / "tiny_cnn.onnx").graph.input[0].type.tensor_type.shape.dim]
        image = onnx.load(scratch / "tiny_cnn.onnx").graph.input[0].name
        write_plan(folder, "tiny_cnn", scratch / "tiny_cnn.onnx",
                   {image: random.standard_normal(shape).astype(np.float32)}, TARGETS)


if __name__ == "__main__":
    main()
