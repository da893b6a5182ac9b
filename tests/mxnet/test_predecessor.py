# SPDX-License-Identifier: Apache-2.0
"""What went wrong in MXNet-TensorRT, which divided symbols before: none of it may happen here."""

import mxnet as mx
import numpy as np
import pytest
from conftest import FAST, agrees, close, image, operators, parameters, run

import graft

S = mx.sym
ENGINE = "_graft_engine"


def divided(symbol, shapes, **choices):
    """(args, aux, (symbol, args, aux) with engines)."""
    args, aux = parameters(symbol, **shapes)
    made_args, made_aux = dict(args), dict(aux)
    made = symbol.optimize_for("graft", made_args, made_aux, strict=True, **{**FAST, **choices})
    return args, aux, (made, made_args, made_aux)


def test_a_variable_whose_name_has_label_in_it_is_not_dropped():
    x = S.FullyConnected(S.var("data"), num_hidden=4, name="labeller")
    x = S.broadcast_mul(x, S.var("labels_scale", shape=(1, 4)))
    symbol = S.broadcast_add(x, S.var("relabel_offset", shape=(1, 4)))
    args, aux, made = divided(symbol, {"data": (2, 6)}, data_names=["data"])
    assert operators(made[0]) == [ENGINE]
    agrees(symbol, args, aux, made, data=np.full((3, 6), 0.3))


def test_results_of_one_operator_keep_their_order_inside_of_an_engine_and_across_borders():
    parts = S.split(S.var("data"), num_outputs=3, axis=1, name="parts")
    symbol = S.Group([parts[2], S.gammaln(parts[0] + 2) * parts[1], parts[0] - parts[2], parts[1]])
    args, aux, made = divided(symbol, {"data": (2, 6)})
    assert "gammaln" in operators(made[0]) and "SliceChannel" not in operators(made[0])
    agrees(symbol, args, aux, made, data=np.random.RandomState(1).uniform(0, 1, (4, 6)))


@pytest.mark.parametrize("fixed", [True, False])
def test_gamma_counts_where_it_is_not_fixed_and_the_callers_array_stays(fixed):
    symbol = S.BatchNorm(S.var("data"), fix_gamma=fixed, name="norm")
    args, aux, made = divided(symbol, {"data": (2, 3, 4, 4)})
    before = args["norm_gamma"].asnumpy()
    assert operators(made[0]) == [ENGINE]
    agrees(symbol, args, aux, made, data=image(2, 4))
    np.testing.assert_array_equal(args["norm_gamma"].asnumpy(), before)


def test_statistics_of_each_channel_count_over_all_places_of_a_map():
    symbol = S.BatchNorm(S.var("data"), fix_gamma=False, name="norm")
    args, aux = parameters(symbol, data=(2, 3, 4, 4))
    aux["norm_moving_var"][:] = mx.nd.array([0.1, 1, 10])
    made_args, made_aux = dict(args), dict(aux)
    made = symbol.optimize_for("graft", made_args, made_aux, **FAST)
    agrees(symbol, args, aux, (made, made_args, made_aux), data=image(2, 4))


@pytest.mark.parametrize("name, build", [
    ("rsqrt", lambda x: S.rsqrt(S.abs(x) + 0.5)),
    ("slice", lambda x: S.slice(x, begin=(None, 1, 0), end=(None, 3, -1))),
])
def test_what_was_chosen_without_a_converter_or_had_one_and_was_not_chosen_is_in_an_engine(name, build):
    symbol = S.exp(build(S.var("data")))
    args, aux, made = divided(symbol, {"data": (2, 4, 5)})
    assert operators(made[0]) == [ENGINE], name
    agrees(symbol, args, aux, made, data=np.random.RandomState(2).uniform(-1, 1, (3, 4, 5)))


@pytest.mark.parametrize("precision, share", [("fp32", 1e-4), ("fp16", 2e-2), ("bf16", 1e-1)])
def test_weights_of_a_lower_precision_are_no_garbage(split, precision, share):
    symbol, args, aux = split
    made_args, made_aux = dict(args), dict(aux)
    made = symbol.optimize_for("graft", made_args, made_aux, precision=precision, **FAST)
    data = {"data": image(2), "softmax_label": np.zeros(2)}
    close(run(made, made_args, made_aux, **data)[0], run(symbol, args, aux, **data)[0], share)


def test_an_engine_reads_no_result_of_its_own_through_mxnet():
    x = S.FullyConnected(S.var("data"), num_hidden=4, flatten=False, name="first")
    symbol = S.FullyConnected(x + S.gammaln(S.cos(x) + 2), num_hidden=4, name="second") + S.sin(x)
    args, aux, made = divided(symbol, {"data": (2, 4)})
    assert operators(made[0]).count(ENGINE) == 2, "one would need its own result"
    agrees(symbol, args, aux, made, data=np.full((3, 4), 0.3))


def test_many_inputs_and_outputs_of_a_segment_are_all_there():
    inputs = [S.var(f"data{i}") for i in range(12)]
    symbol = S.Group([S.exp(a) * b for a, b in zip(inputs, inputs[1:])])
    args, aux, made = divided(symbol, {f"data{i}": (2, 3) for i in range(12)}, join=True)
    assert operators(made[0]) == [ENGINE]
    random = np.random.RandomState(3)
    agrees(symbol, args, aux, made, **{f"data{i}": random.uniform(-1, 1, (4, 3)) for i in range(12)})


def test_other_sizes_than_the_batch_build_nothing_and_batches_beyond_the_first_neither(split):
    symbol, args, aux = split
    made_args, made_aux = dict(args), dict(aux)
    made = symbol.optimize_for("graft", made_args, made_aux, **FAST)
    run(made, made_args, made_aux, data=image(1), softmax_label=np.zeros(1))
    before = graft._graft.compilation_count()
    for batch in (64, 3, 17):
        run(made, made_args, made_aux, data=image(batch), softmax_label=np.zeros(batch))
    assert graft._graft.compilation_count() == before
