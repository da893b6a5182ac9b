# SPDX-License-Identifier: Apache-2.0
"""Parts of models: cut out by tensors and by nodes, as the file has them, and written as ONNX that others read."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import expected, two_layers
from onnx import TensorProto, helper, numpy_helper


def checked(path):
    """A model that onnx's checker takes."""
    model = onnx.load(path)
    onnx.checker.check_model(model)
    return model


def run_onnx(path, **given):
    """All outputs by ONNX Runtime."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, given)))


def sizes_of(value):
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_the_parts_of_a_model_compute_what_the_whole_does(graft, model, tmp_path):
    done = graft("extract", "model.onnx", "--outputs", "sum", "-o", "head.onnx")
    assert done.returncode == 0 and "2 of 3 nodes" in done.stdout, done.stderr
    graft("extract", "model.onnx", "--inputs", "sum", "-o", "tail.onnx")
    head, tail = checked(tmp_path / "head.onnx"), checked(tmp_path / "tail.onnx")
    assert [node.name for node in head.graph.node] == ["multiply", "add"]
    assert sizes_of(tail.graph.input[0]) == ["batch", 33], "the shape of what was cut is known"
    assert not tail.graph.initializer
    assert head.opset_import[0].version == 20 and head.ir_version == 9, "as the file has them"
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    between = run_onnx(tmp_path / "head.onnx", x=x)["sum"]
    np.testing.assert_allclose(run_onnx(tmp_path / "tail.onnx", sum=between)["y"], expected(two_layers(), x), rtol=1e-5)


def test_nodes_are_cut_out_with_what_they_read_and_give(graft, model, tmp_path):
    done = graft("extract", "model.onnx", "--nodes", "multiply,clamp", "-o", "two.onnx", "--json", "facts.json")
    assert done.returncode == 0, done.stderr
    part = checked(tmp_path / "two.onnx")
    assert [value.name for value in part.graph.input] == ["x", "sum"]
    assert [value.name for value in part.graph.output] == ["product", "y"]
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["nodes"] == 2 and facts["of_nodes"] == 3
    assert facts["inputs"][1] == {"name": "sum", "dtype": "f32", "shape": ["batch", "33"]}


def test_a_weight_can_be_handed_in(graft, model, tmp_path):
    assert graft("extract", "model.onnx", "--inputs", "w,x", "-o", "open.onnx").returncode == 0
    part = checked(tmp_path / "open.onnx")
    assert [value.name for value in part.graph.input] == ["x", "w"] or \
        [value.name for value in part.graph.input] == ["w", "x"]
    assert [tensor.name for tensor in part.graph.initializer] == ["b"]


@pytest.mark.parametrize("words, said", [
    (["--outputs", "prodct"], "did you mean 'product'?"),
    (["--inputs", "sun"], "did you mean 'sum'?"),
    (["--nodes", "multiplt"], "did you mean 'multiply'?"),
    (["--inputs", "y"], "no node is left"),
    (["--inputs", "sum", "--outputs", "product"], "do not depend on 'sum'"),
])
def test_what_cannot_be_cut_is_said_with_the_nearest_name(graft, model, words, said):
    done = graft("extract", "model.onnx", *words, "-o", "part.onnx")
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_wrong_use_is_said(graft, model, tmp_path):
    before = model.read_bytes()
    assert graft("extract", "model.onnx", "-o", "part.onnx").returncode == 2
    assert graft("extract", "model.onnx", "--outputs", "sum", "-o", "model.onnx").returncode == 2
    assert model.read_bytes() == before and not (tmp_path / "part.onnx").exists()


def branches():
    """A model whose If reads values around it, with a function, a name for a size that is no identifier, and
    a node without a name."""
    same = helper.make_graph([helper.make_node("Add", ["h", "w"], ["then_y"])], "then_body", [],
                             [helper.make_tensor_value_info("then_y", TensorProto.FLOAT, None)])
    other = helper.make_graph([helper.make_node("Neg", ["h"], ["else_y"])], "else_body", [],
                              [helper.make_tensor_value_info("else_y", TensorProto.FLOAT, None)])
    nodes = [helper.make_node("twice", ["x"], ["h"], domain="local"), helper.make_node("ReduceSum", ["x"], ["s"]),
             helper.make_node("Cast", ["s"], ["c"], to=TensorProto.BOOL, name="to_bool"),
             helper.make_node("Squeeze", ["c"], ["which"], name="squeeze"),
             helper.make_node("If", ["which"], ["y"], then_branch=same, else_branch=other, name="choose")]
    twice = helper.make_function("local", "twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
                                 [helper.make_opsetid("", 18)])
    unused = helper.make_function("local", "unused", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])],
                                  [helper.make_opsetid("", 18)])
    graph = helper.make_graph(nodes, "branches",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch size", None])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(np.float32([2]), "w")])
    model = helper.make_model(graph, functions=[twice, unused], ir_version=9,
                              opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("local", 1)])
    return model


def test_bodies_keep_what_they_read_around_them(graft, tmp_path):
    onnx.save(branches(), tmp_path / "branches.onnx")
    done = graft("extract", "branches.onnx", "--nodes", "choose", "-o", "if.onnx")
    assert done.returncode == 0, done.stderr
    part = onnx.load(tmp_path / "if.onnx")
    assert [value.name for value in part.graph.input] == ["which", "h"]
    assert sizes_of(part.graph.input[1])[0] == "batch size", "dimensions have the file's own names"
    assert [tensor.name for tensor in part.graph.initializer] == ["w"] and not part.functions
    h = np.ones((2, 3), np.float32)
    result = run_onnx(tmp_path / "if.onnx", which=np.array(True), h=h)["y"]
    np.testing.assert_array_equal(result, h + 2)


def test_functions_that_are_called_stay(graft, tmp_path):
    onnx.save(branches(), tmp_path / "branches.onnx")
    assert graft("extract", "branches.onnx", "--outputs", "h", "-o", "h.onnx").returncode == 0
    assert [function.name for function in checked(tmp_path / "h.onnx").functions] == ["twice"]
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(run_onnx(tmp_path / "h.onnx", x=x)["h"], 2 * x)


def test_weights_in_files_beside_come_along_into_another_folder(graft, tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    onnx.save(two_layers(), folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    for words, beside in [([], False), (["--external-weights", "0"], True)]:
        done = graft("extract", "models/model.onnx", "--outputs", "sum", "-o", "head.onnx", *words)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "head.onnx.data").exists() == beside
        x = np.ones((2, 4), np.float32)
        between = run_onnx(tmp_path / "head.onnx", x=x)["sum"]
        np.testing.assert_allclose(np.maximum(between, 0), expected(two_layers(), x), rtol=1e-5)


def test_an_output_beside_one_that_is_handed_in_stays_computed(graft, tmp_path):
    nodes = [helper.make_node("Split", ["x"], ["a", "b"], num_outputs=2, axis=0),
             helper.make_node("Add", ["a", "b"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    assert graft("extract", "m.onnx", "--inputs", "a", "-o", "part.onnx").returncode == 0
    checked(tmp_path / "part.onnx")
    y = run_onnx(tmp_path / "part.onnx", x=np.float32([1, 2, 3, 4]), a=np.float32([10, 20]))["y"]
    np.testing.assert_array_equal(y, [13, 24])


def test_stages_are_written_as_onnx(graft, model, tmp_path):
    for stage in ("import", "passes"):
        done = graft("compile", "model.onnx", "--compile-to", stage, "-o", f"{stage}.onnx", "--precision", "fp16")
        assert done.returncode == 0, done.stderr
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    assert {node.op_type for node in checked(tmp_path / "import.onnx").graph.node} == {"MatMul", "Add", "Relu"}
    assert "Cast" in {node.op_type for node in onnx.load(tmp_path / "passes.onnx").graph.node}
    np.testing.assert_allclose(run_onnx(tmp_path / "import.onnx", x=x)["y"], expected(two_layers(), x), rtol=1e-5)
    assert graft("compile", "model.onnx", "--compile-to", "fuse", "-o", "fuse.onnx").returncode == 2
