# SPDX-License-Identifier: Apache-2.0
"""`graft convert` of frozen graphs: TensorFlow runs what was made, with the inputs and outputs that the graph had."""

import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from conftest import graph_of, run_graph, split_network, v1, weights
from tensorflow.python.framework import kernels, op_def_registry

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOW = {"fp16": tf.float16, "bf16": tf.bfloat16}
ROUNDOFF = {"fp16": 2.0**-11, "bf16": 2.0**-8}


def convert(folder, graph_def, precision, *words):
    """The graph that the command makes, and what it prints."""
    (folder / "net.pb").write_bytes(graph_def.SerializeToString())
    command = os.path.join(os.environ.get("GRAFT_BUILD", str(ROOT / "build")), "bin", "graft")
    done = subprocess.run([command, "convert", folder / "net.pb", "--precision", precision, "-o", folder / "mixed.pb",
                           *words], capture_output=True, text=True, check=False)
    made = v1.GraphDef()
    if done.returncode == 0:
        made.ParseFromString((folder / "mixed.pb").read_bytes())
    return made, done


def types_of(graph_def):
    """The type attribute of each operator, by name."""
    return {node.name: tf.as_dtype(node.attr["T"].type) for node in graph_def.node if node.attr["T"].type}


def casts_of(graph_def):
    return [node for node in graph_def.node if node.op == "Cast"]


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("layer", ["FusedBatchNormV3", "FusedBatchNorm"])
def test_a_network_computes_in_the_low_type_and_keeps_its_inputs_and_outputs(tmp_path, image, precision, layer):
    before = graph_of(split_network)
    for node in before.node:
        if node.op == "FusedBatchNormV3" and layer == "FusedBatchNorm":  # as old files have it
            node.op = layer
            del node.attr["U"]
    after, done = convert(tmp_path, before, precision)
    assert done.returncode == 0, done.stderr
    expected = run_graph(before, ["softmax"], {"image": image(2)})[0]
    result = run_graph(after, ["softmax"], {"image": image(2)})[0]
    assert result.dtype == np.float32
    assert 0 < np.abs(result - expected).max() <= 8 * ROUNDOFF[precision] * np.abs(expected).max()
    types, low = types_of(after), LOW[precision]
    for name in ("stem/conv", "stem/FusedBatchNormV3", "stem/Relu", "head/MatMul", "head/BiasAdd"):
        assert types[name] == low, name
    assert types["Digamma"] == types["head/Mean"] == tf.float32
    normalised = next(node for node in after.node if node.name == "stem/FusedBatchNormV3")
    assert tf.as_dtype(normalised.attr["U"].type) == tf.float32
    kept = {node.name: tf.as_dtype(node.attr["dtype"].type) for node in after.node if node.op == "Const"}
    assert kept["stem/Const"] == kept["head/Const_2"] == low  # weights, converted now
    assert kept["stem/Const_1"] == kept["stem/Fill/value"] == tf.float32  # of the normalisation
    assert not [cast for cast in casts_of(after) if cast.input[0] in kept]


def test_each_tensor_is_cast_once_to_a_type_and_converting_again_changes_nothing(tmp_path):
    def build():
        x = v1.placeholder(tf.float32, [2, 4], name="x")
        products = [tf.linalg.matmul(x, weights(4, 4 + i)) for i in range(3)]
        shared = tf.nn.relu(products[0])
        tf.concat([tf.exp(shared), tf.math.log1p(shared), products[1], products[2]], 1, name="y")
    before = graph_of(build)
    after, done = convert(tmp_path, before, "fp16")
    assert done.returncode == 0, done.stderr
    read = [(cast.input[0], cast.attr["DstT"].type) for cast in casts_of(after)]
    assert len(read) == len(set(read)) and ("x", tf.float16.as_datatype_enum) in read
    assert all(cast.attr["SrcT"].type != cast.attr["DstT"].type for cast in casts_of(after))
    again, done = convert(tmp_path, after, "fp16")
    assert again == after and " 0 Cast" in done.stdout, done.stdout
    x = np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)
    np.testing.assert_allclose(run_graph(after, ["y"], {"x": x})[0], run_graph(before, ["y"], {"x": x})[0], rtol=0.02,
                               atol=0.02)


def test_frozen_variables_are_converted_behind_their_identities(tmp_path):
    def build():
        x = v1.placeholder(tf.float32, [2, 4], name="x")
        tf.identity(tf.linalg.matmul(x, tf.identity(weights(4, 3), name="w/read")), name="y")
    after, done = convert(tmp_path, graph_of(build), "fp16")
    assert done.returncode == 0, done.stderr
    assert types_of(after)["w/read"] == types_of(after)["MatMul"] == tf.float16
    assert run_graph(after, ["y"], {"x": np.ones((2, 4), np.float32)})[0].dtype == np.float32


