# SPDX-License-Identifier: Apache-2.0
"""Symbol.optimize_for: engines in symbols, with their plans among the parameters."""

import mxnet as mx
import numpy as np
import pytest
from conftest import FAST, agrees, close, image, in_fresh_process, operators, parameters, run

import graft.mxnet

S = mx.sym
ENGINE = "_graft_engine"


def grafted(symbol, args, aux, **choices):
    """(symbol, args, aux) with engines; what was handed in stays as it is."""
    args, aux = dict(args), dict(aux)
    return symbol.optimize_for("graft", args, aux, **{**FAST, **choices}), args, aux


def test_two_engines_around_an_operator_that_stays_agree_for_any_batch(split):
    symbol, args, aux = split
    before = symbol.tojson()
    made = grafted(symbol, args, aux)
    assert operators(made[0]) == [ENGINE, "gammaln", ENGINE]
    assert symbol.tojson() == before, "the symbol that was handed in stays as it is"
    assert made[0].list_arguments() == ["data", "graft_engine0_plan", "softmax_label", "graft_engine1_plan"]
    assert set(made[1]) == set(made[0].list_arguments()), "weights that engines hold are arguments no more"
    assert made[2] == {}
    for batch in (1, 2, 7):
        agrees(symbol, args, aux, made, data=image(batch), softmax_label=np.zeros(batch))
    assert graft.mxnet.fallback_count() == 0


def test_an_executor_is_bound_by_shapes_and_reshaped_without_building_anything(split):
    symbol, args, aux = split
    made, made_args, made_aux = grafted(symbol, args, aux)
    executor = made.simple_bind(mx.cpu(), data=(2, 3, 8, 8), grad_req="null")
    executor.copy_params_from({name: value for name, value in made_args.items() if name.endswith("_plan")}, made_aux)
    executor.forward(is_train=False, data=mx.nd.array(image(2)))[0].wait_to_read()
    before = graft._graft.compilation_count()
    for batch in (2, 5, 2):
        executor = executor.reshape(partial_shaping=True, allow_up_sizing=True, data=(batch, 3, 8, 8))
        result = executor.forward(is_train=False, data=mx.nd.array(image(batch)))[0].asnumpy()
        close(result, run(symbol, args, aux, data=image(batch), softmax_label=np.zeros(batch))[0])
    assert graft._graft.compilation_count() == before


FROM_FILES = """
import sys
import mxnet as mx, numpy as np
import graft.mxnet
symbol, args, aux = mx.model.load_checkpoint(sys.argv[1], 0)
module = mx.mod.Module(symbol, label_names=["softmax_label"], context=mx.cpu())
module.bind([("data", (3, 3, 8, 8))], label_shapes=[("softmax_label", (3,))], for_training=False)
module.set_params({name: args[name] for name in args if name.endswith("_plan")}, aux)
module.forward(mx.io.DataBatch([mx.nd.array(np.load(sys.argv[1] + ".npy"))], [mx.nd.zeros(3)]), is_train=False)
np.save(sys.argv[1] + "-result.npy", module.get_outputs()[0].asnumpy())
"""


def test_a_checkpoint_holds_the_engines_and_a_module_runs_it_in_a_fresh_process(split, tmp_path):
    symbol, args, aux = split
    made, made_args, made_aux = grafted(symbol, args, aux)
    prefix = str(tmp_path / "net")
    mx.model.save_checkpoint(prefix, 0, made, made_args, made_aux)
    np.save(prefix + ".npy", image(3))
    in_fresh_process(FROM_FILES, prefix)
    close(np.load(prefix + "-result.npy"), run(symbol, args, aux, data=image(3), softmax_label=np.zeros(3))[0])


def test_the_report_names_what_stays_and_why(split):
    grafted(*split, exclude="pool")
    report = graft.mxnet.report()
    assert "stays: gammaln odd: there is no converter for gammaln" in report
    assert "stays: Pooling pool: 'pool' was excluded" in report
    assert "  Convolution conv1" in report


def test_choices_keep_parts_with_mxnet(split):
    symbol, args, aux = split
    for choices, expected in (
            ({"minimum_size": 9}, 0), ({"exclude_ops": ["Convolution", "FullyConnected"], "minimum_size": 2}, 1),
            ({"only": "conv0"}, 1), ({"most_segments": 1}, 1)):
        made = grafted(symbol, args, aux, **choices)
        assert operators(made[0]).count(ENGINE) == expected, choices
        agrees(symbol, args, aux, made, data=image(2), softmax_label=np.zeros(2))


