# SPDX-License-Identifier: Apache-2.0
"""Several nodes as one plugin, end to end: the part that is cut, the model that is left, and its run in the harness."""

import os
import pathlib

import numpy as np
import onnx
import pytest
import seed_models
import workshop
from models import combined
from onnx import TensorProto, helper

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
VERSION = "10.16"


def compared(path):
    """The text of a written header is that of the golden file, or becomes it."""
    written, golden = path.read_text(), GOLDEN / f"{path.name}.txt"
    if os.environ.get("GRAFT_UPDATE_GOLDEN"):
        golden.write_text(written)
    assert written == golden.read_text(), "./dev update writes it anew"


def test_one_hot_at_a_batch_of_256_from_its_cast_to_its_reshape(headers, harness, tmp_path):
    case = seed_models.one_hot_chain(256, 8, 64)
    onnx.save(case.model, tmp_path / "model.onnx")
    made = tmp_path / "made"
    workshop.generate(tmp_path / "model.onnx", made, "--nodes", "cast,hot,node", "--name", "MyOneHot", "--target",
                      "sm_90a", emulated=True)
    compared(made / "MyOneHot.h")
    after = onnx.load(made / "model.onnx")
    [call] = after.graph.node
    assert (call.op_type, list(call.input), list(call.output)) == ("MyOneHot", ["places"], ["y"])
    library = workshop.build_library(made, headers[VERSION])
    workshop.write_case(made / "parts" / "MyOneHot.onnx", tmp_path / "cases", seed_models.random_arrays(case), {})
    said = workshop.checked([harness(VERSION), library, "MyOneHot", tmp_path / "cases"],
                            env=workshop.preloaded("libcuda.so.1"))
    assert "all good" in said, said


def test_several_kernels_share_a_workspace_by_offsets(tmp_path, rows):
    workshop.generate(rows, tmp_path / "made", "--region", "share..x", "--name", "TwoKernels", "--target", "sm_90a")
    compared(tmp_path / "made" / "TwoKernels.h")
    text = (tmp_path / "made" / "TwoKernels.h").read_text()
    assert "offsets[0] = end;" in text and "memory + offsets[0]" in text and text.count("kernels.launch(") == 2


