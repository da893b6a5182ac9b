# SPDX-License-Identifier: Apache-2.0
"""Whole networks in f16 and bf16 on a CPU, beside the same networks in f32.

Errors are shares of the range of the f32 output. What rounding costs depends on the network: an encoder that normalises
after each layer keeps it small, fifty layers of random convolutions make it large. So the bound of a network is what
ONNX Runtime, in f32 throughout, gives for its weights rounded to the type, with room for rounding what lies between.
"""

import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "models"))

import minilm  # noqa: E402
import networks  # noqa: E402

COMMAND = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")) / "bin" / "graft"
BITS = {"fp16": 11, "bf16": 8}


@pytest.fixture(scope="module", autouse=True)
def environment(tmp_path_factory):
    """A kernel cache of the tests' own."""
    os.environ["GRAFT_CACHE"] = str(tmp_path_factory.mktemp("cache") / "kernels")


def rounded(values, bits):
    """Values to so many significant bits, ties to even; ranges do not matter for the weights here."""
    pattern = values.astype(np.float32).view(np.uint32)
    drop = np.uint32(24 - bits)
    one = np.uint32(1)
    half = (one << (drop - one)) - one
    return ((pattern + half + (pattern >> drop & one)) >> drop << drop).view(np.float32)


def run_reference(model, inputs):
    """The outputs of ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def with_rounded_weights(model, bits):
    """The model with each matrix or filter bank rounded."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype == np.float32 and values.ndim >= 2:
            tensor.CopyFrom(numpy_helper.from_array(rounded(values, bits), tensor.name))
    return copy


def share(results, reference):
    """The largest error of any output as a share of its range."""
    return max(np.abs(a - b).max() / np.ptp(b) for a, b in zip(results, reference, strict=True))


def run_graft(model, inputs, precision, folder):
    """The outputs of the command, in the model's order."""
    np.savez(folder / "in.npz", **inputs)
    words = [COMMAND, "run", model, "--precision", precision, "--tune", "off", "--input", folder / "in.npz",
             "--output", folder / "out.npz"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    results = np.load(folder / "out.npz")
    return [results[output.name] for output in onnx.load(model).graph.output]


def tokens(batch, length):
    """Sentences of random words, the second half of the last one masked."""
    generator = np.random.default_rng(3)
    mask = np.ones((batch, length), np.int64)
    mask[-1, length // 2:] = 0
    return {"input_ids": generator.integers(1000, 20000, (batch, length)), "attention_mask": mask,
            "token_type_ids": np.zeros((batch, length), np.int64)}


NETWORKS = {
    "minilm": (minilm.cached_path, lambda: tokens(2, 48)),
    "resnet50": (lambda: networks.cached_path("resnet50"), lambda: networks.NETWORKS["resnet50"].inputs(seed=3)),
}
# Measured: MiniLM 7.1e-4 and 5.6e-3, ResNet-50 (seeded) 1.3e-2 and 1.05e-1.
LIMITS = {("minilm", "fp16"): 1e-2, ("minilm", "bf16"): 5e-2, ("resnet50", "fp16"): 3e-2, ("resnet50", "bf16"): 2e-1}


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_networks_are_as_near_to_f32_as_their_weights_allow(tmp_path, name, precision):
    path, make_inputs = NETWORKS[name]
    path, inputs = pathlib.Path(path()), make_inputs()
    model = onnx.load(path)
    reference = run_reference(model, inputs)
    unavoidable = share(run_reference(with_rounded_weights(model, BITS[precision]), inputs), reference)
    error = share(run_graft(path, inputs, precision, tmp_path), reference)
    print(f"{name} {precision}: {error:.2e} of the range; by rounded weights alone {unavoidable:.2e}")
    assert error < LIMITS[name, precision]
    assert error < 4 * unavoidable
