# SPDX-License-Identifier: Apache-2.0
"""`matrix.py --update`: which operators become plugins, in which types, into matrix.txt: a node case of the onnx
package for each, in each type that TensorRT's plugins have, through `graft plugin`, its kernels compiled by NVRTC.
`matrix.py --bundle`: all of those as one library with the interpreter's results, into .plugin-bundle/matrix, which
tests/plugin/run_on_gpu.sh runs on a machine with a GPU. GRAFT_BUILD says which build makes them."""

import argparse
import concurrent.futures
import copy
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import warnings

import models
import numpy as np
import onnx
import operators
import workshop
from onnx import TensorProto, defs, helper, numpy_helper

TABLE = pathlib.Path(__file__).with_name("matrix.txt")
BUNDLE = workshop.ROOT / ".plugin-bundle" / "matrix"
TYPES = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16, "i8": TensorProto.INT8,
         "i32": TensorProto.INT32, "i64": TensorProto.INT64, "bool": TensorProto.BOOL}
# Of results, absolute and relative: two units in the last place of the narrow floats, and what another order of sums
# makes of fp32.
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
MOST_CASES = 4  # of an operator, that are tried for a type


def array_of(value):
    return value if isinstance(value, np.ndarray) else numpy_helper.to_array(value) if isinstance(
        value, TensorProto) else np.asarray(value)


def collected():
    """(model, arrays by input name) of cases of one node with tensors alone, by operator, small ones first."""
    from onnx.backend.test.case.node import collect_testcases  # noqa: PLC0415  # it computes all cases
    cases = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for case in found:
        graph = case.model.graph
        tensors = all(value.type.HasField("tensor_type") for value in [*graph.input, *graph.output])
        if len(graph.node) == 1 and tensors and not case.model.functions and case.data_sets:
            arrays = {value.name: array_of(array) for value, array in zip(graph.input, case.data_sets[0][0])}
            if any(array.dtype.kind not in "biufV" for array in arrays.values()):
                continue  # strings, complex numbers
            cases.setdefault(graph.node[0].op_type, []).append((case.model, arrays))
    for model, arrays in operators.own_cases():
        cases.setdefault(model.graph.node[0].op_type, []).append((model, arrays))
    for found in cases.values():
        found.sort(key=lambda case: sum(array.size for array in case[1].values()))
    return cases


def schema_of(model):
    version = next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
    return defs.get_schema(model.graph.node[0].op_type, version, "")


def variable_of(schema, names):
    """The variable for the type of what is computed with: the first of those of the node's tensors that has floats, or
    else the first."""
    formal = [*schema.inputs, *schema.outputs]
    variables = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    used = [each.type_str for each in formal if each.type_str in variables]
    wide = [name for name in used if "tensor(float)" in variables[name]]
    return (wide or used or [None])[0], variables


def retyped(model, arrays, kind):
    """The case in another type, or None where the operator has none such."""
    schema = schema_of(model)
    node = model.graph.node[0]
    variable, variables = variable_of(schema, node.input)
    word = {"f32": "float", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "i32": "int32", "i64": "int64",
            "bool": "bool"}[kind]
    if variable is None or f"tensor({word})" not in variables[variable]:
        return None
    changed, code = copy.deepcopy(model), TYPES[kind]
    numpy_type = helper.tensor_dtype_to_np_dtype(code)

    def formal_of(formals, index):
        return formals[min(index, len(formals) - 1)].type_str

    names = {name for index, name in enumerate(node.input) if formal_of(schema.inputs, index) == variable}
    names |= {name for index, name in enumerate(node.output) if formal_of(schema.outputs, index) == variable}
    may_have = {name for index, name in enumerate(node.output)
                if f"tensor({word})" in variables.get(formal_of(schema.outputs, index), ())}
    states = any(attribute.name == "dtype" for attribute in node.attribute)
    given = {value.type.tensor_type.elem_type for value in model.graph.input if value.name in names}
    if not states:  # results of a type of their own have the operand's
        names |= {value.name for value in model.graph.output
                  if value.name in may_have and value.type.tensor_type.elem_type in given}
    for value in [*changed.graph.input, *changed.graph.output]:
        if kind == "i8" and value.type.tensor_type.elem_type == TensorProto.UINT8:
            names.add(value.name)  # quantized operands of other variables
        if value.name in names:
            value.type.tensor_type.elem_type = code
    for attribute in changed.graph.node[0].attribute:
        if attribute.name == "dtype" and may_have:  # which says what the results are
            attribute.i = code
            for value in changed.graph.output:
                value.type.tensor_type.elem_type = code
    return changed, {name: array.astype(numpy_type) if name in names else array for name, array in arrays.items()}


def folded(model, arrays):
    """The case with all inputs but the first as weights."""
    changed = copy.deepcopy(model)
    kept = changed.graph.input[0]
    for value in changed.graph.input[1:]:
        changed.graph.initializer.append(numpy_helper.from_array(arrays[value.name], value.name))
    del changed.graph.input[:]
    changed.graph.input.append(kept)
    return changed, {kept.name: arrays[kept.name]}


def with_shapes(model, arrays):
    """Inputs of the arrays' own shapes; outputs without, for what is computed."""
    for value in model.graph.input:
        kind = value.type.tensor_type.elem_type
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, arrays[value.name].shape))
    return model


