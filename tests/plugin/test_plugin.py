# SPDX-License-Identifier: Apache-2.0
"""Parts of models as plugins: what is written, that it compiles against TensorRT's public headers, and that it computes
what the interpreter does when a harness plays TensorRT's part on an emulated GPU."""

import os
import pathlib
import shutil
import subprocess

import onnx
import pytest
import workshop

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
VERSIONS = ["8.6.1", "10.16", "11.1"]
REGION = ["--region", "normal..h", "--name", "LayerNorm", "--dim", "batch=1:8:64"]


def graft(*words, cwd):
    return subprocess.run([workshop.COMMAND, "plugin", *map(str, words)], capture_output=True, text=True, timeout=300,
                          cwd=cwd)


def for_version(version):
    return ["--tensorrt", "8.6"] if version.startswith("8.") else []


def test_a_layer_normalisation_of_primitive_nodes_becomes_one_kernel(layer_norms, tmp_path):
    made = workshop.generate(layer_norms, tmp_path / "made", *REGION)
    [plugin] = made["plugins"]
    assert [(each["kernels"], each["launches"]) for each in plugin["targets"]] == [(1, 1), (1, 1)]
    assert [each["target"] for each in plugin["targets"]] == ["sm_80", "sm_90a"]
    assert len(plugin["nodes"]) == 9 and plugin["nodes"][0] == "a_Mean"
    before, after = onnx.load(layer_norms), onnx.load(tmp_path / "made" / "model.onnx")
    onnx.checker.check_model(after)
    [call] = [node for node in after.graph.node if node.domain == "graft"]
    assert (call.op_type, call.input, call.output) == ("LayerNorm", ["h", "scale_a", "bias_a"], ["normal"])
    assert {item.name: item.s for item in call.attribute} == {"plugin_version": b"1", "plugin_namespace": b""}
    assert [node.name for node in after.graph.node] == [
        "clamp", "a_Add", "turn", *(node.name for node in before.graph.node if node.name.startswith("b_"))]
    assert "normal" in [value.name for value in after.graph.value_info], "its type is known"


def test_the_header_of_a_plugin_reads_well(layer_norms, tmp_path):
    workshop.generate(layer_norms, tmp_path / "made", *REGION, "--target", "sm_90a")
    written, golden = (tmp_path / "made" / "LayerNorm.h").read_text(), GOLDEN / "LayerNorm.h.txt"
    if os.environ.get("GRAFT_UPDATE_GOLDEN"):
        golden.write_text(written)
    assert written == golden.read_text(), "./dev update writes it anew"


def test_nodes_that_compute_the_same_share_a_plugin(one_hots, tmp_path):
    made = workshop.generate(one_hots, tmp_path / "made", "--types", "OneHot", "--target", "sm_90a")
    assert [plugin["name"] for plugin in made["plugins"]] == ["graft_first", "graft_wide"]
    assert [(node["node"], node["plugin"]) for node in made["nodes"]] == [
        ("first", "graft_first"), ("wide", "graft_wide"), ("second", "graft_first")]
    after = onnx.load(tmp_path / "made" / "model.onnx")
    onnx.checker.check_model(after)
    assert [(node.name, node.op_type, list(node.input)) for node in after.graph.node] == [
        ("first", "graft_first", ["i"]), ("wide", "graft_wide", ["j"]), ("second", "graft_first", ["j"])]
    assert not after.graph.initializer, "what the kernels know is not handed in"
    assert "| second | graft_first |" in (tmp_path / "made" / "README.md").read_text()


