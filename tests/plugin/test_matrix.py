# SPDX-License-Identifier: Apache-2.0
"""Operators as plugins: the table names all that are promised, and a part of it is made again."""

import matrix
import operators
import pytest
import workshop

TABLE = matrix.read_table()
# Sizes that values decide, types that no case of the operator has, no node with tensors alone.
WITHOUT = {"MelWeightMatrix", "ConcatFromSequence", "ParametricSoftplus"}
# Every type of an operator of each kind, and one that is refused.
AGAIN = ["BitShift", "OneHot", "Where", "MaxRoiPool", "Unique", "Det", "QLinearConv", "Col2Im"]


def test_every_operator_is_in_the_table():
    assert len(operators.TPAT) == 124 and len(operators.TPAT) + len(operators.COMPILE_TIME) == 137
    assert len(operators.REFUSED) == 46
    assert {op for op, _ in TABLE} == set(operators.PLUGINS)


def test_what_is_no_plugin_has_a_reason():
    without = {op for op in operators.PLUGINS if all(why for (name, _), why in TABLE.items() if name == op)}
    assert without == WITHOUT, "of these there are none at all"
    assert all(why.strip() for why in TABLE.values() if why)


@pytest.fixture(scope="module")
def cases():
    return matrix.collected()


@pytest.mark.parametrize("op", AGAIN)
def test_the_table_is_what_is_made(cases, op):
    chosen = {key for key in TABLE if key[0] == op}
    made = {(name, kind): why for name, kind, _, why in matrix.rows_of(cases, chosen, 2)}
    assert made == {key: TABLE[key] for key in chosen}


RUN = [("BitShift", "i32"), ("OneHot", "f16"), ("Where", "bf16"), ("Det", "f32"), ("EyeLike", "bool"), ("LSTM", "f32"),
       ("QLinearConv", "i8"), ("ScatterND", "i64"), ("NegativeLogLikelihoodLoss", "f32"), ("Resize", "f32"),
       ("Compress", "bool"), ("Unique", "f32")]


def test_a_library_of_several_computes_what_the_interpreter_does(headers, harness, cases, tmp_path):
    runs = matrix.write_bundle(list(matrix.rows_of(cases, set(RUN), 2)), tmp_path / "made", emulated=True)
    assert len(runs) == len(RUN)
    for run in runs:
        program, library, *words = run.split()
        said = workshop.checked([tmp_path / "made" / program, f"./{library}", *words], cwd=tmp_path / "made",
                                env=workshop.preloaded("libcuda.so.1"))
        assert "agrees plainly and in a graph" in said, said
