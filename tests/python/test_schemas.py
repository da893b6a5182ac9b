# SPDX-License-Identifier: Apache-2.0
"""The JSON of the C interface fits its schemas in docs/schemas/interface."""

import json
import subprocess

import graft
import jsonschema
import numpy as np
import pytest
from conftest import BUILD, ROOT, layer_model, model_of
from graft import _graft
from onnx import TensorProto, helper

SCHEMAS = ROOT / "docs/schemas/interface"


def fits(name, answer):
    """Checks an answer; and that a member more or less would be told."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(answer)
    assert not validator.is_valid({**answer, "more": 1})
    assert not validator.is_valid(dict(list(answer.items())[1:]))


def schema_of(name):
    return json.loads((SCHEMAS / f"{name}.json").read_text())["properties"]


def test_commands_use_the_names_of_the_c_interface():
    engine, inspected = schema_of("graft_engine_describe"), schema_of("../inspect")
    step, inspected_step = (each.pop("steps")["items"]["properties"] for each in (engine, inspected))
    assert engine.items() <= inspected.items() and step.items() <= inspected_step.items()
    assert schema_of("../check") == {"model": {"type": "string"}, **schema_of("graft_check")}
    region = schema_of("../inspect-losses")["regions"]["items"]["properties"]
    assert all(region[name] == step[name] for name in ("operators", "way", "library", "schedule"))


def test_the_command_says_of_a_plan_what_the_c_interface_says(tmp_path):
    engine = graft.compile(two_sizes_model(), dims={"batch": (1, 2, 4), "length": 3}, tune="off")
    engine.save(tmp_path / "plan.graft")
    done = subprocess.run([BUILD / "bin/graft", "inspect", tmp_path / "plan.graft", "--no-run", "--json", "-"],
                          check=True, capture_output=True)
    told, said = json.loads(done.stdout), graft.load(tmp_path / "plan.graft").describe()
    for step in told["steps"]:
        for more in ("step", "reads", "writes", "milliseconds", "operations", "bytes", "halves"):
            del step[more]
    assert {name: told[name] for name in said} == said
    dims = [row["value"] for row in said["options"] if row["key"] == "dim"]
    assert dims == ["batch=1:2:4", "length=3"], "a choice that comes several times is told several times"


def two_sizes_model():
    return model_of([helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["batch", "length"])],
                    [("y", TensorProto.FLOAT, ["batch", "length"])])


def strange_model():
    """A node that no operator defines."""
    graph = helper.make_graph([helper.make_node("Nonsense", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def counted_model():
    """Sizes that a run finds, and an output that is known when compiling."""
    nodes = [helper.make_node("NonZero", ["x"], ["where"]),
             helper.make_node("ConstantOfShape", ["shape"], ["zeros"])]
    return model_of(nodes, [("x", TensorProto.FLOAT, ["n"])],
                    [("where", TensorProto.INT64, [1, "count"]), ("zeros", TensorProto.FLOAT, [2])],
                    [("shape", np.array([2]))])


@pytest.mark.parametrize("model", [layer_model(), counted_model()], ids=["layer", "counted"])
@pytest.mark.parametrize("tune", ["off", "fast"])
def test_what_is_said_of_an_engine(model, tune):
    fits("graft_engine_describe", graft.compile(model, tune=tune).describe())


@pytest.mark.parametrize("model", [layer_model(), strange_model()], ids=["layer", "strange"])
def test_what_is_said_of_a_model(model):
    answer = json.loads(_graft.check(None, model.SerializeToString(), [("tune", "off")], None))
    assert bool(answer["obstacles"]) == (not answer["steps"])
    fits("graft_check", answer)


def test_what_is_said_of_a_converted_symbol():
    symbol = {"nodes": [{"op": "null", "name": "w", "inputs": []},
                        {"op": "FullyConnected", "name": "fc", "inputs": [[0, 0, 0], [0, 0, 0]]}],
              "arg_nodes": [0], "heads": [[1, 0, 0]]}
    report = json.loads(_graft.convert_symbol(json.dumps(symbol), "{}", None)[1])
    assert report["parameters"] == {"w": "float16"}
    fits("graft_convert_symbol", report)