def sequence_model(axis, new_axis):
    """The tensors of a sequence, of known number, side by side: a Concat."""
    nodes = [helper.make_node("SequenceConstruct", ["a", "b", "a"], ["tensors"], name="construct"),
             helper.make_node("ConcatFromSequence", ["tensors"], ["y"], name="join", axis=axis, new_axis=new_axis)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 5]) for name in "ab"]
    graph = helper.make_graph(nodes, "sequence", values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("axis, new_axis", [(0, 0), (1, 0), (-1, 1)])
def test_a_sequence_of_known_tensors_is_a_concat(headers, harness, tmp_path, axis, new_axis):
    onnx.save(sequence_model(axis, new_axis), tmp_path / "model.onnx")
    made = tmp_path / "made"
    report = workshop.generate(tmp_path / "model.onnx", made, "--all-unsupported", "--target", "sm_90a", emulated=True)
    [plugin] = report["plugins"]
    assert plugin["nodes"] == ["construct", "join"] and not report["left"]
    library = workshop.build_library(made, headers[VERSION])
    cases = workshop.write_cases(tmp_path / "model.onnx", made / "parts" / f"{plugin['name']}.onnx",
                                 tmp_path / "cases", [{"batch": 3}, {"batch": 17}], tolerance=0)
    said = workshop.checked([harness(VERSION), library, plugin["name"], cases],
                            env=workshop.preloaded("libcuda.so.1"))
    assert "all good" in said, said


def test_updates_of_one_element_are_summed_in_order(headers, harness, tmp_path):
    """Many updates of few rows: sums of fp32, whose last digits another order would change."""
    case = seed_models.scatter_nd("add", (64, 3, 96), (2, 300, 1))
    model = combined({"s": case.model})
    onnx.save(model, tmp_path / "model.onnx")
    made = tmp_path / "made"
    workshop.generate(tmp_path / "model.onnx", made, "--nodes", "s_node", "--name", "Sums", "--target", "sm_90a",
                      emulated=True)
    launch = next(line for line in (made / "Sums.h").read_text().splitlines() if "kernels.launch(" in line)
    assert "launch(0, 1," not in launch, "one block makes them all"
    arrays = seed_models.random_arrays(seed_models.Case("", None, case.inputs, 0, {"indices": 5}))
    workshop.write_case(made / "parts" / "Sums.onnx", tmp_path / "cases",
                        {f"s_{name}": array for name, array in arrays.items()}, {})
    summed = arrays["data"].copy()
    for point in np.ndindex(2, 300):
        summed[arrays["indices"][point][0]] += arrays["updates"][point]
    summed.tofile(tmp_path / "cases" / "output_0.bin")
    library = workshop.build_library(made, headers[VERSION])
    said = workshop.checked([harness(VERSION), library, "Sums", tmp_path / "cases"],
                            env=workshop.preloaded("libcuda.so.1"))
    assert "all good" in said and "largest difference 0" in said, said


def test_a_sequence_that_the_model_is_given_is_no_tensor(tmp_path):
    tensors = helper.make_tensor_sequence_value_info("tensors", TensorProto.FLOAT, ["batch", 5])
    node = helper.make_node("ConcatFromSequence", ["tensors"], ["y"], name="join", axis=0)
    graph = helper.make_graph([node], "given", [tensors],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              tmp_path / "model.onnx")
    with pytest.raises(AssertionError, match="join"):
        workshop.generate(tmp_path / "model.onnx", tmp_path / "made", "--all-unsupported")


def test_bytes_are_cast_around_a_plugin(headers, harness, tmp_path):
    """TensorRT has u8 at its borders alone and casts it to and from floats: the plugin takes and gives those."""
    nodes = [helper.make_node("BitwiseNot", ["x"], ["turned"], name="turn"),
             helper.make_node("BitwiseAnd", ["turned", "mask"], ["y"], name="mask")]
    graph = helper.make_graph(
        nodes, "bytes", [helper.make_tensor_value_info("x", TensorProto.UINT8, ["batch", 5])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, ["batch", 5])],
        [onnx.numpy_helper.from_array(np.array([1, 3, 7, 15, 31], np.uint8), "mask")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8),
              tmp_path / "model.onnx")
    made = tmp_path / "made"
    workshop.generate(tmp_path / "model.onnx", made, "--nodes", "turn,mask", "--name", "Bytes", "--target", "sm_90a",
                      emulated=True)
    after = onnx.load(made / "model.onnx")
    onnx.checker.check_model(after)
    assert [node.op_type for node in after.graph.node] == ["Cast", "Bytes", "Cast"]
    assert [node.attribute[0].i for node in after.graph.node if node.op_type == "Cast"] == [TensorProto.FLOAT,
                                                                                            TensorProto.UINT8]
    assert after.graph.output[0].type.tensor_type.elem_type == TensorProto.UINT8, "the model's own types stay"
    library = workshop.build_library(made, headers[VERSION])
    numbers = np.arange(15, dtype=np.float32).reshape(3, 5) * 17
    masked = (~numbers.astype(np.uint8) & np.array([1, 3, 7, 15, 31], np.uint8)).astype(np.float32)
    part = onnx.load(made / "parts" / "Bytes.onnx")
    given = {value.name: numbers if value.name == "x" else None for value in part.graph.input}
    assert list(given) == ["x"], "so few constants are inside"
    workshop.write_case(made / "parts" / "Bytes.onnx", tmp_path / "cases", given, {})
    masked.tofile(tmp_path / "cases" / "output_0.bin")
    said = workshop.checked([harness(VERSION), library, "Bytes", tmp_path / "cases"],
                            env=workshop.preloaded("libcuda.so.1"))
    assert "all good" in said, said