def test_named_outputs_and_results_that_nobody_takes_keep_their_types(tmp_path):
    def build():
        x = v1.placeholder(tf.float32, [2, 4], name="x")
        product = tf.linalg.matmul(x, weights(4, 4), name="product")
        tf.split(tf.nn.relu(product, name="inner"), 2, 1, name="parts")
    x = {"x": np.ones((2, 4), np.float32)}
    after, done = convert(tmp_path, graph_of(build), "fp16", "--outputs", "inner,parts:1")
    assert done.returncode == 0, done.stderr
    assert [each.dtype for each in run_graph(after, ["inner", "parts:1"], x)] == [np.float32, np.float32]
    _, done = convert(tmp_path, graph_of(build), "fp16", "--outputs", "iner")
    assert done.returncode != 0 and "no node 'iner'; did you mean 'inner'?" in done.stderr


def test_lists_of_the_users_own(tmp_path):
    before = graph_of(split_network)
    lists = tmp_path / "lists.json"
    lists.write_text('{"fp32_ops": ["MatMul"], "excluded_sym_names": ["stem/conv"]}')
    after, done = convert(tmp_path, before, "fp16", "--lists", lists)
    assert done.returncode == 0, done.stderr
    types = types_of(after)
    assert types["head/MatMul"] == types["stem/conv"] == tf.float32 and types["head/Conv2D"] == tf.float16
    for text, part in [('{"fp32_ops": ["MatMull"]}', "did you mean 'MatMul'"),
                       ('{"fp32_ops": ["MatMul"], "target_dtype_ops": ["MatMul"]}', "take it out of one"),
                       ('{"excluded_sym_names": ["stem/cnv"]}', "no node 'stem/cnv'"),
                       ('{"data_names": ["image"]}', "says itself what its inputs are")]:
        lists.write_text(text)
        assert part in convert(tmp_path, before, "fp16", "--lists", lists)[1].stderr


def test_a_loop_reads_and_gives_f32(tmp_path):
    def build():
        x = v1.placeholder(tf.float32, [4, 4], name="x")
        v1.disable_control_flow_v2()
        made = v1.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.nn.relu(tf.linalg.matmul(y, weights(4, 4)))),
                             (tf.constant(0), tf.nn.relu(tf.linalg.matmul(x, weights(4, 4)))))
        tf.identity(made[1], name="y")
    before = graph_of(build)
    after, done = convert(tmp_path, before, "fp16")
    assert done.returncode == 0, done.stderr
    assert [name for name, kind in types_of(after).items() if kind == tf.float16 and "while/" in name]
    x = {"x": np.eye(4, dtype=np.float32)}
    np.testing.assert_allclose(run_graph(after, ["y"], x)[0], run_graph(before, ["y"], x)[0], rtol=0.01, atol=0.01)


def test_damaged_graphs_and_other_files_are_refused(tmp_path):
    (tmp_path / "net.pb").write_bytes(graph_of(split_network).SerializeToString()[:200])
    command = os.path.join(os.environ.get("GRAFT_BUILD", str(ROOT / "build")), "bin", "graft")
    for path in (tmp_path / "net.pb", tmp_path):
        done = subprocess.run([command, "convert", path, "--precision", "fp16", "-o", tmp_path / "mixed.pb"],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 1 and str(path) in done.stderr or "GraphDef" in done.stderr, done.stderr
    assert not (tmp_path / "mixed.pb").exists()


def takes(op, attribute, kind):
    """Whether TensorFlow has a kernel of a CPU for it."""
    if attribute.allowed_values.list.type and kind not in attribute.allowed_values.list.type:
        return False
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        own = [each.allowed_values.list.type for each in kernel.constraint if each.name == attribute.name]
        if kernel.device_type == "CPU" and (not own or not own[0] or kind in own[0]):
            return True
    return False


def listed(arguments):
    """The types of arguments as the table spells them."""
    names = []
    for each in arguments:
        name = each.type_attr or each.type_list_attr or tf.as_dtype(each.type).name.replace("float32", "float")
        names.append(name + ("*" if each.number_attr or each.type_list_attr else ""))
    return ",".join(names)


def test_the_table_of_types_is_what_tensorflow_says():
    source = (ROOT / "src/import/tensorflow/operator_types.inc").read_text()
    rows = re.findall(r'^GRAFT_TENSORFLOW_TYPES\((\w+), "(.*)", "(.*)", (\w+)\)$', source, re.M)
    assert len(rows) > 150
    for op, inputs, outputs, low in rows:
        definition = op_def_registry.get(op)
        attributes = {each.name: each for each in definition.attr}
        floats = [attributes[each.type_attr] for each in definition.input_arg if each.type_attr]
        main = next((each for each in floats if not each.allowed_values.list.type
                     or tf.float32.as_datatype_enum in each.allowed_values.list.type), None)
        has = [main is not None and takes(op, main, kind.as_datatype_enum) for kind in (tf.float16, tf.bfloat16)]
        word = {(True, True): "kBoth", (True, False): "kHalf", (False, True): "kBrain"}.get(tuple(has), "kNeither")
        assert (inputs, outputs, low) == (listed(definition.input_arg), listed(definition.output_arg), word), op
