# SPDX-License-Identifier: Apache-2.0
"""Operator by element type: each cell that a schema of the onnx package allows is tested, or listed with the reason.

A cell is an operator, a type variable of its schema, and a type that the schema allows for it. It is tested by a node
case of the operator: as it is where the variable has that type there, else with the inputs of that variable converted
(and the attribute that says the type of a result set). What it should give is what onnx's reference evaluator gives for
the same, or, where that does not take the type, what it gives for the case's own types with inputs and results rounded.
"""

import collections
import dataclasses
import pathlib

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import library

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "operator_types.md"
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
RESULT_TYPES = ("to", "dtype", "output_dtype", "output_datatype")
MOST_CASES = 6
CODES = {f"tensor({onnx.TensorProto.DataType.Name(code).lower()})": code
         for code in onnx.TensorProto.DataType.values() if code}
TOLERANCES = {"float16": 1e-2, "bfloat16": 8e-2, "float8e4m3fn": 0.13, "float8e4m3fnuz": 0.13, "float8e5m2": 0.26,
              "float8e5m2fnuz": 0.26, "float8e8m0": 1.0, "float4e2m1": 0.5, "float": 1e-4, "double": 1e-4}


@dataclasses.dataclass(frozen=True, order=True)
class Cell:
    """An operator, a variable of its schema, a type."""

    operator: str
    variable: str
    type: str

    @property
    def name(self):
        """The three words."""
        return f"{self.operator} {self.variable} {self.type}"


def schemas():
    """The live operators of ONNX by name, each as it is now."""
    newest = {f"{schema.domain}.{schema.name}".lstrip("."): schema for schema in defs.get_all_schemas()
              if schema.domain in DOMAINS and not schema.deprecated}
    return dict(sorted(newest.items()))


def cells_of(name, schema):
    """The cells of one operator."""
    return [Cell(name, constraint.type_param_str, allowed) for constraint in schema.type_constraints
            for allowed in sorted(constraint.allowed_type_strs)]


def variables(schema, formals, values):
    """The type variable of each value of a node; the last formal counts for all that follow."""
    formals = list(formals)
    return [formals[min(k, len(formals) - 1)].type_str if formals else "" for k in range(len(values))]


class Variant:
    """A node case with the values of one type variable in another type."""

    def __init__(self, case, schema, cell):
        self.case, self.cell, self.code = case, cell, CODES[cell.type]
        node = case.model.graph.node[0]
        self.inputs = variables(schema, schema.inputs, node.input)
        self.outputs = variables(schema, schema.outputs, node.output)
        self.model = onnx.ModelProto.FromString(case.model.SerializeToString())
        self.node = self.model.graph.node[0]

    def is_meant(self):
        """Whether the case has a tensor of the variable."""
        return self.cell.variable in self.inputs or self.cell.variable in self.outputs

    def convert(self):
        """Changes the model; gives the inputs by name."""
        dtype = helper.tensor_dtype_to_np_dtype(self.code)
        kinds = dict(zip(self.node.input, self.inputs))
        given = {}
        for value, data in zip(self.model.graph.input, self.case.data_sets[0][0]):
            if isinstance(data, str):
                raise library.GraftError(data)
            array = numpy_helper.to_array(data)
            if dtype.kind in "iu" and array.dtype.kind == "f":
                array = np.nan_to_num(array, nan=0, posinf=1, neginf=-1)  # no integer is infinite
            if kinds.get(value.name) == self.cell.variable and data.data_type != self.code:
                array = converted(array, dtype)
                value.type.tensor_type.elem_type = self.code
            given[value.name] = array
        if self.cell.variable in self.outputs and self.cell.variable not in self.inputs:
            self.set_result_type()
        for value in self.model.graph.output:
            if value.type.WhichOneof("value") != "tensor_type":
                raise library.GraftError("sequences, maps and optionals cannot be handed over")
        return given

    def set_result_type(self):
        """The attribute that says what the result is."""
        known = {value.name for value in self.node.attribute}
        schema = defs.get_schema(self.node.op_type, self.node.domain)
        for name in RESULT_TYPES:
            if name in known or name in schema.attributes:
                kept = [value for value in self.node.attribute if value.name != name]
                del self.node.attribute[:]
                self.node.attribute.extend([*kept, helper.make_attribute(name, self.code)])
                return

    def expected(self, given):
        """What the results should be, and who says so."""
        try:
            results = ReferenceEvaluator(self.model).run(None, given)
            typed = [self.out_type(k, result) for k, result in enumerate(results)]
            return [np.asarray(result).astype(dtype) for result, dtype in zip(results, typed)]
        except Exception:  # the evaluator has exceptions of its own
            own = {value.name: numpy_helper.to_array(data).dtype
                   for value, data in zip(self.case.model.graph.input, self.case.data_sets[0][0])}
            wide = {name: array.astype(own[name]) for name, array in given.items()}
            results = ReferenceEvaluator(self.case.model).run(None, wide)
            typed = [self.out_type(k, result) for k, result in enumerate(results)]
            return [np.asarray(result).astype(dtype) for result, dtype in zip(results, typed)]

    def out_type(self, place, result):
        """The element type of a result."""
        if self.outputs[place] == self.cell.variable:
            return helper.tensor_dtype_to_np_dtype(self.code)
        return np.asarray(result).dtype


