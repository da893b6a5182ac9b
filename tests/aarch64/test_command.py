# SPDX-License-Identifier: Apache-2.0
"""What a person does with the command on an Arm machine: it is named, models are compiled and run, plans taken over."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import LEAST, MAXIMUM, NEON, sve

ROWS, DEPTH, COLUMNS = 7, 33, 21


@pytest.fixture(name="network")
def fixture_network(tmp_path):
    """softmax(relu(x w + b)) with sizes that no vector divides."""
    random = np.random.default_rng(1)
    weights = random.standard_normal((DEPTH, COLUMNS)).astype(np.float32)
    bias = random.standard_normal(COLUMNS).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["s"]),
             helper.make_node("Relu", ["s"], ["r"]), helper.make_node("Softmax", ["r"], ["y"], axis=-1)]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", DEPTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", COLUMNS])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")])
    model = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), model)
    x = random.standard_normal((ROWS, DEPTH)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    sums = np.maximum(x.astype(np.float64) @ weights + bias, 0)
    shares = np.exp(sums - sums.max(axis=-1, keepdims=True))
    np.savez(tmp_path / "expected.npz", y=(shares / shares.sum(axis=-1, keepdims=True)).astype(np.float32))
    return model


def compared(tmp_path):
    """The options that run a network on the input and compare the result with NumPy's."""
    return ["--input", tmp_path / "x.npy", "--reference", tmp_path / "expected.npz", "--rtol", "1e-5", "--atol", "1e-6"]


@pytest.mark.parametrize("processor, bits, has, lacks", [
    (LEAST, 128, {"neon"}, {"dotprod", "fullfp16", "sve"}),
    ("neoverse-n1", 128, {"dotprod", "fullfp16"}, {"i8mm", "bf16", "sve"}),
    (NEON, 128, {"dotprod", "i8mm", "bf16"}, {"sve"}),
    (sve(128), 128, {"sve", "sve2"}, set()),
    (sve(256), 256, {"sve", "sve2", "i8mm", "bf16"}, set()),
    (sve(512), 512, {"sve", "sve2"}, set()),
])
def test_env_names_the_machine(emulated, processor, bits, has, lacks):
    target = emulated.target(processor)
    features = {feature[1:] for feature in target["features"].split(",")}
    assert target["architecture"] == "aarch64" and int(target["vector_bits"]) == bits
    assert has <= features and not lacks & features
    assert (target["masked_memory"] == "true") == (bits > 128)


@pytest.mark.parametrize("processor", [LEAST, "neoverse-n1", NEON, sve(128), sve(256), sve(512)])
def test_a_network_is_compiled_and_run(emulated, network, tmp_path, processor):
    emulated.good(processor, "run", network, *compared(tmp_path))
    listed = json.loads(emulated.good(processor, "cache", "list", "--json", "-"))["entries"]
    assert listed  # kernels were generated, and not the interpreter's


@pytest.mark.parametrize("target, processor", [
    ("armv8-a", LEAST), ("neoverse-n1", "neoverse-n1"), ("neoverse-n1", NEON), ("armv9-a+sve256", sve(256)),
    ("x86-64-v3", "neoverse-n1"), ("armv9-a+sve512", sve(256)), ("armv8.6-a+i8mm+bf16", LEAST),
])
def test_a_plan_made_on_another_machine_runs(emulated, native, network, tmp_path, target, processor):
    plan = tmp_path / "model.graft"
    native("compile", network, "--target", target, "--dim", "rows=1:7:64", "-o", plan)
    emulated.good(processor, "run", plan, *compared(tmp_path))


def test_one_plan_serves_both_architectures(emulated, native, network, tmp_path):
    plan = tmp_path / "model.graft"
    native("compile", network, "--target", "native", "--target", "neoverse-n1", "--dim", "rows=1:7:64", "-o", plan)
    native("run", plan, *compared(tmp_path))
    emulated.good("neoverse-n1", "run", plan, *compared(tmp_path))


@pytest.mark.parametrize("target, processor, reason", [
    ("neoverse-n1", LEAST, "it needs the processor feature fullfp16"),
    ("armv9-a", "neoverse-n1", "it needs the processor feature sve"),
    ("armv9-a+sve512", sve(256), "it needs vectors of 512 bits, and this machine's have 256"),
    ("x86-64-v3", MAXIMUM, "it was built for x86_64"),
])
def test_kernels_that_the_machine_cannot_run_are_refused(emulated, network, target, processor, reason):
    done = emulated.run(processor, "run", network, "--target", target)
    assert done.returncode == 1
    assert f"this machine cannot run it: {reason}" in done.stderr


def test_shorter_vectors_than_before_use_no_kernel_of_longer_ones(emulated, network, tmp_path):
    for bits in (512, 256, 128, 512):
        emulated.good(sve(bits), "run", network, *compared(tmp_path))


def run_with_imported_kernels(emulated, native, network, folder, target):
    """Entries of the cache before and after a run of a plan for that target, whose kernels were made on x86-64."""
    plan, archive = folder / "model.graft", folder / "kernels"
    native("compile", network, "--target", target, "--dim", "rows=1:7:64", "-o", plan)
    native("cache", "export", plan, "-o", archive)
    emulated.good("neoverse-n1", "cache", "import", archive, "--trust")
    before = json.loads(emulated.good("neoverse-n1", "cache", "list", "--json", "-"))["entries"]
    emulated.good("neoverse-n1", "run", plan, *compared(folder))
    return before, json.loads(emulated.good("neoverse-n1", "cache", "list", "--json", "-"))["entries"]


def test_kernels_of_another_architecture_in_the_cache_stay_there(emulated, native, network, tmp_path):
    before, after = run_with_imported_kernels(emulated, native, network, tmp_path, "native")
    assert before and len(after) > len(before)  # its own were made beside them


def test_kernels_made_ahead_of_time_run_without_a_generator(emulated, native, network, tmp_path):
    before, after = run_with_imported_kernels(emulated, native, network, tmp_path, "neoverse-n1")
    assert before and {entry["name"] for entry in after} == {entry["name"] for entry in before}
