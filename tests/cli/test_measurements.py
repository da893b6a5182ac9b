# SPDX-License-Identifier: Apache-2.0
"""Tools that measure say what they measured, and refuse what they would not."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

QUICK = ["--tune", "off"]


@pytest.fixture(name="gather")
def fixture_gather(tmp_path):
    """y = table[indices] of a table of 4 MB, of which a run reads few rows."""
    table = numpy_helper.from_array(np.ones((16384, 64), np.float32), "table")
    graph = helper.make_graph([helper.make_node("Gather", ["table", "indices"], ["y"], name="rows")], "g",
                              [helper.make_tensor_value_info("indices", TensorProto.INT64, ["n"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])], [table])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
              tmp_path / "gather.onnx")


def test_a_gather_reads_rows_and_not_its_table(graft, gather):
    done = graft("inspect", "gather.onnx", *QUICK, "--size", "n=8", "--runs", "2", "--json", "-")
    (step,) = [step for step in json.loads(done.stdout)["steps"] if step["operators"] == ["Gather"]]
    assert step["bytes"] == 8 * 8 + 2 * 8 * 64 * 4, step["bytes"]  # indices, rows that are read, and written
    losses = json.loads(graft("inspect", "gather.onnx", *QUICK, "--size", "n=8", "--runs", "2", "--losses", "--json",
                              "-").stdout)
    assert [region["bytes"] for region in losses["regions"]] == [step["bytes"]]


@pytest.mark.parametrize("more", [[], ["--losses"], ["--text"]], ids=lambda more: "".join(more) or "page")
@pytest.mark.parametrize("words, told", [
    (["--size", "bacth=3"], "did you mean 'batch'"), (["--input", "absent.npy"], "absent.npy"),
    (["--input", "z=x.npy"], "no input 'z'"), (["--size", "batch=3", "--input", "x.npy"], "'batch' is 3"),
    (["--seed", "-1"], "whole number"),
])
def test_inspect_checks_what_it_does_not_run(graft, model, tmp_path, words, told, more):
    np.save(tmp_path / "x.npy", np.zeros((2, 4), np.float32))
    done = graft("inspect", "model.onnx", *QUICK, "--no-run", *more, *words)
    assert done.returncode != 0 and told in done.stderr, (done.returncode, done.stderr)


def test_losses_without_a_run_are_of_the_sizes_that_were_said(graft, model):
    def operations(*words):
        done = graft("inspect", "model.onnx", *QUICK, "--no-run", "--losses", "--json", "-", *words)
        return sum(region["operations_of_products"] for region in json.loads(done.stdout)["regions"])
    assert operations("--size", "batch=10") == 10 * operations("--size", "batch=1") > 0


def test_peaks_are_the_best_that_was_seen_and_nothing_is_above(graft, model):
    peaks = [json.loads(graft("inspect", "model.onnx", *QUICK, "--runs", "2", "--json", "-").stdout)["peak"]
             for _ in range(3)]
    for before, after in zip(peaks, peaks[1:]):
        assert after["gflops"] >= before["gflops"] and after["gigabytes_per_s"] >= before["gigabytes_per_s"]
    losses = json.loads(graft("inspect", "model.onnx", *QUICK, "--losses", "--runs", "2", "--json", "-").stdout)
    assert losses["least_ms"] <= losses["ms"]
    assert all(region["least_ms"] <= region["ms"] and region["ratio"] <= 1 for region in losses["regions"])


@pytest.mark.parametrize("words", [
    ["run", "--input", "x=absent.npy"], ["run", "--reference", "absent.npz"], ["run", "--outputs", "z"],
    ["run", "--input", "x=wrong.npy"], ["run", "--input", "x=cut.npy"], ["run", "--size", "bacth=2"],
    ["run", "--reference", "onnxruntime", "--reference-model", "absent.onnx"], ["run", "-o", "y.npy", "--outputs", "z"],
    ["bench", "--input", "x=absent.npy"], ["inspect", "--input", "x=absent.npy"], ["compare", "--size", "bacth=1"],
], ids=" ".join)
def test_what_cannot_be_read_is_told_before_compiling(graft, model, tmp_path, words):
    np.save(tmp_path / "wrong.npy", np.zeros((2, 4, 1), np.float32))
    np.save(tmp_path / "cut.npy", np.zeros((2, 4), np.float32))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:-4])
    models = ["model.onnx", "model.onnx"] if words[0] == "compare" else ["model.onnx"]
    environment = {"GRAFT_CACHE": str(tmp_path / "empty"), "GRAFT_DEBUG": "3", "PATH": "/usr/bin:/bin"}
    done = graft(words[0], *models, *words[1:], env=environment)
    assert done.returncode != 0
    assert not list((tmp_path / "empty").glob("*.kernel")), done.stderr


def test_check_generates_and_measures_nothing_unless_asked(graft, model, tmp_path):
    environment = {"GRAFT_CACHE": str(tmp_path / "empty"), "PATH": "/usr/bin:/bin"}
    assert "1 generated" in graft("check", "model.onnx", env=environment).stdout
    assert not list((tmp_path / "empty").glob("*"))
    for words in (["--generate"], ["--tune", "fast"]):
        assert "1 generated" in graft("check", "model.onnx", *words, env=environment).stdout
        assert list((tmp_path / "empty").glob("*.kernel"))
    assert "1 interpreter" in graft("check", "model.onnx", "--mode", "interpret").stdout


def test_a_result_is_judged_by_the_precision_that_was_asked_for(graft, tmp_path):
    random = np.random.default_rng(3)
    weights = [numpy_helper.from_array(random.standard_normal((256, 256)).astype(np.float32) / 16, f"w{i}")
               for i in range(3)]
    nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"h{i - 1}", f"w{i}"], [f"h{i}" if i < 2 else "y"])
             for i in range(3)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 256])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 256])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "m.onnx")
    assert graft("compile", "m.onnx", *QUICK, "--precision", "bf16", "--error-limit", "0").returncode == 0
    for words in (["m.onnx", *QUICK, "--precision", "bf16"], ["m.graft", "--reference-model", "m.onnx"]):
        done = graft("run", *words, "--reference", "onnxruntime")
        assert done.returncode == 0, done.stdout + done.stderr
    done = graft("run", "m.graft", "--reference-model", "m.onnx", "--reference", "onnxruntime", "--rtol", "1e-6",
                 "--atol", "1e-6")
    assert done.returncode == 1 and "WRONG" in done.stdout


def test_bench_writes_the_counters_of_its_runs(graft, model, tmp_path):
    done = graft("bench", "model.onnx", *QUICK, "--size", "batch=2", "--iterations", "5", "--warmup", "1", "--metrics",
                 "counters.prom")
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "counters.prom").read_text().splitlines()
    runs, = (float(line.split()[-1]) for line in lines if line.startswith("graft_runs_total{"))
    assert runs >= 5
    assert "# TYPE graft_kernel_cache_hits_total counter" in lines
    same = graft("bench", "model.onnx", *QUICK, "--metrics", "-", "--json", "-")
    assert same.returncode == 2 and "both write" in same.stderr, same.stderr
