# SPDX-License-Identifier: Apache-2.0
"""Results of commands as JSON: what each writes fits its schema in docs/schemas."""

import json
import re

import jsonschema
import numpy as np
import onnx
import pytest
from conftest import ROOT, frozen_graph, two_layers
from onnx import TensorProto, helper

SCHEMAS = ROOT / "docs/schemas"
QUICK = ["--tune", "off"]
BENCH = ["bench", "model.onnx", *QUICK, "--iterations", "3", "--warmup", "1"]

# Command lines by the command whose schema their JSON fits, and by command and option where that has its own; a model
# of two layers is there, and a plan of it.
WORDS = {
    "compile": [["compile", "model.onnx", *QUICK], ["compile", "model.onnx", *QUICK, "--precision", "fp16"]],
    "run": [["run", "plan.graft"], ["run", "model.onnx", *QUICK, "--reference", "interpreter"],
            ["run", "plan.graft", "--reference", "wrong.npz"]],
    "bench": [BENCH, [*BENCH, "--streams", "2"], [*BENCH, "--hint", "latency"],
              ["bench", "plan.graft", "--duration", "0.05", "--hint", "throughput", "--latency-bound", "10s"]],
    "check": [["check", "model.onnx"], ["check", "model.onnx", "--reasons", "--mode", "interpret"],
              ["check", "strange.onnx"]],
    "check-tensorrt": [["check", "model.onnx", "--for", "tensorrt"], ["check", "strange.onnx", "--for", "tensorrt"]],
    "inspect": [["inspect", "plan.graft", "--runs", "2"], ["inspect", "plan.graft", "--no-run"]],
    "inspect-losses": [["inspect", "plan.graft", "--losses", "--runs", "2"],
                       ["inspect", "model.onnx", *QUICK, "--losses", "--no-run", "--target", "sm_80"]],
    "inspect-metadata": [["inspect", "plan.graft", "--metadata"], ["inspect", "model.onnx", "--metadata"]],
    "compare": [["compare", "model.onnx", "plan.graft"], ["compare", "model.onnx", "model.onnx", "--all",
                                                          "--precision-b", "bf16", "--rtol", "0", "--atol", "0"]],
    "extract": [["extract", "model.onnx", "--outputs", "sum", "-o", "part.onnx"]],
    "embed": [["embed", "frozen.pb", "--outputs", "y", "-o", "fast.pb", *QUICK]],
    "reduce": [["reduce", "model.onnx", "--check", "false", "-o", "small.onnx"]],
    "plugin": [["plugin", "model.onnx", "--nodes", "clamp", "-o", "plugins"],
               ["plugin", "model.onnx", "--types", "MatMul,Relu", "--for", "cuda", "-o", "kernels"]],
    "convert": [["convert", "net-symbol.json", "--precision", "fp16", "-o", "mixed"]],
    "opt": [["opt"]],
    "ops": [["ops"]],
    "env": [["env"]],
    "cache": [["cache", "list"], ["cache", "size"], ["cache", "clear"],
              ["cache", "export", "plan.graft", "-o", "plan.kernels"], ["cache", "import", "old.kernels", "--trust"]],
}


