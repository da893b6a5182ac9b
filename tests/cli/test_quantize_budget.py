# SPDX-License-Identifier: Apache-2.0
"""The budget: the fastest network within a bound, what each layer costs, the curve, and the page."""

import json

import numpy as np
import pytest
from test_quantize import Builder, convolutional, in_onnxruntime, samples  # noqa: F401 (a fixture)
from test_report import Page


def products(path, depth=4, width=96, noisy=1):
    """A chain of products, of which one has a few weights and activations far from the others: the noisiest layer."""
    net = Builder(7)
    x = "x"
    for n in range(depth):
        weights = net.random.standard_normal((width, width)) / np.sqrt(width)
        if n == noisy:
            weights[:, :3] *= 60
        x = net.node("Relu", [net.node("MatMul", [x, net.constant(f"w{n}", weights)], f"product{n}")], f"r{n}")
    net.node("MatMul", [x, net.weights("last_w", width, 10)], "y")
    net.save(path, {"x": ["n", width]}, "y", ["n", 10])


def convert(graft, folder, *words):
    done = graft("convert", "net.onnx", "--precision", "int8", "--calibrate", "samples.npy", "-o", "q.onnx",
                 "--json", "report.json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "report.json").read_text())["quantization"], done.stdout


@pytest.fixture
def network(tmp_path):
    products(tmp_path / "net.onnx")
    np.save(tmp_path / "samples.npy", np.random.default_rng(8).standard_normal((64, 96)).astype(np.float32))


def test_a_page_without_a_bound_measures_single_layers(graft, tmp_path, network):
    report, said = convert(graft, tmp_path, "--html", "report.html")
    layers = report["layers"]
    assert [layer["precision"] for layer in layers] == ["int8"] * 5
    assert all(layer["error"] > 0 and layer["milliseconds_fp32"] > 0 for layer in layers)
    errors = [layer["error"] for layer in layers]
    assert report["error"] / 3 < np.linalg.norm(errors) < 3 * report["error"]  # they are independent
    curve = report["curve"]
    assert [point["layers"] for point in curve] == [0, 5] and curve[0]["error"] == 0
    assert [point["chosen"] for point in curve] == [False, True] and curve[1]["error"] == report["error"]
    assert "measured networks, the fastest first" in said
    text = (tmp_path / "report.html").read_text()
    page = Page(text)
    assert "http" not in text.replace("http-equiv", "")
    assert {"curve", "networks", "layers"} <= set(page.ids) and len(page.rows["layers"]) == 5


def test_layers_are_not_measured_unless_they_are_asked_for(graft, tmp_path, network):
    report, said = convert(graft, tmp_path)
    assert report["curve"] == [] and all(layer["error"] is None for layer in report["layers"])
    assert "measured networks" not in said


@pytest.mark.parametrize("share", [0.7, 0.4, 0.3])
def test_the_result_is_the_fastest_measured_network_within_the_bound(graft, tmp_path, network, share):
    free, _ = convert(graft, tmp_path)
    bound = share * free["error"]
    report, said = convert(graft, tmp_path, "--max-error", str(bound), "--html", "report.html")
    assert report["error"] <= bound and report["max_error"] == bound
    curve = report["curve"]
    assert curve[0]["layers"] == 0 and curve[1]["layers"] == 5 and not curve[1]["within_bound"]
    chosen = [point for point in curve if point["chosen"]]
    assert len(chosen) == 1 and chosen[0]["error"] == report["error"]
    within = [point for point in curve[1:] if point["within_bound"]]
    assert chosen[0]["milliseconds"] <= 1.03 * min(point["milliseconds"] for point in within)
    for layer in report["layers"]:
        assert (layer["precision"] == "int8") == (layer["reason"] == "")
    kept = [layer for layer in report["layers"] if layer["precision"] == "fp32"]
    assert kept and all("bound" in layer["reason"] or "not faster" in layer["reason"] for layer in kept)
    assert chosen[0]["layers"] == 5 - len(kept)
    assert "class=\"limit\"" in (tmp_path / "report.html").read_text()
    x = np.random.default_rng(8).standard_normal((64, 96)).astype(np.float32)
    exact, found = (in_onnxruntime(tmp_path / name, x=x) for name in ("net.onnx", "q.onnx"))
    assert np.abs(exact - found).max() <= 1.1 * bound * np.ptp(exact)


def test_what_cannot_be_met_says_the_best_and_its_time(graft, tmp_path, network):
    done = graft("convert", "net.onnx", "--precision", "int8", "--calibrate", "samples.npy", "-o", "q.onnx",
                 "--max-error", "1e-7", "--html", "report.html")
    assert done.returncode == 1 and "the best that was found has an error of" in done.stderr
    assert "ms (fp32: " in done.stderr
    assert not (tmp_path / "q.onnx").exists() and not (tmp_path / "report.html").exists()


def test_a_search_without_time_still_keeps_the_bound(graft, tmp_path, network):
    free, _ = convert(graft, tmp_path)
    report, _ = convert(graft, tmp_path, "--max-error", str(0.5 * free["error"]), "--search-limit", "0")
    assert report["error"] <= 0.5 * free["error"]
    assert all(layer["error"] is None for layer in report["layers"])


def test_convolutional_networks_with_sums_and_poolings(graft, tmp_path, samples):  # noqa: F811
    convolutional(tmp_path / "net.onnx")
    done = graft("convert", "net.onnx", "--precision", "int8", "--calibrate", "samples", "-o", "q.onnx",
                 "--json", "report.json", "--html", "report.html")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())["quantization"]
    assert all(layer["error"] > 0 for layer in report["layers"])


def test_weights_alone(graft, tmp_path, network):
    done = graft("convert", "net.onnx", "--precision", "int4", "--calibrate", "samples.npy", "-o", "q.onnx", "--json",
                 "free.json")
    assert done.returncode == 0, done.stderr
    bound = 0.6 * json.loads((tmp_path / "free.json").read_text())["quantization"]["error"]
    done = graft("compile", "net.onnx", "--precision", "int4", "--calibrate", "samples.npy", "-o", "q.graft", "--json",
                 "report.json", "--max-error", bound, "--html", "report.html")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())["quantization"]
    assert report["error"] <= bound and (tmp_path / "report.html").exists()
    assert any(layer["precision"] == "int4" for layer in report["layers"])


@pytest.mark.parametrize("words, reason", [
    (("--precision", "fp16", "--html", "page.html"), "--html are for --precision int8"),
    (("--precision", "int8", "--calibrate", "samples.npy", "--search-limit", "-1"), "--search-limit"),
    (("--precision", "int8", "--calibrate", "samples.npy", "--html", "net.onnx"), "would replace"),
])
def test_what_does_not_go_together(graft, tmp_path, network, words, reason):
    done = graft("convert", "net.onnx", *words, "-o", "q.onnx")
    assert done.returncode == 2 and reason in done.stderr and not (tmp_path / "q.onnx").exists()