@pytest.mark.parametrize("choices, words", [
    ({"presicion": "fp32"}, ["no option 'presicion'", "precision"]),
    ({"precision": "int8"}, ["int8 needs the ranges of activations", "bf16"]),
    ({"precision": "fp99"}, ["fp99"]),
    ({"tune": "sometimes"}, ["tune", "sometimes"]),
    ({"batch": "(8, 1, 64)"}, ["batch: '(8, 1, 64)'", "fixed"]),
    ({"join": "perhaps"}, ["join: 'perhaps'", "True"]),
    ({"minimum_size": "few"}, ["minimum-size", "few"]),
    ({"exclude_ops": ["Convolotion"]}, ["exclude-op", "Convolotion"]),
    ({"data_names": ["pixels"]}, ["data_names", "'pixels'"]),
    ({"device": "tpu"}, ["device", "tpu"]),
    ({"scratch": "theirs"}, ["scratch: 'theirs'", "own or mxnet"]),
])
def test_wrong_choices_are_errors_that_say_so(split, choices, words):
    with pytest.raises(mx.MXNetError) as failure:
        grafted(*split, **choices)
    for word in words:
        assert word in str(failure.value)


def test_an_error_is_told_once(split):
    for name in ("first_wrong", "second_wrong"):
        with pytest.raises(mx.MXNetError) as failure:
            grafted(*split, **{name: 1})
    assert "second_wrong" in str(failure.value)
    assert "first_wrong" not in str(failure.value)


def test_an_engine_that_cannot_be_built_is_counted_and_its_part_stays_with_mxnet(split):
    symbol, args, aux = split
    before = graft.mxnet.fallback_count()
    # another processor's instructions: a choice that fits no engine here
    made = grafted(symbol, args, aux, target="sm_90a")
    assert operators(made[0]).count(ENGINE) == 0
    assert graft.mxnet.fallback_count() == before + 2
    agrees(symbol, args, aux, made, data=image(2), softmax_label=np.zeros(2))
    with pytest.raises(mx.MXNetError):
        grafted(symbol, args, aux, target="sm_90a", strict=True)


def test_a_missing_parameter_is_named(split):
    symbol, args, aux = split
    del args["conv1_weight"]
    with pytest.raises(mx.MXNetError, match="'conv1_weight' has no array"):
        grafted(symbol, args, aux)


def test_shapes_that_were_not_inferred_are_an_error(split):
    symbol, args, aux = split
    with pytest.raises(mx.MXNetError, match="no inferred shape"):
        grafted(symbol, args, aux, skip_infer=True)


def test_data_whose_shape_alone_is_given_is_data(split):
    symbol, args, aux = split
    weights = {name: value for name, value in args.items() if name not in ("data", "softmax_label")}
    made = grafted(symbol, weights, aux, shape_dict={"data": (2, 3, 8, 8)})
    assert operators(made[0]).count(ENGINE) == 2
    agrees(symbol, args, aux, (made[0], {**args, **made[1]}, made[2]), data=image(4), softmax_label=np.zeros(4))


def test_variables_called_after_labels_are_what_they_are_used_for():
    x = S.FullyConnected(S.var("data"), weight=S.var("label"), num_hidden=4, no_bias=True)
    symbol = S.broadcast_mul(x, S.var("label_scale")) + S.var("soft_label")
    args, aux = parameters(symbol, data=(2, 6), label_scale=(1, 4))
    made = grafted(symbol, args, aux)
    assert operators(made[0]) == [ENGINE]
    assert set(made[0].list_arguments()) == {"data", "label_scale", "soft_label", "graft_engine0_plan"}
    for batch in (2, 3):
        data = {"data": np.full((batch, 6), 0.3), "soft_label": np.arange(batch * 4).reshape(batch, 4)}
        agrees(symbol, args, aux, made, **data)


def test_data_names_say_which_arguments_are_no_constants():
    symbol = S.broadcast_add(S.FullyConnected(S.var("pixels"), num_hidden=4, name="dense"), S.var("offset"))
    args, aux = parameters(symbol, pixels=(2, 6), offset=(1, 4))
    made = grafted(symbol, args, aux, data_names=["pixels"])
    assert set(made[0].list_arguments()) == {"pixels", "graft_engine0_plan"}
    agrees(symbol, args, aux, made, pixels=np.full((5, 6), 0.3))


