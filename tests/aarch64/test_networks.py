# SPDX-License-Identifier: Apache-2.0
"""Networks on an Arm machine: the sentence encoder of the demo, and products of codes with zero points."""

import pathlib
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import NEON, sve

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "bench")]
SENTENCES, ROUNDING = 4, 1e-6  # of embeddings of length 1


@pytest.mark.parametrize("processor", ["neoverse-n1", sve(256)])
def test_sentences_are_embedded_as_on_x86(emulated, native, tmp_path, processor):
    import minilm
    from wordpiece import WordPiece

    lines = [line for line in (ROOT / "examples/demo/sentences.txt").read_text(encoding="utf-8").splitlines()
             if line.strip() and not line.startswith("#")][:SENTENCES]
    tokens = WordPiece.from_file(str(pathlib.Path(minilm.package_folder()) / "vocab.txt"))
    given, expected, plan = tmp_path / "tokens.npz", tmp_path / "expected.npz", tmp_path / "minilm.graft"
    np.savez(given, **dict(zip(("input_ids", "attention_mask", "token_type_ids"),
                               tokens.batch(lines, minilm.MAX_LENGTH))))
    target = "neoverse-n1" if processor == "neoverse-n1" else "armv9-a+sve256"
    native("compile", minilm.cached_path(), "--target", "native", "--target", target, "--tune", "off",
           "--dim", "batch=1:4:64", "--dim", "length=1:16:256", "-o", plan)
    native("run", plan, "--input", given, "-o", expected)
    emulated.good(processor, "run", plan, "--input", given, "--reference", expected, "--rtol", "0",
                  "--atol", str(ROUNDING))


CODES = {"uint8": (TensorProto.UINT8, "u8"), "int8": (TensorProto.INT8, "s8")}
# Of weights, which units take less their zero points: the differences have the same type.
WEIGHTS = {"uint8": ((9, 255), (0, 9)), "int8": ((-118, 117), (-9, 9))}


@pytest.mark.parametrize("left", list(CODES))
@pytest.mark.parametrize("right", list(CODES))
@pytest.mark.parametrize("processor", ["neoverse-n1", NEON, sve(256)])
def test_products_of_codes_with_zero_points_are_exact(emulated, tmp_path, processor, left, right):
    rows, depth, columns = 7, 75, 21
    random = np.random.default_rng(3)

    def codes(name, bounds, *shape):
        values = random.integers(*bounds, shape, dtype=name, endpoint=True)
        values.reshape(-1)[:4] = bounds[0], bounds[1], bounds[1], bounds[0]
        return values

    every = np.iinfo(left).min, np.iinfo(left).max
    a, zero_a = codes(left, every, rows, depth), codes(left, every, 4)[1]
    b, zero_b = codes(right, WEIGHTS[right][0], depth, columns), codes(right, WEIGHTS[right][1], columns)
    node = helper.make_node("MatMulInteger", ["a", "b", "zero_a", "zero_b"], ["y"])
    constants = {"b": b, "zero_a": np.array(zero_a), "zero_b": zero_b}
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("a", CODES[left][0], ["rows", depth])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, ["rows", columns])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    model, plan = tmp_path / "model.onnx", tmp_path / "model.graft"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), model)
    np.save(tmp_path / "a.npy", a)
    np.savez(tmp_path / "y.npz", y=(a.astype(np.int32) - zero_a) @ (b.astype(np.int32) - zero_b))
    emulated.good(processor, "compile", model, "--dim", "rows=1:7:64", "--tune", "off", "-o", plan)
    emulated.good(processor, "run", plan, "--input", tmp_path / "a.npy", "--reference", tmp_path / "y.npz")
    unit = "dot" if processor == "neoverse-n1" else "block"
    if unit == "block" or left == right:
        text = emulated.good(processor, "inspect", plan, "--text")
        assert f"unit=arm_{unit}_{CODES[left][1]}{CODES[right][1]}" in text
