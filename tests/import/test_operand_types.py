# SPDX-License-Identifier: Apache-2.0
"""src/ops/operand_types.inc against the schemas of the onnx package: what ONNX allows is not refused."""

import pathlib
import re

from onnx import defs

TABLE = pathlib.Path(__file__).resolve().parent.parent.parent / "src" / "ops" / "operand_types.inc"
FLOATS = {"float16", "float", "double", "bfloat16"}
INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
SHORT = {"f16": "float16", "f32": "float", "f64": "double", "bf16": "bfloat16", "str": "string"}
UNKNOWN = {"float6e2m3", "float6e3m2"}  # types that Graft does not have


def types_of(word):
    """The tensor types of ONNX behind a word of the table; None is every type."""
    if word == "any":
        return None
    if word == "narrow":
        return {"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0", "float4e2m1",
                "int4", "uint4", "int2", "uint2"}
    groups = {"float": FLOATS, "integer": INTEGERS, "number": FLOATS | INTEGERS}
    whole = re.sub(r"^([iu])(\d+)$", lambda m: ("u" if m[1] == "u" else "") + "int" + m[2], word)
    return groups.get(word, {SHORT.get(word, whole)})


def rows():
    """Pairs of an operator and, for each of its inputs, (letter, types)."""
    for name, text in re.findall(r'^GRAFT_OPERANDS\((\w+), "(.*)"\)$', TABLE.read_text(), re.MULTILINE):
        operands, letters = [], {}
        for part in text.split(" "):
            letter = part[0] if part[0].isupper() else ""
            words = re.sub("^[A-Z][:~]?", "", part)
            if words:
                sets = [types_of(word) for word in words.split("|")]
                types = None if None in sets else set().union(*sets)
                letters[letter] = types
            else:
                types = letters[letter]
            operands.append((letter, types))
        yield name, operands


def test_what_onnx_allows_is_not_refused():
    faults, checked = [], 0
    schemas = {schema.name: schema for schema in defs.get_all_schemas()}
    for name, operands in rows():
        schema = schemas.get(name)
        if schema is None or schema.domain:
            continue
        allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        first = {}
        for index, given in enumerate(schema.inputs):
            letter, types = operands[min(index, len(operands) - 1)]
            wanted = {match[1] for text in allowed.get(given.type_str, [given.type_str])
                      if (match := re.fullmatch(r"tensor\((.*)\)", text))} - UNKNOWN
            checked += 1
            if types is not None and not wanted <= types:
                faults.append(f"{name}: {given.name} may be {sorted(wanted - types)}")
            if letter and first.setdefault(letter, given.type_str) != given.type_str:
                faults.append(f"{name}: {given.name} need not agree with an earlier input")
    assert not faults, "\n".join(faults)
    assert checked > 250