def converted(array, dtype):
    """Values of another type, as far as it has them."""
    if array.dtype.kind in "OUS" or dtype == object:
        return np.vectorize(str, otypes=[object])(array)
    wide = array if array.dtype.kind in "biufc" else array.astype(np.float32)
    if dtype.kind == "u" or str(dtype) in ("uint4", "uint2", "float8_e8m0fnu"):
        wide = np.abs(wide) if wide.dtype.kind != "b" else wide
    return wide.astype(dtype)


def check(graft, variant, device):
    """Why a variant departs from what it should give, or None."""
    given = variant.convert()
    wanted = variant.expected(given)
    for value, array in zip(variant.model.graph.output, wanted):
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    feeds = [(name, numpy_helper.from_array(array)) for name, array in given.items()]
    options = [("mode", "generated"), ("device", device)]
    with library.Engine(graft, variant.model.SerializeToString(), options) as engine:
        results = engine.run(feeds, [value.name for value in variant.model.graph.output])
    for array, proto in zip(wanted, results):
        got = numpy_helper.to_array(proto)
        if got.dtype != array.dtype or got.shape != array.shape:
            return f"{got.dtype}{list(got.shape)}, expected {array.dtype}{list(array.shape)}"
        name = onnx.TensorProto.DataType.Name(proto.data_type).lower()
        tolerance = max(TOLERANCES.get(name, 0), TOLERANCES.get(variant.cell.type[7:-1], 0))
        if name == "string":
            return None if (got == array).all() else "the texts differ"
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        scale = max(1e-6, np.abs(array.astype(wide)[np.isfinite(array.astype(wide))]).max(initial=0))
        try:
            np.testing.assert_allclose(got.astype(wide), array.astype(wide), rtol=tolerance, atol=tolerance * scale)
        except AssertionError as difference:
            return " ".join(str(difference).split())[:160]
    return None


def single_nodes(cases, known):
    """The cases of each operator that are its node alone, in its present version."""
    found = collections.defaultdict(list)
    for case in cases:
        nodes = case.model.graph.node
        if len(nodes) != 1 or not case.data_sets or case.model.graph.initializer:
            continue
        name = f"{nodes[0].domain}.{nodes[0].op_type}".lstrip(".")
        version = next((each.version for each in case.model.opset_import if each.domain == nodes[0].domain), 0)
        if name in known and known[name].since_version <= version:
            found[name].append(case)
    return found


def reason_of(graft, cell, schema, cases, device):
    """None when the cell is tested and right, else why not."""
    if cell.type not in CODES:
        return "sequences, optionals and maps cannot be handed over here"
    if not cases:
        return "the onnx package has no node case of it in its present version"
    reason = f"no node case has a value of {cell.variable}"
    tried = 0
    for case in cases:
        variant = Variant(case, schema, cell)
        if not variant.is_meant():
            continue
        try:
            fault = check(graft, variant, device)
        except library.GraftError as error:
            fault = str(error)
        except Exception as error:  # the case cannot be had in this type
            fault = f"no result to compare with: {type(error).__name__}"
        if not fault:
            return None
        reason = fault if tried == 0 else reason
        tried += 1
        if tried == MOST_CASES:
            break
    return reason


def without_names(reason):
    """A reason without the names of a case's nodes and values."""
    reason = reason.partition(": ")[2] if reason.startswith("node '") else reason
    return reason.replace("|", "\\|").replace("\n", " ")


def page_of(rows):
    """docs/operator_types.md: {cell: reason or None}."""
    by_operator = collections.defaultdict(list)
    for cell, reason in rows.items():
        by_operator[cell.operator].append((cell, reason))
    lines = []
    for operator, cells in sorted(by_operator.items(), key=lambda entry: entry[0].lower()):
        for variable in sorted({cell.variable for cell, _ in cells}):
            own = [(cell, reason) for cell, reason in cells if cell.variable == variable]
            tested = [cell.type.removeprefix("tensor(").rstrip(")") for cell, reason in own if not reason]
            reasons = collections.defaultdict(list)
            for cell, reason in own:
                if reason:
                    reasons[without_names(reason)].append(cell.type.replace("tensor(", "").rstrip(")"))
            listed = "; ".join(f"{', '.join(types)}: {reason}" for reason, types in reasons.items())
            lines.append(f"| `{operator}` | {variable} | {' '.join(tested)} | {listed} |")
    count = sum(1 for reason in rows.values() if not reason)
    return f"""<!-- Written by ./dev conformance --types --update; edits here are lost. -->
# Operators by element type

What the schemas of onnx {onnx.__version__} allow: {len(rows)} cells of an operator, a type variable and a type.
{count} are tested with a node case of the onnx package through generated kernels; others are listed with the reason.
A type that is listed because no case can be had in it may well run.

| operator | variable | tested | listed, and why |
| --- | --- | --- | --- |
{chr(10).join(lines)}
"""


def tested_in(page):
    """The cells that a page has as tested."""
    cells = set()
    for line in page.splitlines():
        parts = [part.strip() for part in line.split(" | ")]
        if line.startswith("| `") and len(parts) >= 3:
            cells.update(Cell(parts[0].strip("|` "), parts[1], f"tensor({word})") for word in parts[2].split())
    return cells
