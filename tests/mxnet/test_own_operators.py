# SPDX-License-Identifier: Apache-2.0
"""Operators of the user's own, which MXNet runs as `Custom`: with a definition they become parts of engines."""

import mxnet as mx
import numpy as np
import pytest
from conftest import FAST, agrees, operators, parameters

import graft.mxnet

S = mx.sym
DEFINITION = """operator example::scaled_softsign {
  "x over 1 + |x|, times scale, to a power"
  attribute power: integer = 1
  attribute shift: real
  input x: f32[..., n]
  input scale: f32[n]
  output y: f32[..., n]
  compute once over [..., i < n] { value x[..., i] / (1.0:f32 + abs(x[..., i])) * scale[i] + shift }
  compute y over [..., i < n] { value pow(once[..., i], cast<f32>(power)) }
}
"""


class ScaledSoftsign(mx.operator.CustomOp):
    """The same in NumPy."""

    def __init__(self, power, shift):
        super().__init__()
        self.power, self.shift = power, shift

    def forward(self, is_train, req, in_data, out_data, aux):
        x, scale = (each.asnumpy() for each in in_data)
        self.assign(out_data[0], req[0], mx.nd.array((x / (1 + np.abs(x)) * scale + self.shift) ** self.power))


@mx.operator.register("scaled_softsign")
class ScaledSoftsignProp(mx.operator.CustomOpProp):
    """What MXNet asks of it."""

    def __init__(self, power="1", shift="0"):
        super().__init__(need_top_grad=False)
        self.power, self.shift = int(power), float(shift)

    def list_arguments(self):
        return ["data", "scale"]

    def infer_shape(self, in_shape):
        return [in_shape[0], (in_shape[0][-1],)], [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return ScaledSoftsign(self.power, self.shift)


def network():
    x = S.FullyConnected(S.var("data"), num_hidden=5, name="before")
    x = S.Custom(data=x, scale=S.var("scale"), op_type="scaled_softsign", power=2, shift=0.25, name="own")
    return S.FullyConnected(x, num_hidden=3, name="after")


@pytest.mark.parametrize("as_file", [True, False])
def test_a_definition_makes_an_operator_of_ones_own_a_part_of_an_engine(as_file, tmp_path):
    symbol = network()
    args, aux = parameters(symbol, data=(2, 4))
    given = DEFINITION
    if as_file:
        (tmp_path / "own.graftops").write_text(DEFINITION)
        given = str(tmp_path / "own.graftops")
    made_args = dict(args)
    made = symbol.optimize_for("graft", made_args, aux, strict=True, ops=given, **FAST)
    assert operators(made) == ["_graft_engine"], graft.mxnet.report()
    for batch in (2, 5):
        agrees(symbol, args, aux, (made, made_args, aux), data=np.random.RandomState(batch).uniform(-1, 1, (batch, 4)))


def test_without_a_definition_it_stays_with_mxnet():
    symbol = network()
    args, aux = parameters(symbol, data=(2, 4))
    made_args = dict(args)
    made = symbol.optimize_for("graft", made_args, aux, **FAST)
    assert operators(made) == ["_graft_engine", "Custom", "_graft_engine"]
    agrees(symbol, args, aux, (made, made_args, aux), data=np.full((3, 4), 0.4))


@pytest.mark.parametrize("change, words", [
    (("attribute shift: real", "attribute shift: real\n  attribute other: real"), "other"),
    (("input scale: f32[n]", "input scale: f32[n]\n  input more: f32[n]"),
     "it has 2 inputs, and the definition of example::scaled_softsign 3"),
    (("scaled_softsign", "another"), "no definition is called 'scaled_softsign'"),
])
def test_a_definition_that_does_not_fit_is_told_in_the_report(change, words):
    symbol = network()
    args, aux = parameters(symbol, data=(2, 4))
    symbol.optimize_for("graft", dict(args), aux, ops=DEFINITION.replace(*change), **FAST)
    assert words in graft.mxnet.report()


def test_a_wrong_definition_is_an_error_with_its_place():
    symbol = network()
    args, aux = parameters(symbol, data=(2, 4))
    with pytest.raises(mx.MXNetError, match="line 8, column .*absolute"):
        symbol.optimize_for("graft", dict(args), aux, ops=DEFINITION.replace("abs(", "absolute("), **FAST)