def test_operators_of_several_results_cross_borders_with_each_of_them():
    parts = S.split(S.var("data"), num_outputs=3, axis=1, name="parts")
    odd = S.gammaln(parts[1] + 2)
    symbol = S.Group([parts[2] * odd, parts[0], S.concat(parts[0], odd, dim=1), odd])
    args, aux = parameters(symbol, data=(2, 6))
    made = grafted(symbol, args, aux)
    assert operators(made[0]).count(ENGINE) == 3
    agrees(symbol, args, aux, made, data=np.random.RandomState(1).uniform(0, 1, (4, 6)))


def test_the_statistics_of_a_batch_normalization_keep_it_with_mxnet_when_used():
    norm = S.BatchNorm(S.var("data"), fix_gamma=False, output_mean_var=True, name="norm")
    symbol = S.Group([S.relu(norm[0]), norm[1] * 2])
    args, aux = parameters(symbol, data=(2, 3, 4, 4))
    made = grafted(symbol, args, aux)
    assert "BatchNorm" in operators(made[0])
    agrees(symbol, args, aux, made, data=image(2, 4))


def test_a_parameter_that_mxnet_also_reads_stays_an_argument():
    weight = S.var("dense_weight")
    symbol = S.Group([S.FullyConnected(S.var("data"), weight, num_hidden=4, no_bias=True), S.gammaln(weight + 2)])
    args, aux = parameters(symbol, data=(2, 6))
    made = grafted(symbol, args, aux)
    assert operators(made[0]).count(ENGINE) == 2 and "dense_weight" in made[1]
    agrees(symbol, args, aux, made, data=np.full((3, 6), 0.4))


def test_a_loop_stays_with_mxnet_between_engines_and_inputs_may_be_outputs():
    data = S.var("data")
    dense = S.FullyConnected(data, num_hidden=4, flatten=False, name="dense")
    out, _ = S.contrib.foreach(lambda row, state: (S.gammaln(row + 9) + state, row * state), dense, S.var("state"))
    symbol = S.Group([out * 2, data, dense])
    args, aux = parameters(symbol, data=(3, 2, 5), state=(2, 4))
    made = grafted(symbol, args, aux)
    assert operators(made[0]) == [ENGINE, "_foreach", ENGINE]
    assert "its function '0' has gammaln" in graft.mxnet.report()
    agrees(symbol, args, aux, made, data=np.random.RandomState(2).uniform(-1, 1, (3, 2, 5)))


def encoder(x, mask, heads, units, name):
    """A layer as GluonNLP's BERT has it: interleaved self-attention, and a network of two layers behind it."""
    packed = S.FullyConnected(x, num_hidden=3 * units, flatten=False, name=f"{name}_packed")
    scores = S.contrib.interleaved_matmul_selfatt_qk(packed, heads=heads)
    weights = S.softmax(S.where(mask, scores, S.zeros_like(scores) - 1e18)) * mask
    mixed = S.contrib.interleaved_matmul_selfatt_valatt(packed, weights, heads=heads)
    x = S.LayerNorm(x + S.FullyConnected(mixed, num_hidden=units, flatten=False, name=f"{name}_out"))
    wide = S.LeakyReLU(S.FullyConnected(x, num_hidden=4 * units, flatten=False, name=f"{name}_wide"), act_type="gelu")
    return S.LayerNorm(x + S.FullyConnected(wide, num_hidden=units, flatten=False, name=f"{name}_narrow"))


def bert(layers=2, heads=4, units=32, words=40, longest=16):
    """(sequence, pooled) of words, segments and the length of each sentence."""
    tokens, segments, valid = S.var("data0"), S.var("data1"), S.var("data2")
    x = S.Embedding(tokens, input_dim=words, output_dim=units) + S.Embedding(segments, input_dim=2, output_dim=units)
    steps = S.contrib.arange_like(tokens, axis=1)
    x = S.broadcast_add(x, S.expand_dims(S.Embedding(steps, input_dim=longest, output_dim=units), axis=0))
    x = S.swapaxes(S.LayerNorm(x), dim1=0, dim2=1)
    mask = S.broadcast_lesser(S.reshape(steps, shape=(1, -1)), S.reshape(valid, shape=(-1, 1)))
    mask = S.broadcast_mul(S.expand_dims(mask, axis=1), S.broadcast_like(S.expand_dims(mask, axis=2) * 0 + 1,
                                                                         S.expand_dims(mask, axis=2)))
    mask = S.reshape(S.broadcast_axis(S.expand_dims(mask, axis=1), axis=1, size=heads), shape=(-3, 0, 0))
    for layer in range(layers):
        x = encoder(x, mask, heads, units, f"layer{layer}")
    first = S.reshape(S.slice_axis(x, axis=0, begin=0, end=1), shape=(-3, 0))
    return S.Group([S.swapaxes(x, dim1=0, dim2=1),
                    S.Activation(S.FullyConnected(first, num_hidden=units), act_type="tanh")])