def test_several_plugins_are_named_by_their_nodes(layer_norms, tmp_path):
    (tmp_path / "names.json").write_text('{"turn": "Turned", "clamp": "Clamped"}')
    made = workshop.generate(layer_norms, tmp_path / "made", "--nodes", "clamp", "--nodes", "turn,b_Mean,b_Sub",
                             "--names", tmp_path / "names.json", "--target", "sm_90a", "--batch", "2:8:64")
    assert "d.batch_ > 64" in (tmp_path / "made" / "Turned.h").read_text()
    assert [node["plugin"] for node in made["nodes"]] == ["Clamped", "Turned"]
    after = onnx.load(tmp_path / "made" / "model.onnx")
    onnx.checker.check_model(after)
    assert [node.op_type for node in after.graph.node if node.domain == "graft"] == ["Clamped", "Turned"]
    (tmp_path / "names.json").write_text('{"torn": "Turned"}')
    done = graft("model.onnx", "--nodes", "turn", "--names", "names.json", "-o", "other", cwd=tmp_path)
    assert done.returncode == 2 and "did you mean 'turn'?" in done.stderr
    (tmp_path / "names.json").write_text('["turn"]')
    done = graft("model.onnx", "--nodes", "turn", "--names", "names.json", "-o", "other", cwd=tmp_path)
    assert done.returncode == 2 and "is not an object of JSON" in done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_sources_compile_against_the_headers(headers, layer_norms, tmp_path, version):
    if version not in headers:
        pytest.skip(f"no headers of TensorRT {version}")
    workshop.generate(layer_norms, tmp_path / "made", *REGION, *for_version(version))
    workshop.checked([os.environ.get("CXX", "c++"), "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                      "-isystem", headers[version], "-isystem", workshop.toolkit() / "include",
                      tmp_path / "made" / "plugins.cpp"])


def test_kernels_compile_with_nvcc_alone(layer_norms, tmp_path):
    nvcc = shutil.which("nvcc") or (workshop.toolkit() and shutil.which("nvcc", path=workshop.toolkit() / "bin"))
    if not nvcc:
        pytest.skip("no nvcc")
    workshop.generate(layer_norms, tmp_path / "made", *REGION, "--target", "sm_90a", "--for", "cuda")
    assert not (tmp_path / "made" / "plugins.cpp").exists() and not (tmp_path / "made" / "model.onnx").exists()
    workshop.checked([nvcc, "-cubin", "-std=c++17", "-arch=sm_90a", "-o", tmp_path / "kernels.cubin",
                      tmp_path / "made" / "LayerNorm_sm_90a.cu"])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_layer_normalisation_runs_in_the_harness(headers, harness, layer_norms, tmp_path, version):
    made = tmp_path / "made"
    workshop.generate(layer_norms, made, *REGION, "--target", "sm_90a", *for_version(version), emulated=True)
    library = workshop.build_library(made, headers[version])
    refused = [([(2, 3, 40), (48,), (48,)], [(2, 3, 40)]), ([(65, 3, 48), (48,), (48,)], [(65, 3, 48)])]
    cases = workshop.write_cases(layer_norms, made / "parts" / "LayerNorm.onnx", tmp_path / "cases",
                                 [{"batch": 2, "length": 3}, {"batch": 7, "length": 33}], refused=refused)
    said = workshop.checked([harness(version), library, "LayerNorm", cases],
                            env=workshop.preloaded("libcuda.so.1"))
    assert said.count("agrees plainly and in a graph") == 4 and "all good" in said, said
    assert "axis 2 of input h is not 48" in said and "batch is more than 64" in said, said


@pytest.mark.parametrize("words, launches, slots", [
    (["--region", "share..x"], 2, True),   # several kernels, with memory between them
    (["--nodes", "flatten"], 0, False),    # a copy
])
def test_other_parts_run_in_the_harness(headers, harness, rows, tmp_path, words, launches, slots):
    version, made = "10.16", tmp_path / "made"
    [plugin] = workshop.generate(rows, made, *words, "--name", "Rows", "--target", "sm_90a", emulated=True)["plugins"]
    assert plugin["targets"][0]["launches"] == launches
    assert ("offsets[0] = end" in (made / "Rows.h").read_text()) == slots
    library = workshop.build_library(made, headers[version])
    cases = workshop.write_cases(rows, made / "parts" / "Rows.onnx", tmp_path / "cases", [{"batch": 3}, {"batch": 90}])
    said = workshop.checked([harness(version), library, "Rows", cases], env=workshop.preloaded("libcuda.so.1"))
    assert "all good" in said, said


