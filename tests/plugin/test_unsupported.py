# SPDX-License-Identifier: Apache-2.0
"""Which nodes TensorRT refuses, by the table of what is documented, and the plugins that are made of them."""

import json
import pathlib
import re
import subprocess
import time

import numpy as np
import onnx
import pytest
import workshop
from onnx import TensorProto, defs, helper, numpy_helper

TABLE = workshop.ROOT / "src/plugin/tensorrt_operators.inc"
LAST_OPSET = 25


def rows(kind, text=TABLE.read_text()):
    return [row.split(", ") for row in re.findall(rf"^GRAFT_TENSORRT_{kind}\(([^\n]*)\)$", text, re.MULTILINE)]


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, outputs, weights=(), opset=20):
    graph = helper.make_graph(nodes, "refused", inputs, outputs,
                              [numpy_helper.from_array(array, name) for name, array in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("my.ops", 1)],
                             ir_version=9)


def mixed_model():
    """Nodes that TensorRT takes, lacks, and takes with other attributes, types or ranks."""
    node = helper.make_node
    floats, integers = TensorProto.FLOAT, TensorProto.INT32
    return model_of(
        [node("BitwiseAnd", ["i", "j"], ["both"], name="and_first"),
         node("BitwiseAnd", ["i", "j"], ["again"], name="and_again"),
         node("Relu", ["x"], ["r"], name="relu"),
         node("LayerNormalization", ["x", "w"], ["normal", "mean"], name="norm"),
         node("LayerNormalization", ["x", "w"], ["plain"], name="plain_norm"),
         node("ScatterND", ["x", "at", "updates"], ["sums"], name="scatter", reduction="add"),
         node("Resize", ["image", "", "scales"], ["big"], name="resize", mode="cubic"),
         node("CumSum", ["x", "axis"], ["running"], name="running"),
         node("Abs", ["bytes"], ["same"], name="bytes_abs"),
         node("Unique", ["x"], ["different"], name="unique"),
         node("Fancy", ["x"], ["fancy_x"], name="fancy", domain="my.ops")],
        [value("i", integers, ["b", 4]), value("j", integers, ["b", 4]), value("x", floats, ["b", 8]),
         value("at", TensorProto.INT64, [3, 1]), value("updates", floats, [3, 8]),
         value("image", floats, ["b", 3, 8, 8]), value("axis", integers, []),
         value("bytes", TensorProto.UINT8, ["b"])],
        [value(name, kind, None) for name, kind in [
            ("both", integers), ("again", integers), ("r", floats), ("normal", floats), ("mean", floats),
            ("plain", floats), ("sums", floats), ("big", floats), ("running", floats), ("same", TensorProto.UINT8),
            ("different", floats), ("fancy_x", floats)]],
        [("w", np.ones(8, np.float32)), ("scales", np.array([1, 1, 2, 2], np.float32))])