@pytest.fixture
def files(graft, model, tmp_path):
    """What the command lines name."""
    assert graft("compile", "model.onnx", "-o", "plan.graft", *QUICK).returncode == 0
    assert graft("cache", "export", "plan.graft", "-o", "old.kernels").returncode == 0
    (tmp_path / "net-symbol.json").write_text(
        '{"nodes": [{"op": "null", "name": "x", "inputs": []}], "arg_nodes": [0], "heads": [[0, 0, 0]]}')
    (tmp_path / "frozen.pb").write_bytes(frozen_graph())
    np.savez(tmp_path / "wrong.npz", y=np.full((1, 33), np.nan, np.float32))
    graph = helper.make_graph([helper.make_node("Nonsense", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
              tmp_path / "strange.onnx")


def validator(name):
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name, words", [(name, words) for name, lines in WORDS.items() for words in lines],
                         ids=lambda value: value if isinstance(value, str) else "-".join(value[:6]))
def test_what_is_written_fits_the_schema(graft, files, tmp_path, name, words):
    alone = graft(*words, "--json", "-")
    assert alone.returncode in (0, 1), alone.stderr
    results = json.loads(alone.stdout)  # nothing else is on standard output
    validator(name).validate(results)
    beside = graft(*words, "--json", "results.json")
    assert beside.returncode == alone.returncode
    assert name == "ops" or beside.stdout, "the text is there as well"
    validator(name).validate(json.loads((tmp_path / "results.json").read_text()))


def test_every_command_has_json_and_a_schema(graft):
    listed = graft("--help").stdout.partition("\nSubcommands:\n")[2].partition("\n\n")[0]
    names = {line.split()[0].rstrip(",") for line in listed.splitlines() if re.match(r"  \S", line)}
    names -= {"help", "completion", "serve"}  # whose texts are for people and shells, and a server
    assert set(WORDS) == {path.stem for path in SCHEMAS.glob("*.json")}
    assert names == {name.partition("-")[0] for name in WORDS}


def test_a_schema_refuses_what_it_does_not_name():
    assert not validator("cache").is_valid({"folder": "/f", "bytes": 1, "other": 2})
    assert not validator("bench").is_valid([{"bench": "graft bench"}])


def test_json_does_not_replace_another_output(graft, model):
    for words in (["run", "model.onnx", "-o", "same"], ["compile", "model.onnx", "-o", "same"],
                  ["inspect", "model.onnx", "--html", "same"]):
        done = graft(*words, "--json", "same")
        assert done.returncode == 2 and "--json" in done.stderr, done.stderr
    assert graft("extract", "model.onnx", "--outputs", "sum", "-o", "p.onnx", "--json", "model.onnx").returncode == 2


@pytest.mark.parametrize("words, status, kind, where", [
    (["run", "missing.onnx"], 1, "invalid argument", "missing.onnx"),
    (["compile", "model.onnx", "--dim", "bacth=2"], 2, "usage", "--dim"),
    (["bench", "plan.graft", "--size", "bacth=2"], 2, "usage", ""),
    (["check", "broken.onnx"], 1, "invalid model", "broken.onnx: model"),
])
def test_an_error_is_json_too(graft, files, tmp_path, words, status, kind, where):
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    for place in ("-", "error.json"):
        done = graft(*words, "--json", place)
        text = done.stdout if place == "-" else (tmp_path / place).read_text()
        assert done.returncode == status and done.stderr.startswith("graft: "), done.stderr
        validator("interface/error").validate(json.loads(text))
        error = json.loads(text)["error"]
        assert (error["status"], error["kind"], error["where"]) == (status, kind, where)
        assert error["message"] in done.stderr


def test_an_error_replaces_no_file_that_was_not_checked(graft, model):
    before = model.read_bytes()
    assert graft("bench", "model.onnx", "--json", "model.onnx").returncode == 2
    assert model.read_bytes() == before


def test_rows_of_bench_say_what_was_measured(graft, files):
    def row(*words):
        done = graft("bench", "plan.graft", "--warmup", "1", "--json", "-", *words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)[0]
    one = row("--iterations", "5", "--size", "batch=2")
    assert one["shapes"] == {"x": [2, 4]} and one["precision"] == "fp32" and one["streams"] == 1
    assert one["min_ms"] <= one["graft_ms"] <= one["p99_ms"] and one["min_ms"] <= one["mean_ms"]
    assert one["h2d_ms"] is None and one["version"]
    three = row("--iterations", "5", "--streams", "3")
    assert three["streams"] == 3 and three["runs"] == 15


def test_a_bound_that_nothing_keeps_is_said(graft, files, tmp_path):
    words = ("bench", "plan.graft", "--duration", "0.05", "--latency-bound")
    done = graft(*words, "0.000001us", "--hint", "throughput")
    assert done.returncode == 1 and "p99 with one stream is" in done.stderr, done.stderr
    assert "median" in done.stdout  # how far it is from the bound
    assert graft(*words, "0.000001us", "--hint", "throughput", "--json", "row.json").returncode == 1
    (row,) = json.loads((tmp_path / "row.json").read_text())
    assert row["p99_ms"] > 1e-9 and row["streams"] == 1
    assert graft(*words, "7ms").returncode == 2
    assert graft(*words, "7parsecs", "--hint", "throughput").returncode == 2
    assert graft("bench", "plan.graft", "--hint", "latency", "--streams", "2").returncode == 2
