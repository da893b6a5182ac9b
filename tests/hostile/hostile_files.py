# SPDX-License-Identifier: Apache-2.0
"""Small files that a stranger may hand in: each asks for more than it should get."""

import json
import struct
import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, STRING, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.BOOL


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def save(path, nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs,
                              [numpy_helper.from_array(array, name) for name, array in constants])
    versions = {"": 22, "ai.onnx.ml": 5, "com.microsoft": 1, "t": 1}
    opsets = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


def own_operator(path, output, body):
    """y = t::Own(x, at), whose definition is in the node."""
    text = f"operator t::Own {{\n  input x: f32[n]\n  input at: i64[m]\n  output y: f32[{output}]\n  {body}\n}}"
    node = helper.make_node("Own", ["x", "at"], ["y"], domain="t", definition=text)
    save(path, [node], [value("x", FLOAT, ["n"]), value("at", INT64, ["m"])],
         [value("y", FLOAT, [output] if output else [])])


FOLD = "left a: f32, u: i64 right b: f32, q: i64 lift"


def fold_that_reads(path, field):
    fields = {"identity": "0, 0", "combine": "a + b, u"}
    fields[field] = {"identity": "x[0], 0", "combine": "x[q], q"}[field]
    own_operator(path, "m", f"reduce y, p over [i < m] fold [k < 1] ordered {{ {FOLD} x[0], at[i] "
                            f"identity {fields['identity']} combine {fields['combine']} }}")


def fold_of_a_number(path):
    own_operator(path, "", f"reduce y, p over [] fold [k < n] {{ {FOLD} x[k], k identity 0, 0 combine a + b, 0 }}")


def unread_compact(path):
    own_operator(path, "n", "compact v count [c] over [i < n] { condition x[i] > 0 values x[i] }\n"
                            "  compute y over [i < n] { value x[i] }")


def if_without_condition(path, captured):
    branches = {}
    for name in ("then_branch", "else_branch"):
        node = helper.make_node("Neg", ["x"], [name]) if captured else helper.make_node(
            "Constant", [], [name], value=numpy_helper.from_array(np.ones(4, np.float32)))
        branches[name] = helper.make_graph([node], name, [], [value(name, FLOAT, [4])])
    save(path, [helper.make_node("If", [], ["y"], **branches)], [value("x", FLOAT, [4])], [value("y", FLOAT, [4])])


def nested_loops(path, depth, rounds):
    """Loops in each other whose limit is a constant, or the round of the loop around."""
    def body(level):
        names = {each: f"{each}{level}" for each in ("i", "go", "v", "s", "co")}
        inner = helper.make_node("Exp", [names["v"]], [names["s"]]) if level == 0 else helper.make_node(
            "Loop", ["t", "yes", names["v"]], [names["s"]], body=body(level - 1))
        return helper.make_graph(
            [inner, helper.make_node("Identity", [names["go"]], [names["co"]])], "b",
            [value(names["i"], INT64, []), value(names["go"], BOOL, []), value(names["v"], FLOAT, [2])],
            [value(names["co"], BOOL, []), value(names["s"], FLOAT, [2])])
    save(path, [helper.make_node("Loop", ["t", "yes", "x"], ["y"], body=body(depth - 1))], [value("x", FLOAT, [2])],
         [value("y", FLOAT, [2])], [("t", np.array(rounds)), ("yes", np.array(True))])


def labels(path, count):
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_int64s=list(range(count)),
                            values_int64s=list(range(count)))
    save(path, [node], [value("x", INT64, ["n"])], [value("y", INT64, ["n"])])


def tree_of_many_targets(path):
    floats = numpy_helper.from_array
    node = helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1 << 28, leaf_targetids=[0],
        leaf_weights=floats(np.ones(1, np.float32)), nodes_falseleafs=[1, 1], nodes_falsenodeids=[0, 0],
        nodes_featureids=[0, 0], nodes_modes=floats(np.zeros(2, np.uint8)),
        nodes_splits=floats(np.array([0, 1], np.float32)), nodes_trueleafs=[0, 1], nodes_truenodeids=[1, 0],
        tree_roots=[0])
    save(path, [node], [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, None)])


def concat(path, count):
    save(path, [helper.make_node("Concat", ["x"] * count, ["y"], axis=0)], [value("x", FLOAT, ["n", 4])],
         [value("y", FLOAT, None)])


def symbol(path, nodes):
    """An MXNet symbol; a node is (op, name, inputs, attributes, others)."""
    made = [{"op": op, "name": name, "inputs": [[k, 0, 0] for k in inputs], "attrs": attributes, **others}
            for op, name, inputs, attributes, others in nodes]
    variables = [k for k, node in enumerate(made) if node["op"] == "null"]
    path.write_text(json.dumps({"nodes": made, "arg_nodes": variables, "heads": [[len(made) - 1, 0, 0]]}))


