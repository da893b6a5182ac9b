# SPDX-License-Identifier: Apache-2.0
"""Graft's own description of GraphDef against the installed TensorFlow's, and of the library against its version."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf
from conftest import FAST, graph_of, split_network, v1
from google.protobuf.descriptor import FieldDescriptor
from tensorflow.core.framework import attr_value_pb2, function_pb2, graph_pb2, op_def_pb2, tensor_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saver_pb2, tensor_bundle_pb2

import graft
import graft.tensorflow
from graft import hosts
from graft.tensorflow import library

ROOT = pathlib.Path(__file__).resolve().parents[2]
MESSAGES = {
    "GraphDef": graph_pb2.GraphDef, "NodeDef": graph_pb2.GraphDef.DESCRIPTOR.fields_by_name["node"].message_type,
    "AttrValue": attr_value_pb2.AttrValue, "AttrValue.ListValue": attr_value_pb2.AttrValue.ListValue,
    "NameAttrList": attr_value_pb2.NameAttrList, "TensorProto": tensor_pb2.TensorProto,
    "TensorShapeProto": attr_value_pb2.AttrValue.DESCRIPTOR.fields_by_name["shape"].message_type,
    "TensorShapeProto.Dim": attr_value_pb2.AttrValue.DESCRIPTOR.fields_by_name["shape"].message_type.nested_types[0],
    "FunctionDefLibrary": function_pb2.FunctionDefLibrary, "FunctionDef": function_pb2.FunctionDef,
    "OpDef": op_def_pb2.OpDef, "OpDef.ArgDef": op_def_pb2.OpDef.ArgDef, "OpList": op_def_pb2.OpList,
    "MetaInfoDef": meta_graph_pb2.MetaGraphDef.MetaInfoDef, "SaverDef": saver_pb2.SaverDef,
    "SignatureDef": meta_graph_pb2.SignatureDef, "TensorInfo": meta_graph_pb2.TensorInfo,
    "BundleHeaderProto": tensor_bundle_pb2.BundleHeaderProto, "BundleEntryProto": tensor_bundle_pb2.BundleEntryProto,
    "TensorSliceProto": tensor_bundle_pb2.BundleEntryProto.DESCRIPTOR.fields_by_name["slices"].message_type,
    "TensorSliceProto.Extent":
        tensor_bundle_pb2.BundleEntryProto.DESCRIPTOR.fields_by_name["slices"].message_type.nested_types[0],
    "VersionDef": graph_pb2.GraphDef.DESCRIPTOR.fields_by_name["versions"].message_type,
}
ENTRIES = {"AttrEntry", "TextEntry", "SignatureEntry", "TensorEntry"}  # of maps, as they are on the wire
WIRE = {"bytes": {"bytes", "string", "message"}, "int32": {"int32", "enum"}}
KINDS = {getattr(FieldDescriptor, name): name[5:].lower() for name in dir(FieldDescriptor) if name.startswith("TYPE_")}


def fields_of(text):
    """(message, name, number, type, repeated) of each field of our description."""
    path = []
    for line in text.splitlines():
        if opened := re.match(r"\s*(message|oneof) (\w+) \{", line):
            path.append(opened[2] if opened[1] == "message" else "")
        elif line.strip() == "}":
            path.pop()
        elif field := re.match(r"\s*(repeated |optional )?(\w+) (\w+) = (\d+)( \[packed = true\])?;", line):
            if path:
                message = ".".join(part for part in path if part)
                yield message, field[3], int(field[4]), field[2], (field[1] or "").strip() == "repeated", bool(field[5])


def test_the_fields_are_those_of_the_installed_tensorflow():
    seen = set()
    text = "".join((ROOT / f"src/import/tensorflow/{name}.proto").read_text() for name in ("graph", "saved_model"))
    for message, name, number, kind, repeated, packed in fields_of(text):
        seen.add(message)
        if message in ENTRIES:
            continue
        theirs = getattr(MESSAGES[message], "DESCRIPTOR", MESSAGES[message]).fields_by_name[name]
        allowed = WIRE.get(kind, {kind, "message"} if kind[0].isupper() else {kind})
        assert theirs.number == number and KINDS[theirs.type] in allowed, (message, name)
        assert theirs.is_repeated == repeated and theirs.is_packed == packed, (message, name)
    assert seen == {*MESSAGES, *ENTRIES}


def test_the_element_types_are_those_of_the_installed_tensorflow():
    rows = re.findall(r'TYPE\((\d+), "(\w+)"', (ROOT / "src/import/tensorflow/element_types.inc").read_text())
    assert len(rows) > 10
    for number, name in rows:
        assert tf.as_dtype(int(number)).name == {"float": "float32", "double": "float64", "half": "float16"}.get(name,
                                                                                                                 name)
        assert types_pb2.DataType.Name(int(number)) == f"DT_{name.upper()}"


def test_nothing_but_what_changes_is_written_anew():
    graph = graph_of(split_network)
    for node in graph.node:
        node.attr["a_note"].s = node.name.encode() * 3
    whole = graph.SerializeToString() + b"\xba\x3e\x05later"  # field 999, of a version to come
    made = graft.embed(whole, ["softmax"], **FAST).model
    assert made.endswith(b"\xba\x3e\x05later")
    before = {node.name: node for node in graph.node}
    kept = {node.name: node for node in v1.GraphDef.FromString(made).node if node.op != "GraftEngine"}
    assert kept["image"] == before["image"] and kept["Digamma"].attr["a_note"] == before["Digamma"].attr["a_note"]
    untouched = graft.embed(whole, ["softmax"], minimum_size=1000, **FAST).model
    assert untouched == whole


def test_placement_beside_what_has_gone_is_dropped():
    def build():
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        relu = tf.nn.relu(x + 1.0, name="relu")
        with v1.colocate_with(relu.op):
            tf.math.digamma(relu, name="y")

    graph = graph_of(build)
    assert any("_class" in node.attr for node in graph.node)
    made = graft.tensorflow.create_inference_graph(graph, ["y"], minimum_segment_size=1, **FAST)
    with v1.Graph().as_default():
        tf.import_graph_def(made, name="")


def test_another_version_of_tensorflow_is_told_before_it_is_loaded(tmp_path, monkeypatch):
    found = hosts.find("tensorflow")
    assert library.version_of(found) == tf.__version__
    other = tmp_path / found.name
    shutil.copy2(found, other)
    contents = other.read_bytes().replace(f"TensorFlow {tf.__version__}".encode(), b"TensorFlow 2.19.9")
    other.write_bytes(contents)
    monkeypatch.setattr(library, "_loaded", [])
    with pytest.raises(graft.DeviceError, match=r"built for TensorFlow 2\.19\.9 and this is"):
        graft.tensorflow.load_library(other)
    with pytest.raises(graft.DeviceError, match="is in none of"):
        graft.tensorflow.load_library(tmp_path / "nowhere.so")


@pytest.mark.parametrize("order", [("graft", "tensorflow"), ("tensorflow", "graft"),
                                   ("tensorflow", "graft.tensorflow")])
def test_both_protobufs_are_in_one_process_whichever_comes_first(tmp_path, order):
    """Graft reads models with its own, although TensorFlow shows another one to the whole process."""
    (tmp_path / "graph.pb").write_bytes(graph_of(split_network).SerializeToString())
    code = "\n".join([*(f"import {name}" for name in order),
                      f"made = graft.embed({str(tmp_path / 'graph.pb')!r}, ['softmax'], tune='off')",
                      "assert made.engines == 2",
                      "try: graft.compile(b'\\x08\\x0a\\x3a\\x02\\x12\\x00')",
                      "except graft.Error as error: print(error)",
                      "graph = tensorflow.compat.v1.GraphDef.FromString(made.model)"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
