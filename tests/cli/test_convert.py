# SPDX-License-Identifier: Apache-2.0
"""`graft convert`: models of mixed precision in the format that they came in."""

import json
import pathlib
import re
import struct

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper


def record(name, array):
    """An array as .params has it, and its name."""
    shape = struct.pack(f"<i{array.ndim}q", array.ndim, *array.shape)
    return struct.pack("<Ii", 0xF993FAC9, 0) + shape + struct.pack("<iii", 1, 0, 0) + array.tobytes(), name


@pytest.fixture
def network(tmp_path):
    """softmax(x w) as files of MXNet."""
    nodes = [{"op": "null", "name": "data", "inputs": []}, {"op": "null", "name": "w", "inputs": []},
             {"op": "FullyConnected", "name": "fc", "attrs": {"no_bias": "True", "num_hidden": "2"},
              "inputs": [[0, 0, 0], [1, 0, 0]]}, {"op": "softmax", "name": "sm", "inputs": [[2, 0, 0]]}]
    (tmp_path / "net-symbol.json").write_text(json.dumps(
        {"nodes": nodes, "arg_nodes": [0, 1], "heads": [[3, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}}))
    body, name = record("arg:w", np.array([[1, 2], [3, 4]], np.float32))
    (tmp_path / "net-0000.params").write_bytes(
        struct.pack("<QQQ", 0x112, 0, 1) + body + struct.pack("<QQ", 1, len(name)) + name.encode())
    return tmp_path


def operators(path):
    return [node["op"] for node in json.loads(path.read_text())["nodes"] if node["op"] != "null"]


def test_a_symbol_and_its_parameters(graft, network):
    done = graft("convert", "net-symbol.json", "--params", "net-0000.params", "--precision", "fp16", "-o", "mixed")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "mixed-symbol.json: 2 amp_cast, 0 amp_multicast; 1 of 1 parameters are float16\n"
    assert operators(network / "mixed-symbol.json") == ["amp_cast", "FullyConnected", "amp_cast", "softmax"]
    assert (network / "mixed-0000.params").read_bytes().find(np.array([1, 2, 3, 4], np.float16).tobytes()) > 0
    again = graft("convert", "mixed-symbol.json", "--params", "mixed-0000.params", "--precision", "fp16",
                  "-o", "twice-symbol.json")
    assert again.stdout.startswith("twice-symbol.json: 0 amp_cast"), again.stderr
    for ending in ("-symbol.json", "-0000.params"):
        assert (network / f"twice{ending}").read_bytes() == (network / f"mixed{ending}").read_bytes()


def test_lists_and_parameters_that_are_cast_later(graft, network):
    (network / "lists.json").write_text('{"fp32_ops": ["FullyConnected"]}')
    words = ["convert", "net-symbol.json", "--precision", "bf16", "-o", "mixed"]
    assert graft(*words, "--lists", "lists.json").returncode == 0
    assert operators(network / "mixed-symbol.json") == ["FullyConnected", "softmax"]
    assert graft(*words, "--cast-parameters-later").returncode == 0
    assert operators(network / "mixed-symbol.json").count("amp_cast") == 3


@pytest.mark.parametrize("words, part", [
    (["net-symbol.json", "-o", "net"], "--output"),
    (["net-symbol.json", "-o", "net.json"], "ends with -symbol.json"),
    (["missing-symbol.json", "-o", "mixed"], "missing-symbol.json"),
    (["missing.onnx", "-o", "mixed"], "missing.onnx"),
    (["net-symbol.json", "--lists", "net-0000.params", "-o", "mixed"], "is no JSON"),
    (["net-symbol.json", "--params", "net-symbol.json", "-o", "mixed"], "no list of MXNet's arrays"),
    (["net-0000.params", "-o", "mixed"], "this is not an ONNX model"),
])
def test_what_cannot_be_converted(graft, network, words, part):
    done = graft("convert", "--precision", "fp16", *words)
    assert done.returncode != 0 and part in done.stderr, done.stderr
    assert not (network / "mixed-symbol.json").exists()


def weight(name, *shape):
    random = np.random.default_rng(len(name) + sum(shape))
    return numpy_helper.from_array((random.standard_normal(shape) * 0.3).astype(np.float32), name)


def onnx_network(opset=17):
    """Convolution, normalisation, a branch that reads a value from around it, products, a constant node, softmax."""
    node = helper.make_node

    def branch(op):
        return helper.make_graph([node(op, ["pooled"], ["b"])], op, [],
                                 [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)])
    nodes = [
        node("Conv", ["x", "cw", "cb"], ["c"], name="conv"),
        node("Relu", ["c"], ["r"]),
        node("GlobalAveragePool", ["r"], ["pooled"]),
        node("If", ["flag"], ["branch"], then_branch=branch("Neg"), else_branch=branch("Abs")),
        node("Add", ["pooled", "branch"], ["sum"]),
        node("Flatten", ["sum"], ["flat"]),
        node("LayerNormalization", ["flat", "scale", "shift"], ["norm"]),
        node("Constant", [], ["half"], value=numpy_helper.from_array(np.float32(0.5))),
        node("Mul", ["norm", "half"], ["halved"]),
        node("Gemm", ["halved", "gw", "gb"], ["logits"], name="gemm"),
        node("Softmax", ["logits"], ["p"]),
        node("Exp", ["logits"], ["e"]),
        node("ReduceSum", ["e"], ["total"], keepdims=0),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
               for name, shape in (("p", [2, 5]), ("logits", [2, 5]), ("total", []))]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 8, 8]),
                       helper.make_tensor_value_info("flag", TensorProto.BOOL, [])], outputs,
        [weight("cw", 6, 3, 3, 3), weight("cb", 6), weight("scale", 6), weight("shift", 6), weight("gw", 6, 5),
         weight("gb", 5)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                              ir_version=8 if opset < 20 else 10)
    model = onnx.shape_inference.infer_shapes(model)
    onnx.checker.check_model(model, full_check=True)
    return model


