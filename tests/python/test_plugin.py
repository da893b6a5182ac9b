# SPDX-License-Identifier: Apache-2.0
"""graft.plugin.onnx2plugin: TPAT's function over the command."""

import onnx
import pytest
from onnx import TensorProto, helper

import graft
from graft.plugin import onnx2plugin


@pytest.fixture
def chain(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["h"], name="clamp"), helper.make_node("Neg", ["h"], ["n"], name="turn"),
             helper.make_node("Relu", ["n"], ["y"], name="again")]
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_nodes_become_plugins_of_the_names_given(chain, tmp_path):
    names = onnx2plugin(chain, tmp_path / "new.onnx", node_names=["clamp", "turn"],
                        plugin_name_dict={"turn": "Turned"}, dynamic_bs=True, min_bs=1, opt_bs=4, max_bs=16)
    assert names == ["graft_clamp", "Turned"]
    after = onnx.load(tmp_path / "new.onnx")
    onnx.checker.check_model(after)
    assert [node.op_type for node in after.graph.node] == ["graft_clamp", "Turned", "Relu"]
    assert "d.batch_ > 16" in (tmp_path / "new.plugins" / "Turned.h").read_text()


def test_nodes_of_a_type_share_one(chain, tmp_path):
    assert onnx2plugin(chain, tmp_path / "new.onnx", node_types=["Relu"], target=["sm_90a"]) == ["graft_clamp"]
    assert [node.op_type for node in onnx.load(tmp_path / "new.onnx").graph.node] == [
        "graft_clamp", "Neg", "graft_clamp"]


def test_an_operator_of_the_caller_s_own_becomes_one(tmp_path):
    (tmp_path / "own.graftops").write_text(
        'operator example::Double {\n  type T: float\n  input x: T[...]\n  output y: T[...]\n'
        '  compute y over [...] { value 2 * x[...] }\n}\n')
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Double", ["x"], ["y"], name="twice", domain="example")], "own",
                              values[:1], values[1:])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("example", 1)]), tmp_path / "model.onnx")
    words = {"node_types": ["Double"], "target": ["sm_90a"], "tune": "off"}
    assert onnx2plugin(tmp_path / "model.onnx", tmp_path / "new.onnx", ops=[tmp_path / "own.graftops"], **words) == [
        "graft_twice"]
    with pytest.raises(graft.Error, match="example.Double has no definition"):
        onnx2plugin(tmp_path / "model.onnx", tmp_path / "other.onnx", **words)


def test_what_is_wrong_is_said(chain, tmp_path):
    with pytest.raises(graft.Error, match="did you mean 'turn'"):
        onnx2plugin(chain, tmp_path / "new.onnx", node_names=["torn"])
    with pytest.raises(graft.InvalidArgumentError, match="--nodes, --types or --region"):
        onnx2plugin(chain, tmp_path / "new.onnx")
    assert not (tmp_path / "new.onnx").exists()
