# SPDX-License-Identifier: Apache-2.0
"""`graft check --for tensorrt` with the parser of a TensorRT that is installed: that of TensorRT-RTX comes as a package
of PyPI (see test_registry.py) and needs no GPU."""

import json
import os
import subprocess

import onnx
import pytest
import test_registry
import test_unsupported
import workshop


@pytest.fixture(name="mixed")
def fixture_mixed(tmp_path):
    onnx.save(test_unsupported.mixed_model(), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.fixture(name="folder")
def fixture_folder():
    """The folder of TensorRT-RTX's libraries."""
    runtime = test_registry.runtime()
    if runtime is None:
        pytest.skip("no TensorRT-RTX: pip install tensorrt-rtx-cu13-libs==1.7.1.116, or GRAFT_TENSORRT_RTX=FOLDER")
    return runtime.parent


def check(model, *words):
    return subprocess.run([workshop.COMMAND, "check", model, "--for", "tensorrt", *map(str, words)],
                          capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("version", ["10.16", "11.1"])
def test_functions_are_called_where_the_headers_have_them(headers, tmp_path, version):
    program = tmp_path / "interfaces"
    workshop.checked([os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-Wno-deprecated-declarations", "-isystem",
                      headers[version], "-isystem", workshop.toolkit() / "include", "-I", workshop.ROOT / "src",
                      workshop.ROOT / "tests/plugin/interfaces/main.cpp", "-o", program])
    assert workshop.checked([program]) == "all as in the headers\n"


def test_the_parser_says_what_it_refuses(folder, mixed):
    done = check(mixed, "--parser", folder, "--json", "-")
    report = json.loads(done.stdout)
    assert report["by"] == "The parser of TensorRT-RTX 1.7.1" and done.returncode == 1
    assert {each["node"]: each["reason"] for each in report["refused"]} == {
        "and_first": "it has no such operator",
        "and_again": "it has no such operator",
        "norm": "This version of TensorRT doesn't support mode than 1 outputs for LayerNormalization nodes!",
        "scatter": "ScatterND with reduction is not supported.",
        "bytes_abs": "This version of TensorRT does not support the given operator ABS with the given input data type "
                     "UINT8.",
        "unique": "it has no such operator",
        "fancy": 'creator && "Plugin not found, are the plugin name, version, and namespace correct?"',
    }, "it takes the cubic Resize and the axis of CumSum that 11 is documented to refuse"
    plugins = {each["node"]: each["plugin"] for each in report["refused"]}
    assert plugins["scatter"] == "graft_scatter" and plugins["unique"] == "graft_unique" and not plugins["fancy"]


def test_plugins_are_made_of_what_the_parser_refuses(folder, mixed, tmp_path):
    made = workshop.generate(mixed, tmp_path / "made", "--all-unsupported", "--parser", folder, "--target", "sm_90a")
    assert {each["node"] for each in made["nodes"]} == {"and_first", "and_again", "norm", "scatter", "bytes_abs",
                                                        "unique"}
    assert [each["node"] for each in made["left"]] == ["fancy"]
    assert not [path for path in (tmp_path / "made").rglob("node_*.onnx")], "what was parsed is gone"


def test_a_model_that_the_parser_takes_passes(folder, layer_norms):
    done = check(layer_norms, "--parser", folder)
    assert done.returncode == 0 and "The parser of TensorRT-RTX 1.7.1 refuses 0 nodes" in done.stdout


def test_a_folder_without_a_parser_is_named(mixed, tmp_path):
    done = check(mixed, "--parser", tmp_path)
    assert done.returncode == 1 and "the folder has no libnvonnxparser.so.11" in done.stderr
    assert str(tmp_path) in done.stderr


def test_a_parser_that_crashes_is_named(mixed, tmp_path):
    """Libraries under TensorRT's names, one of which ends its process."""
    source = tmp_path / "crash.c"
    source.write_text("#include <stdlib.h>\nint getNvOnnxParserVersion(void) { return 100; }\n"
                      "int getInferLibVersion(void) { abort(); }\n")
    for name in ("libnvinfer.so.11", "libnvonnxparser.so.11"):
        workshop.checked([os.environ.get("CC", "cc"), "-shared", "-fPIC", source, "-o", tmp_path / name])
    done = check(mixed, "--parser", tmp_path)
    assert done.returncode == 1 and "it was ended by signal 6" in done.stderr and "--parser none" in done.stderr