@pytest.fixture
def mixed(tmp_path):
    onnx.save(mixed_model(), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def graft(*words, **options):
    return subprocess.run([workshop.COMMAND, *map(str, words)], capture_output=True, text=True, timeout=300,
                          check=False, **options)


def checked(path):
    done = graft("check", path, "--for", "tensorrt", "--parser", "none", "--json", "-")
    return done.returncode, json.loads(done.stdout)


def test_the_table_has_each_operator_of_onnx_once():
    taken = [row[1] for row in rows("TAKES") if row[0] == '""']
    named = taken + [row[0] for row in rows("LACKS")]
    assert len(named) == len(set(named))
    known = {schema.name for schema in defs.get_all_schemas_with_history()
             if schema.domain == "" and schema.since_version <= LAST_OPSET}
    assert not known - set(named), "operators of ONNX that are in no row"
    assert not set(named) - known, "names that are no operators of ONNX"
    assert {row[0] for row in rows("LIMIT")} <= set(taken), "a limit of an operator that is not taken"


def test_attributes_of_limits_are_those_of_the_operators():
    for name, rule, of, allowed in (row[:4] for row in rows("LIMIT")):
        schemas = [schema for schema in defs.get_all_schemas_with_history() if schema.name == name]
        attributes = {attribute for schema in schemas for attribute in schema.attributes}
        if rule in ("kOneOf", "kAbsent"):
            assert of.strip('"') in attributes, name
        elif rule in ("kConstant", "kZero", "kRank", "kBelow"):
            assert int(of.strip('"')) < max(schema.max_input for schema in schemas), name
        else:
            assert rule in ("kOperands", "kResults") and int(allowed.strip('"')) > 0, name


def test_nodes_that_tensorrt_refuses_are_named_with_their_reasons(mixed):
    status, report = checked(mixed)
    assert status == 1, "some of them can be no plugins"
    reasons = {each["node"]: each["reason"] for each in report["refused"]}
    assert reasons == {
        "and_first": "TensorRT has no such operator",
        "and_again": "TensorRT has no such operator",
        "norm": "TensorRT does not take the mean and the deviation as results",
        "scatter": "TensorRT does not take a reduction",
        "resize": "TensorRT does not take cubic interpolation",
        "running": "TensorRT does not take an axis that is not constant",
        "bytes_abs": "TensorRT does not take it of u8 ('bytes')",
        "unique": "TensorRT has no such operator",
        "fancy": "TensorRT has no operator of 'my.ops' of that name",
    }
    plugins = {each["node"]: each["plugin"] for each in report["refused"]}
    assert plugins["and_first"] == plugins["and_again"] == "graft_and_first", "the same is computed"
    assert plugins["norm"] == "graft_norm" and plugins["resize"] == "graft_resize"
    why = {each["node"]: each["why_none"] for each in report["refused"] if not each["plugin"]}
    assert plugins["bytes_abs"] == "graft_bytes_abs", "with casts around it"
    assert plugins["unique"] == "graft_unique", "whose size it tells"
    assert "has no definition" in why["fancy"]


def test_all_that_can_be_become_plugins_and_the_others_are_listed(mixed, tmp_path):
    made = workshop.generate(mixed, tmp_path / "made", "--all-unsupported", "--parser", "none", "--target", "sm_90a")
    _, report = checked(mixed)
    assert [plugin["name"] for plugin in made["plugins"]] == [plugin["name"] for plugin in report["plugins"]]
    assert {each["node"] for each in made["left"]} == {each["node"] for each in report["refused"]
                                                       if not each["plugin"]}
    after = onnx.load(tmp_path / "made" / "model.onnx")
    assert {node.op_type for node in after.graph.node if node.domain == ""} == {
        "Relu", "LayerNormalization", "CumSum", "Cast"}
    assert "| fancy |" in (tmp_path / "made" / "README.md").read_text()


def test_a_model_that_tensorrt_takes_passes(layer_norms):
    status, report = checked(layer_norms)
    assert status == 0 and report["refused"] == [] and report["plugins"] == []


def test_three_one_hots_of_two_depths_are_two_plugins(tmp_path):
    # Depths that are no constants: TensorRT wants them when it builds.
    nodes = [helper.make_node("OneHot", ["i", depth, "values"], [f"y{k}"], name=f"hot_{k}")
             for k, depth in enumerate(["wide", "narrow", "wide"])]
    nodes = [helper.make_node("Identity", [f"{name}_in"], [name], name=name) for name in ("wide", "narrow")] + nodes
    model = model_of(nodes, [value("i", TensorProto.INT64, ["b"])],
                     [value(f"y{k}", TensorProto.FLOAT, None) for k in range(3)],
                     [("wide_in", np.array(32)), ("narrow_in", np.array(16)),
                      ("values", np.array([0, 1], np.float32))])
    onnx.save(model, tmp_path / "model.onnx")
    made = workshop.generate(tmp_path / "model.onnx", tmp_path / "made", "--nodes", "wide,hot_0", "--nodes",
                             "narrow,hot_1", "--target", "sm_90a")
    assert len(made["plugins"]) == 2
    assert [each["node"] for each in checked(tmp_path / "model.onnx")[1]["refused"]] == ["hot_0", "hot_1", "hot_2"]


def test_a_node_inside_a_body_is_named_by_the_node_around_it(tmp_path):
    body = helper.make_graph([helper.make_node("BitwiseNot", ["i"], ["n"])], "then", [],
                             [value("n", TensorProto.INT32, ["b"])])
    other = helper.make_graph([helper.make_node("Identity", ["i"], ["m"])], "else", [],
                              [value("m", TensorProto.INT32, ["b"])])
    node = helper.make_node("If", ["c"], ["y"], name="choose", then_branch=body, else_branch=other)
    model = model_of([node], [value("c", TensorProto.BOOL, []), value("i", TensorProto.INT32, ["b"])],
                     [value("y", TensorProto.INT32, ["b"])])
    onnx.save(model, tmp_path / "model.onnx")
    status, report = checked(tmp_path / "model.onnx")
    [refused] = report["refused"]
    assert status == 1 and refused["node"] == "choose" and refused["operator"] == "BitwiseNot"
    assert "inside 'choose'" in refused["reason"] and "cannot be cut out" in refused["why_none"]


def test_the_choices_of_the_folder_that_is_replaced_are_made_again(layer_norms, tmp_path):
    words = ["--nodes", "clamp", "--name", "Clamped", "--target", "sm_90a"]
    workshop.generate(layer_norms, tmp_path / "made", *words)
    record = tmp_path / "made" / "choices" / "Clamped_sm_90a.txt"
    text = record.read_text()
    chosen = re.search(r"use 0 ms: (generated .*)", text)[1]
    assert "generated" in chosen
    other = re.sub(r"warps=\d+", lambda found: "warps=2" if found[0] != "warps=2" else "warps=4", chosen)
    assert other != chosen, chosen
    record.write_text(text.replace(chosen, other))
    workshop.generate(layer_norms, tmp_path / "made", *words)
    assert other in record.read_text()
    kept = tmp_path / "kept.txt"
    kept.write_text(record.read_text())
    workshop.generate(layer_norms, tmp_path / "elsewhere", *words, "--record", kept)
    assert other in (tmp_path / "elsewhere" / "choices" / "Clamped_sm_90a.txt").read_text()
    done = graft("plugin", layer_norms, "--nodes", "a_Mean", "--record", kept, "-o", tmp_path / "third")
    assert done.returncode == 2 and "it holds no choices for any of these parts" in done.stderr
    assert not (tmp_path / "third").exists()


def test_many_plugins_take_seconds(tmp_path):
    """40 nodes of 10 kinds: at most 5 s each and 5 minutes together are promised."""
    kinds = ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]
    nodes = [helper.make_node(kinds[k % 3], ["i", "j"], [f"y{k}"], name=f"node_{k}") for k in range(20)]
    nodes += [helper.make_node("Resize", ["image", "", f"scale_{k}"], [f"y{20 + k}"], name=f"resize_{k}", mode="cubic")
              for k in range(7)]
    nodes += [helper.make_node("Det", ["matrix"], [f"y{27 + k}"], name=f"det_{k}") for k in range(13)]
    model = model_of(nodes, [value("i", TensorProto.INT32, ["b", 4]), value("j", TensorProto.INT32, ["b", 4]),
                             value("image", TensorProto.FLOAT, ["b", 3, 8, 8]),
                             value("matrix", TensorProto.FLOAT, ["b", 3, 3])],
                     [value(f"y{k}", TensorProto.INT32 if k < 20 else TensorProto.FLOAT, None) for k in range(40)],
                     [(f"scale_{k}", np.array([1, 1, 2 + k, 2], np.float32)) for k in range(7)])
    onnx.save(model, tmp_path / "model.onnx")
    start = time.monotonic()
    made = workshop.generate(tmp_path / "model.onnx", tmp_path / "made", "--all-unsupported", "--parser", "none")
    elapsed = time.monotonic() - start
    assert len(made["nodes"]) == 40 and len(made["plugins"]) == 11 and not made["left"]
    assert elapsed < 5 * len(made["plugins"]), elapsed