def plugin_of(model, name):
    """Whether a plugin can be made, and why not."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        onnx.save(model, path)
        done = subprocess.run([workshop.COMMAND, "plugin", path, "--nodes", "node", "--name", name, "--target",
                               "sm_90a", "-o", pathlib.Path(folder) / "made", "--json", "-"],
                              capture_output=True, text=True, timeout=300, check=False)
        if done.returncode == 0:
            [plugin] = json.loads(done.stdout)["plugins"]
            good = all(target["compiled"] for target in plugin["targets"])
            return good, "" if good else "its kernels are not compiled"
    said = re.sub(r"\S*/part\.onnx: ", "", done.stderr.removeprefix("graft: "))
    return False, " ".join(said.split())


def tried(cases, op, kind):
    """(case or None, why none) of an operator in a type."""
    reason = ""
    for model, arrays in cases.get(op, [])[:MOST_CASES]:
        typed = retyped(model, arrays, kind)
        if typed is None:
            continue
        ways = [typed, folded(*typed)] if len(typed[0].graph.input) > 1 else [typed]
        for changed, given in ways:
            changed.graph.node[0].name = "node"
            good, why = plugin_of(with_shapes(changed, given), f"{op}_{kind}")
            if good:
                return (changed, given), ""
            reason = reason or why
    return None, reason


def rows_of(cases, chosen, processes):
    """(operator, type, case, why none) of all operators in all types that they have, or of chosen ones alone."""
    asked = [(op, kind) for op in operators.PLUGINS for kind in TYPES if not chosen or (op, kind) in chosen]
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        for (op, kind), (case, why) in zip(asked, pool.map(lambda each: tried(cases, *each), asked)):
            if case or why:
                yield op, kind, case, why
            elif kind == "f32" and op in operators.NO_NODE:
                yield op, kind, None, operators.NO_NODE[op]


def read_table():
    """{(operator, type): why there is no plugin, or nothing}"""
    lines = [line.split(" ", 2) for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    return {(line[0], line[1]): line[2].removeprefix("plugin") for line in lines if line[1] != "-"}


def write_table(rows):
    """matrix.txt, which docs/plugins.md has a table of."""
    lines = ["# operator, type of its tensors (- for all), and `plugin` or why there is none: matrix.py --update"]
    lines += [f"{op} {kind} {'plugin' if case else why}" for op, kind, case, why in rows]
    lines += [f"{op} - compile-time or composed: {why}" for op, why in sorted(operators.COMPILE_TIME.items())]
    lines += [f"{op} - out of scope: {why}" for op, why in sorted(operators.OUT_OF_SCOPE.items())]
    TABLE.write_text("\n".join(lines) + "\n")


def write_bundle(rows, bundle, emulated=False):
    """One model of all nodes becomes one library; the harness runs each plugin of it."""
    shutil.rmtree(bundle, ignore_errors=True)
    bundle.mkdir(parents=True)
    version = "10.16"
    headers = workshop.header_folders()[version]
    good = [(f"{op}_{kind}", case) for op, kind, case, _ in rows if case]
    combined = models.combined({name: model for name, (model, _) in good})
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        onnx.save(combined, work / "matrix.onnx")
        (work / "names.json").write_text(json.dumps({f"{name}_node": name for name, _ in good}))
        words = [word for name, _ in good for word in ("--nodes", f"{name}_node")]
        workshop.generate(work / "matrix.onnx", work / "made", *words, "--names", work / "names.json", "--target",
                          "sm_90a", emulated=emulated)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            building = pool.submit(workshop.build_library, work / "made", headers)
            weights = {each.name: numpy_helper.to_array(each) for each in combined.graph.initializer}
            for name, (_, arrays) in good:
                given = {**weights, **{f"{name}_{key}": array for key, array in arrays.items()}}
                workshop.write_case(work / "made" / "parts" / f"{name}.onnx", bundle / f"cases-{name}", given,
                                    TOLERANCE)
            shutil.copy(building.result(), bundle / "libmatrix.so")
    workshop.build_harness(headers, bundle / f"harness-{version}")
    runs = [f"harness-{version} libmatrix.so {name} cases-{name}" for name, _ in good]
    (bundle / "runs.txt").write_text("\n".join(runs) + "\n")
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--update", action="store_true", help="write matrix.txt")
    parser.add_argument("--bundle", action="store_true", help="write .plugin-bundle/matrix")
    parser.add_argument("--only", action="append", default=[], metavar="OPERATOR", help="of these operators alone")
    parser.add_argument("-j", type=int, default=2, help="processes (2)")
    options = parser.parse_args()
    chosen = {(op, kind) for op in options.only for kind in TYPES}
    if options.bundle and not options.update and not chosen:
        chosen = {key for key, why in read_table().items() if not why}
    rows = list(rows_of(collected(), chosen, options.j))
    for op, kind, case, why in rows:
        print(op, kind, "plugin" if case else why, flush=True)
    if options.update:
        write_table(rows)
    if options.bundle:
        print(f"{BUNDLE}: {len(write_bundle(rows, BUNDLE))} plugins")


if __name__ == "__main__":
    main()
