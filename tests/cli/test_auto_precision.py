# SPDX-License-Identifier: Apache-2.0
"""`--precision auto --max-error E`: the fastest precision within the bound, and what was tried."""

import json

import numpy as np
import pytest
from test_quantize import in_onnxruntime
from test_quantize_budget import products


def compiled(graft, folder, *words):
    done = graft("compile", "net.onnx", "--precision", "auto", "--tune", "off", "-o", "net.graft", "--json",
                 "report.json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "report.json").read_text())["quantization"], done.stdout


@pytest.fixture
def network(tmp_path):
    products(tmp_path / "net.onnx", width=256)
    np.save(tmp_path / "samples.npy", np.random.default_rng(8).standard_normal((64, 256)).astype(np.float32))


@pytest.mark.parametrize("data", [(), ("--calibrate", "samples.npy")], ids=["random", "samples"])
@pytest.mark.parametrize("bound", [0.5, 0.004, 1e-9])
def test_the_fastest_within_the_bound_is_chosen(graft, tmp_path, network, bound, data):
    report, said = compiled(graft, tmp_path, "--max-error", bound, *data)
    tried = {row["precision"]: row for row in report["tried"]}
    assert list(tried) == ["fp32", "bf16", "fp16", "int8"]
    chosen = [row for row in report["tried"] if row["chosen"]]
    assert len(chosen) == 1 and chosen[0]["precision"] == report["precision"] and chosen[0]["within_bound"]
    for row in report["tried"]:
        if row["error"] is None:
            assert row["note"], row
            continue
        assert row["within_bound"] == (row["error"] <= bound)
        if row["within_bound"]:
            assert chosen[0]["milliseconds"] <= row["milliseconds"] / 0.97
    assert report["random_inputs"] == (not data)
    assert f"precision auto: {report['precision']}, the fastest within the bound" in said
    if bound < 1e-6:
        assert report["precision"] == "fp32" and "the best that was found has" in tried["int8"]["note"]
    elif bound == 0.5:
        kind = "static" if data else "dynamic"
        assert kind in tried["int8"]["note"]
    x = np.random.default_rng(9).standard_normal((5, 256)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    assert graft("run", "net.graft", "--input", "x.npy", "--output", "y.npy").returncode == 0
    exact = in_onnxruntime(tmp_path / "net.onnx", x=x)
    assert np.abs(np.load(tmp_path / "y.npy") - exact).max() <= max(2 * bound, 1e-5) * np.ptp(exact)


def test_a_search_without_time_takes_fp32_and_says_why(graft, tmp_path, network):
    report, _ = compiled(graft, tmp_path, "--max-error", "0.5", "--search-limit", "0")
    assert report["precision"] == "fp32"
    assert all("not tried" in row["note"] for row in report["tried"][1:])


def test_the_page_has_what_was_tried(graft, tmp_path, network):
    compiled(graft, tmp_path, "--max-error", "0.5", "--html", "report.html")
    assert "id=\"tried\"" in (tmp_path / "report.html").read_text()


def test_without_a_bound_it_says_what_to_do(graft, tmp_path, network):
    done = graft("compile", "net.onnx", "--precision", "auto", "-o", "net.graft")
    assert done.returncode == 2 and "--max-error 0.01" in done.stderr and not (tmp_path / "net.graft").exists()
    done = graft("run", "net.onnx", "--precision", "auto", "--input", "samples.npy")
    assert done.returncode == 2 and "graft compile MODEL --precision auto --max-error 0.01" in done.stderr
    done = graft("convert", "net.onnx", "--precision", "auto", "-o", "q.onnx")
    assert done.returncode == 2


def test_the_deadline_ends_the_search(graft, tmp_path, network):
    done = graft("compile", "net.onnx", "--precision", "auto", "--max-error", "0.5", "--deadline", "0.01", "-o",
                 "net.graft")
    assert done.returncode == 1 and "deadline" in done.stderr and not (tmp_path / "net.graft").exists()