@pytest.mark.parametrize("words, said", [
    (["--nodes", "a_Men"], "did you mean 'a_Mean'?"),
    (["--types", "ReduceMeen"], "did you mean 'ReduceMean'?"),
    (["--region", "normel..h"], "did you mean 'normal'?"),
    (["--region", "normal..y"], "do not depend on 'y'"),
    (["--region", "..h"], "is not OUT..IN"),
    (["--nodes", "a_Mean,a_Sub,a_Variance"], "choose 'a_Pow' and what leads to it too"),
    (["--nodes", "clamp", "--name", "Relu"], "is the name of an operator of the model"),
    (["--nodes", "clamp", "--name", "Clip"], "is the name of an operator of ONNX"),
    (["--nodes", "clamp", "--name", "my plugin"], "is no name for a plugin"),
    (["--nodes", "clamp", "--name", "int"], "'int' is a word of C++ or of Python"),
    (["--nodes", "clamp", "--name", "lambda", "--for", "torch"], "choose another, such as Mylambda"),
    (["--types", "Add", "--name", "Both"], "need plugins of their own"),
    (["--nodes", "clamp", "--nodes", "turn,clamp"], "'clamp' cannot be part of two plugins"),
    (["--nodes", "clamp", "--target", "sm_77"], "'sm_77' is no GPU that kernels can be made for; there are sm_80"),
    (["--nodes", "clamp", "--target", "portable"], "is no GPU"),
    (["--nodes", "clamp", "--dim", "bach=4"], "did you mean 'batch'?"),
    (["--all-unsupported", "--parser", "none"], "as its support is documented, refuses none of the model's nodes"),
])
def test_what_cannot_become_a_plugin_is_said(layer_norms, tmp_path, words, said):
    done = graft("model.onnx", *words, "-o", "made", cwd=tmp_path)
    assert done.returncode in (1, 2) and said in done.stderr, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"], "nothing is left behind"


@pytest.mark.parametrize("words, said", [
    (["--region", "y..x"], "is not closed: y is also computed from the model's input 'mask'"),
])
def test_a_part_that_a_plugin_cannot_be_is_said(rows, tmp_path, words, said):
    done = graft("model.onnx", *words, "-o", "made", cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"], "nothing is left behind"


@pytest.mark.parametrize("words, said", [
    ([], "--nodes, --types or --region, or --all-unsupported"),
    (["--nodes", "clamp", "--types", "Add"], "--nodes, --types or --region, or --all-unsupported"),
    (["--nodes", "clamp", "--for", "caffe"], "is not tensorrt, torch, tensorflow or cuda"),
    (["--nodes", "clamp", "--for", "tensortr"], "did you mean 'tensorrt'?"),
    (["--nodes", "clamp", "--for", "pytorch"], "did you mean 'torch'?"),
    (["--nodes", "clamp", "--all-unsupported"], "--nodes, --types or --region, or --all-unsupported"),
    (["--all-unsupported", "--for", "torch"], "only what TensorRT does"),
    (["--nodes", "clamp", "--tensorrt", "9"], "is not 10, 11 or 8.6"),
])
def test_wrong_use_is_said(layer_norms, tmp_path, words, said):
    done = graft("model.onnx", *words, "-o", "made", cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_a_folder_is_replaced_only_where_it_was_made_so(layer_norms, tmp_path):
    words = ["model.onnx", "--nodes", "clamp", "--target", "sm_90a"]
    assert graft(*words, "--name", "First", "-o", "made", cwd=tmp_path).returncode == 0
    assert graft(*words, "--name", "Second", "-o", "made/", cwd=tmp_path).returncode == 0
    assert not (tmp_path / "made" / "First.h").exists() and (tmp_path / "made" / "Second.h").exists()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "letter.txt").write_text("dear")
    done = graft(*words, "-o", "own", cwd=tmp_path)
    assert done.returncode == 1 and "which would go" in done.stderr
    done = graft(*words, "-o", "model.onnx/made", cwd=tmp_path)
    assert done.returncode == 1 and "name one where you may write" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "model.onnx", "own"]
    assert (tmp_path / "own" / "letter.txt").read_text() == "dear"