def test_a_bert_is_one_engine_for_any_batch_and_agrees():
    symbol, length = bert(), 9

    def inputs(batch):
        random = np.random.RandomState(batch)
        return {"data0": random.randint(0, 40, (batch, length)), "data1": random.randint(0, 2, (batch, length)),
                "data2": random.randint(1, length + 1, batch)}

    args, aux = parameters(symbol, data0=(2, length), data1=(2, length), data2=(2,))
    made = grafted(symbol, args, aux, strict=True)
    assert operators(made[0]) == [ENGINE], graft.mxnet.report()
    for batch in (1, 2, 4):
        agrees(symbol, args, aux, made, **inputs(batch))


def test_a_fixed_batch_is_refused_when_it_is_another(split):
    symbol, args, aux = split
    made = grafted(symbol, args, aux, batch="fixed")
    agrees(symbol, args, aux, made, data=image(2), softmax_label=np.zeros(2))
    with pytest.raises(mx.MXNetError, match=r"shape \(3,3,8,8\), it was made for float32\[2,3,8,8\]"):
        run(*made, data=image(3), softmax_label=np.zeros(3))


def test_a_range_of_batches_is_kept(split):
    symbol, args, aux = split
    made = grafted(symbol, args, aux, batch=(2, 3, 4))
    for batch in (2, 4):
        agrees(symbol, args, aux, made, data=image(batch), softmax_label=np.zeros(batch))
    with pytest.raises(mx.MXNetError, match="batch"):
        run(*made, data=image(5), softmax_label=np.zeros(5))


def test_a_symbol_that_fits_one_batch_alone_gets_engines_for_it():
    symbol = S.reshape(S.FullyConnected(S.var("data"), num_hidden=4), shape=(2, 2, 2)) * S.var("data1", shape=(2, 2, 2))
    args, aux = parameters(symbol, data=(2, 6))
    made = grafted(symbol, args, aux)
    assert operators(made[0]) == [ENGINE]
    assert "the batch is fixed at 2" in graft.mxnet.report()
    agrees(symbol, args, aux, made, data=np.full((2, 6), 0.4))


def test_other_sizes_and_types_than_the_engine_was_made_for_are_errors(split):
    symbol, args, aux = split
    made, made_args, made_aux = grafted(symbol, args, aux)
    with pytest.raises(mx.MXNetError, match=r"made for float32\[batch,3,8,8\]: call optimize_for"):
        run(made, made_args, made_aux, data=image(2, 10), softmax_label=np.zeros(2))
    with pytest.raises(mx.MXNetError, match="another type than float32"):
        made.bind(mx.cpu(), {**made_args, "data": mx.nd.array(image(2), dtype="float64")}, aux_states=made_aux,
                  grad_req="null").forward()[0].asnumpy()


def test_a_plan_of_another_or_damaged_is_refused(split):
    symbol, args, aux = split
    made, made_args, made_aux = grafted(symbol, args, aux)
    plan = made_args["graft_engine0_plan"].asnumpy()
    for place, words in ((3, "does not"), (len(plan) // 2, "was changed")):
        damaged = plan.copy()
        damaged[place] ^= 1
        wrong = {**made_args, "graft_engine0_plan": mx.nd.array(damaged, dtype="uint8")}
        with pytest.raises(mx.MXNetError, match=words):
            # Engines are shared by content: a damaged one must not be found under the name of a sound one.
            run(made, wrong, made_aux, data=image(2), softmax_label=np.zeros(2))


def test_engines_have_no_gradients(split):
    symbol, args, aux = split
    made, made_args, made_aux = grafted(symbol, args, aux)
    gradients = {"data": mx.nd.zeros((2, 3, 8, 8))}
    with pytest.raises(mx.MXNetError):
        executor = made.bind(mx.cpu(), made_args, gradients, {"data": "write"}, made_aux)
        executor.forward(is_train=True)
        executor.backward()
        gradients["data"].wait_to_read()


def test_a_symbol_with_engines_can_be_optimised_again(split):
    symbol, args, aux = split
    once = grafted(symbol, args, aux, only="conv0")
    twice = grafted(*once)
    assert operators(twice[0]).count(ENGINE) > operators(once[0]).count(ENGINE)
    agrees(symbol, args, aux, twice, data=image(3), softmax_label=np.zeros(3))