DATA = ("null", "data", [], {}, {})


def operator_of_a_scalar(path, op, attributes):
    scalar = ("_npi_zeros", "z", [], {"shape": "()", "dtype": "float32"}, {})
    symbol(path, [DATA, scalar, (op, "y", [1], attributes, {})])


def many_ranges(path, count):
    ranges = [("_arange", f"n{k}", [], {"start": "0", "stop": "16777216", "dtype": "float32"}, {})
              for k in range(count)]
    symbol(path, [*ranges, ("add_n", "y", range(count), {"num_args": str(count)}, {})])


def many_subgraphs(path, count):
    empty = {"nodes": [], "arg_nodes": [], "heads": []}
    symbol(path, [DATA, ("_foreach", "N" * (1 << 20), [0], {}, {"subgraphs": [empty] * count})])


def sparse_parameters(folder, count):
    """Arrays of one row each, of which each says that it has very many."""
    def arrays(rows):
        record = b"".join((struct.pack("<Ii", 0xF993FAC9, 1), struct.pack("<iqq", 2, 0, rows),
                           struct.pack("<iqq", 2, 1, rows), struct.pack("<iii", 1, 0, 1), struct.pack("<iiq", 6, 1, 0)))
        names = b"".join(struct.pack("<Q", len(b"arg:w%d" % k)) + b"arg:w%d" % k for k in range(count))
        return struct.pack("<QQQ", 0x112, 0, count) + record * count + struct.pack("<Q", count) + names
    (folder / "sparse.params").write_bytes(arrays(1024 * len(arrays(1))))
    weights = [("null", f"w{k}", [], {}, {}) for k in range(count)]
    sums = [("sum", f"s{k}", [k], {}, {}) for k in range(count)]
    last = ("add_n", "y", range(count, 2 * count), {"num_args": str(count)}, {})
    symbol(folder / "sparse-symbol.json", [*weights, *sums, last])


def tensor_meta(dtype, sizes, strides, offset=0):
    return {"dtype": dtype, "sizes": [{"as_int": size} for size in sizes], "requires_grad": False,
            "device": {"type": "cpu", "index": None}, "strides": [{"as_int": stride} for stride in strides],
            "storage_offset": {"as_int": offset}, "layout": 7}


def program(path, weights, nodes, output, stored=b"", more="", specs=None):
    """A program of torch.export: weights by name as (dtype, sizes, strides, offset), all of one entry."""
    graph = {"inputs": [{"as_tensor": {"name": "x"}}], "nodes": nodes, "outputs": [{"as_tensor": {"name": output}}],
             "tensor_values": {"x": tensor_meta(7, (2, 3), (3, 1))}, "sym_int_values": {}, "sym_bool_values": {}}
    inputs = [{"user_input": {"arg": {"as_tensor": {"name": "x"}}}}]
    config = {}
    for name, (dtype, sizes, strides, offset) in weights.items():
        inputs.append({"parameter": {"arg": {"name": name}, "parameter_name": name}})
        config[name] = {"path_name": "weight_0", "use_pickle": False,
                        "tensor_meta": tensor_meta(dtype, sizes, strides, offset)}
    result = {"user_output": {"arg": {"as_tensor": {"name": output}}}}
    signature = {"input_specs": inputs, "output_specs": specs or [result]}
    document = {"graph_module": {"graph": graph, "signature": signature, "module_call_graph": []},
                "opset_version": {"aten": 10}, "range_constraints": {}, "schema_version": {"major": 8, "minor": 8},
                "verifiers": [], "torch_version": "2.9"}
    text = json.dumps(document)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("m/models/m.json", text[:-1] + more + "}")
        archive.writestr("m/byteorder", "little")
        archive.writestr("m/data/weights/weight_0", stored)
        archive.writestr("m/data/weights/model_weights_config.json", json.dumps({"config": config}))


def call(target, name, **arguments):
    """A node of a program; texts are tensors, numbers integers."""
    kinds = {str: lambda given: {"as_tensor": {"name": given}}, int: lambda given: {"as_int": given}}
    return {"target": f"torch.ops.aten.{target}", "name": name, "metadata": {}, "is_hop_single_tensor_return": None,
            "inputs": [{"name": key, "arg": kinds[type(given)](given), "kind": 1} for key, given in arguments.items()],
            "outputs": [{"as_tensor": {"name": name}}]}


def many_views(path, count):
    weights = {f"w{k}": (5, (1000, 1000), (1, 0), k) for k in range(count)}
    nodes = [call("add.Tensor", f"a{k}", self="w0" if k == 1 else f"a{k - 1}", other=f"w{k}") for k in range(1, count)]
    program(path, weights, nodes, f"a{count - 1}", bytes(1_100_000))


def nested(count):
    return "[" * count + "1" + "]" * count