def run_onnx(path):
    x = np.random.default_rng(3).standard_normal((2, 3, 8, 8)).astype(np.float32)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x, "flag": np.array(True)})


def test_an_onnx_model_runs_in_onnxruntime_with_its_own_inputs_and_outputs(graft, tmp_path):
    onnx.save(onnx_network(), tmp_path / "net.onnx")
    done = graft("convert", "net.onnx", "--precision", "fp16", "-o", "mixed.onnx")
    assert done.returncode == 0, done.stderr
    mixed = onnx.load(tmp_path / "mixed.onnx")
    onnx.checker.check_model(mixed, full_check=True)
    kinds = {tensor.name: tensor.data_type for tensor in mixed.graph.initializer}
    assert kinds["cw"] == kinds["gw"] == TensorProto.FLOAT16
    inferred = onnx.shape_inference.infer_shapes(mixed, strict_mode=True)
    types = {info.name: info.type.tensor_type.elem_type for info in inferred.graph.value_info}
    products = {node.op_type: types[node.output[0]] for node in mixed.graph.node if node.op_type in ("Conv", "Exp")}
    assert products == {"Conv": TensorProto.FLOAT16, "Exp": TensorProto.FLOAT}
    casts = [(node.input[0], node.attribute[0].i) for node in mixed.graph.node if node.op_type == "Cast"]
    assert len(casts) == len(set(casts)) and done.stdout.startswith(f"mixed.onnx: {len(casts)} Cast; ")
    for here, expected in zip(run_onnx(tmp_path / "mixed.onnx"), run_onnx(tmp_path / "net.onnx")):
        assert here.dtype == np.float32
        np.testing.assert_allclose(here, expected, rtol=0.02, atol=0.02)
        assert (here != expected).any(), "it computes in f32"
    again = graft("convert", "mixed.onnx", "--precision", "fp16", "-o", "twice.onnx")
    assert again.stdout.startswith("twice.onnx: 0 Cast; "), again.stderr


def test_lists_for_an_onnx_model(graft, tmp_path):
    onnx.save(onnx_network(), tmp_path / "net.onnx")
    (tmp_path / "lists.json").write_text('{"excluded_sym_names": ["conv"], "fp32_ops": ["Gemm"]}')
    words = ("convert", "net.onnx", "--precision", "fp16", "-o", "mixed.onnx", "--lists", "lists.json")
    assert graft(*words).stdout.startswith("mixed.onnx: 0 Cast; 0 of"), graft(*words).stderr
    (tmp_path / "lists.json").write_text('{"fp32_ops": ["Gem"]}')
    assert "did you mean 'Gemm'" in graft(*words).stderr


@pytest.mark.parametrize("opset, low", [(17, {"Gemm"}), (22, {"Conv", "Gemm"})])
def test_bfloat16_goes_where_the_models_opset_has_it(graft, tmp_path, opset, low):
    onnx.save(onnx_network(opset), tmp_path / "net.onnx")
    done = graft("convert", "net.onnx", "--precision", "bf16", "-o", "mixed.onnx")
    assert done.returncode == 0, done.stderr
    mixed = onnx.load(tmp_path / "mixed.onnx")
    onnx.checker.check_model(mixed, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(mixed, strict_mode=True)
    types = {info.name: info.type.tensor_type.elem_type for info in inferred.graph.value_info}
    made = {node.op_type: types.get(node.output[0]) for node in mixed.graph.node}
    assert {op for op in ("Conv", "Gemm", "Exp") if made[op] == TensorProto.BFLOAT16} == low
    assert {info.type.tensor_type.elem_type for info in mixed.graph.output} == {TensorProto.FLOAT}
    compared = graft("compare", "net.onnx", "mixed.onnx", "--tune", "off", "--rtol", "0.05", "--atol", "0.05")
    assert compared.returncode == 0, compared.stdout + compared.stderr
    exact = graft("compare", "net.onnx", "mixed.onnx", "--tune", "off", "--rtol", "0", "--atol", "1e-6")
    assert exact.returncode != 0, "it computes in f32"
    again = graft("convert", "mixed.onnx", "--precision", "bf16", "-o", "twice.onnx")
    assert again.stdout.startswith("twice.onnx: 0 Cast; "), again.stderr


def test_an_opset_without_bfloat16_is_refused_with_the_remedy(graft, tmp_path):
    model = helper.make_model(helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])], [weight("w", 3, 4)]),
        opset_imports=[helper.make_opsetid("", 12)], ir_version=7)
    onnx.save(model, tmp_path / "net.onnx")
    done = graft("convert", "net.onnx", "--precision", "bf16", "-o", "mixed.onnx")
    assert done.returncode != 0 and "the model is of opset 12: export it for a newer one" in done.stderr