def test_a_folder_that_cannot_be_written_is_named(layer_norms, tmp_path):
    done = graft("plugin", layer_norms, "--nodes", "clamp", "-o", "/proc/made")
    assert done.returncode == 1 and "name one where you may write" in done.stderr and "/proc/made" in done.stderr
    assert [path.name for path in pathlib.Path(tmp_path).iterdir()] == ["model.onnx"]


def times_of_choices(text):
    """Milliseconds of what a file of choices uses: 0 where it was estimated, 1 and more on a slow machine."""
    return [float(time) for time in re.findall(r"^  use (\S+) ms: ", text, re.MULTILINE)]


def test_candidates_are_measured_on_the_gpu_at_hand(rows, tmp_path):
    """--tune measures the target that the GPU is of and no other; the choices are kept and not measured again."""
    words = ["--nodes", "flatten,sum,divide", "--name", "Rows", "--target", "sm_80,sm_90a", "--dim", "batch=4"]
    made = tmp_path / "made"
    [plugin] = workshop.generate(rows, made, *words, "--tune", "fast", emulated=True)["plugins"]
    assert {each["target"]: each["measured"] for each in plugin["targets"]} == {"sm_80": False, "sm_90a": True}
    readme, choices = (made / "README.md").read_text(), (made / "choices" / "Rows_sm_90a.txt").read_text()
    assert "by measuring where it says so below" in readme and readme.count(", measured") == 1
    assert any(times_of_choices(choices)), choices
    assert not any(times_of_choices((made / "choices" / "Rows_sm_80.txt").read_text()))
    [again] = workshop.generate(rows, made, *words, "--tune", "fast", emulated=True)["plugins"]
    assert again == plugin and (made / "choices" / "Rows_sm_90a.txt").read_text() == choices
    [without] = workshop.generate(rows, tmp_path / "off", *words, "--tune", "off", emulated=True)["plugins"]
    [elsewhere] = workshop.generate(rows, tmp_path / "cpu", *words, "--device", "cpu", "--tune", "fast",
                                    emulated=True)["plugins"]
    assert without == elsewhere and not any(each["measured"] for each in without["targets"])
