# SPDX-License-Identifier: Apache-2.0
"""How much memory a run takes: weights, arena, and little beside them."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "models"), str(ROOT / "bench")]

import child  # noqa: E402
import minilm  # noqa: E402
import networks  # noqa: E402

COMMAND = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")) / "bin" / "graft"
BESIDES = 128e6
UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def byte_count(text):
    """`12.5 MB` as a number."""
    number, unit = text.split()
    return float(number) * UNITS[unit]


@pytest.mark.parametrize("model, sizes, dims", [
    (lambda: networks.cached_path("resnet50"), ["batch=1"], ["batch=1:1:8"]),
    (lambda: networks.cached_path("resnet50"), ["batch=8"], ["batch=1:1:8"]),
    (minilm.cached_path, ["batch=1", "length=256"], ["batch=1:1:8", "length=1:128:256"]),
], ids=["resnet50", "resnet50-batch8", "minilm"])
def test_a_run_holds_weights_and_arena_and_little_more(model, sizes, dims, tmp_path):
    environment = {**os.environ, "GRAFT_CACHE": str(tmp_path / "kernels")}
    plan = tmp_path / "network.graft"
    words = [word for dim in dims for word in ("--dim", dim)]
    subprocess.run([COMMAND, "compile", model(), "-o", plan, *words], env=environment, check=True,
                   stdout=subprocess.DEVNULL)
    size_words = [word for size in sizes for word in ("--size", size)]
    report = subprocess.run([COMMAND, "inspect", plan, "--runs", "1", *size_words], env=environment, check=True,
                            capture_output=True, text=True).stdout
    weights, arena = re.search(r"memory: weights ([\d.]+ \w+), arena ([\d.]+ \w+)", report).groups()
    allowed = byte_count(weights) + byte_count(arena) + BESIDES
    _, peak = child.measure([COMMAND, "run", plan, *size_words], environment)
    print(f"weights {weights}, arena {arena}, peak {peak / 1e6:.0f} MB")
    assert peak <= allowed
    # A measure that misses the weights would let everything pass.
    assert peak >= 0.9 * byte_count(weights)