def test_the_rows_of_bfloat16_are_what_onnx_says():
    first = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        allowed = {each.type_param_str: set(each.allowed_type_strs) for each in schema.type_constraints}
        used = [allowed.get(each.type_str, {each.type_str}) for each in (*schema.inputs, *schema.outputs)]
        floats = [types for types in used if "tensor(float)" in types]
        if not schema.domain and floats and all("tensor(bfloat16)" in types for types in floats):
            first[schema.name] = min(first.get(schema.name, 1000), schema.since_version)
    source = pathlib.Path(__file__).parents[2] / "src/export/onnx/bfloat16_opsets.inc"
    rows = {op: int(opset) for opset, op in re.findall(r"^GRAFT_BFLOAT16\((\d+), (\w+)\)", source.read_text(), re.M)}
    assert rows == {op: opset for op, opset in first.items() if "Sequence" not in op and "Optional" not in op}


def histories():
    """The schemas of each operator of ai.onnx, by opset."""
    found = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            found.setdefault(schema.name, {})[schema.since_version] = schema
    return found


def types_of(schema):
    """The types that values of an operator may have."""
    allowed = {name for each in schema.type_constraints for name in each.allowed_type_strs}
    return allowed | {each.type_str for each in (*schema.inputs, *schema.outputs) if "(" in each.type_str}


# These came to ONNX itself after its oldest opset here, which the writer knows of any operator.
LATER = re.compile("bfloat16|float8|float4|int4|int2|complex|optional|seq")
OF_DTYPES = {"Float16": "float16", "Int16": "int16", "Uint16": "uint16", "String": "string", "Bool": "bool"}


def test_the_rows_of_oldest_opsets_are_what_onnx_says():
    text = (pathlib.Path(__file__).parents[2] / "src/export/onnx/oldest_opsets.inc").read_text()
    oldest = {op: int(opset) for opset, op in re.findall(r"^GRAFT_OLDEST_OPSET\((\d+), (\w+)\)", text, re.M)}
    attributes = {(op, name): int(opset) for opset, op, name in
                  re.findall(r"^GRAFT_OPSET_OF_ATTRIBUTE\((\d+), (\w+), (\w+)\)", text, re.M)}
    types = {(op, f"tensor({OF_DTYPES[name]})"): int(opset) for opset, op, name in
             re.findall(r"^GRAFT_OPSET_OF_TYPE\((\d+), (\w+), (\w+)\)", text, re.M)}
    assert len(oldest) > 60
    for op, first in oldest.items():
        versions = {opset: schema for opset, schema in histories()[op].items() if opset >= first}
        newest, begin = versions[max(versions)], versions[first]
        assert [each.option for each in begin.inputs] == [each.option for each in newest.inputs], op
        assert len(begin.outputs) == len(newest.outputs), op
        for opset, schema in versions.items():
            for name, attribute in schema.attributes.items():
                known = begin.attributes.get(name)
                assert known or attributes[op, name] <= opset, (op, name, opset)
                assert not known or known.default_value == attribute.default_value, (op, name)
            assert not set(begin.attributes) - set(schema.attributes), op
            if first <= 17 < opset <= 26:  # what is newer, definitions of ours do not have
                before = types_of(versions[max(each for each in versions if each < opset)])
                for name in types_of(schema) - before:
                    assert LATER.search(name) or types[op, name] == opset, (op, name, opset)


@pytest.mark.parametrize("words, rows", [
    ((), {"Conv": "target", "Softmax": "none", "Exp": "float32", "ScatterND": "none"}),
    (("--front-end", "mxnet"), {"Convolution": "target", "softmax": "float32", "elemwise_add": "widest",
                                "Activation": "none"}),
    (("--front-end", "tensorflow"), {"Conv2D": "target", "Exp": "float32", "AddV2": "widest", "Relu": "none"}),
    (("--front-end", "aten"), {"aten::conv2d": "target", "aten::exp": "float32", "aten::add.Tensor": "widest"}),
])
def test_the_default_lists_are_printed(graft, words, rows):
    done = graft("ops", "--precision", "fp16", *words)
    printed = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()[1:-1]}
    assert {op: printed[op] for op in rows} == rows
    assert "act_type is softrelu" in done.stdout or "mxnet" not in words
    assert "has no lists" in graft("ops", "--precision", "fp16", "--front-end", "jax").stderr
