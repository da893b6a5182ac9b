# SPDX-License-Identifier: Apache-2.0
"""Operators that a user defines, as plugins."""

import subprocess

import numpy as np
import onnx
import pytest
import workshop
from onnx import TensorProto, helper, numpy_helper

OPS = ["--ops", workshop.ROOT / "examples" / "own_operators" / "activations.graftops"]
WIDTH = 96


@pytest.fixture(name="model")
def fixture_model(tmp_path):
    """y = a - b, which are example::RootMeanSquare of relu(x), with two epsilons."""
    def root(result, **attributes):
        return helper.make_node("RootMeanSquare", ["h", "scale"], [result], name=result, domain="example", **attributes)
    nodes = [helper.make_node("Relu", ["x"], ["h"], name="clamp"), root("a"), root("b", epsilon=0.5),
             helper.make_node("Sub", ["a", "b"], ["y"], name="subtract")]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in "xy")
    scale = numpy_helper.from_array(np.linspace(0.5, 2, WIDTH, dtype=np.float32), "scale")
    graph = helper.make_graph(nodes, "roots", [x], [y], [scale])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("example", 1)],
                                ir_version=8), path)
    return path


def test_each_becomes_a_plugin_that_computes_what_the_interpreter_does(model, headers, harness, tmp_path):
    folder = tmp_path / "made"
    made = workshop.generate(model, folder, "--types", "RootMeanSquare", *OPS, "--target", "sm_90a", emulated=True)
    assert [plugin["name"] for plugin in made["plugins"]] == ["graft_a", "graft_b"], "their epsilons differ"
    library = workshop.build_library(folder, headers["11.1"])
    for name in ("graft_a", "graft_b"):
        cases = workshop.write_cases(model, folder / "parts" / f"{name}.onnx", tmp_path / name,
                                     [{"batch": 3}, {"batch": 70}], words=OPS)
        said = workshop.checked([harness("11.1"), library, name, cases], env=workshop.preloaded("libcuda.so.1"))
        assert "all good" in said, said
    after = onnx.load(folder / "model.onnx")
    assert [(node.op_type, node.domain) for node in after.graph.node] == [
        ("Relu", ""), ("graft_a", "graft"), ("graft_b", "graft"), ("Sub", "")]


def test_a_region_around_one_becomes_a_plugin(model, tmp_path):
    words = ["--region", "y..x", "--name", "Whole", *OPS, "--target", "sm_90a"]
    made = workshop.generate(model, tmp_path / "made", *words)
    assert made["plugins"][0]["nodes"] == ["clamp", "a", "b", "subtract"]


def test_what_tensorrt_lacks_becomes_a_plugin(model, tmp_path):
    made = workshop.generate(model, tmp_path / "made", "--all-unsupported", *OPS, "--target", "sm_90a")
    assert [(node["node"], node["plugin"]) for node in made["nodes"]] == [("a", "graft_a"), ("b", "graft_b")]
    assert not made["left"]


def test_an_onnx_function_of_another_file_becomes_a_plugin(model, tmp_path):
    nodes = [helper.make_node("Mul", ["x", "x"], ["square"]), helper.make_node("ReduceMean", ["square"], ["mean"]),
             helper.make_node("Div", ["x", "mean"], ["unit"]), helper.make_node("Mul", ["unit", "scale"], ["y"])]
    function = helper.make_function("example", "RootMeanSquare", ["x", "scale"], ["y"], nodes,
                                    [helper.make_opsetid("", 17)])
    library = tmp_path / "library.onnx"
    onnx.save(helper.make_model(helper.make_graph([], "none", [], []), functions=[function], ir_version=8,
                                opset_imports=[helper.make_opsetid("", 17)]), library)
    made = workshop.generate(model, tmp_path / "made", "--nodes", "a", "--ops", library, "--target", "sm_90a")
    assert made["plugins"][0]["name"] == "graft_a"
    assert (tmp_path / "made" / "graft_a.h").exists()


@pytest.mark.parametrize("words", [["--types", "RootMeanSquare"], ["--region", "y..x"]])
def test_without_its_definition_the_node_is_named(model, tmp_path, words):
    done = subprocess.run([workshop.COMMAND, "plugin", model, *words, "-o", tmp_path / "made"], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "node 'a': the operator example.RootMeanSquare has no definition: give one with --ops" in done.stderr
    assert not (tmp_path / "made").exists()


def test_a_file_of_definitions_that_is_not_there_is_named(model, tmp_path):
    done = subprocess.run([workshop.COMMAND, "plugin", model, "--nodes", "a", "--ops", "none.graftops",
                           "-o", tmp_path / "made"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "none.graftops: cannot open the file" in done.stderr
