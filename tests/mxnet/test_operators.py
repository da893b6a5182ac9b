# SPDX-License-Identifier: Apache-2.0
"""Operators one by one: each runs as an engine, and gives what MXNet gives, also for another batch."""

import mxnet as mx
import numpy as np
import pytest
from conftest import close, operators, parameters, run

S = mx.sym
IMAGE, MATRIX, ROWS = (2, 6, 9, 8), (3, 10), (2, 5, 6)


def unary(name, **attributes):
    """An operator of one operand."""
    return lambda x: getattr(S, name)(x, **attributes)


def with_other(name):
    """An operator of two operands of one shape."""
    return lambda x: getattr(S, name)(x, S.var("data1"))


def broadcast(name):
    """The second operand has one row."""
    return lambda x: getattr(S, name)(x, S.var("row", shape=(1, 10)))


CASES = {
    "convolution": (IMAGE, lambda x: S.Convolution(x, num_filter=4, kernel=(3, 3), pad=(1, 1))),
    "convolution_with_everything": (IMAGE, lambda x: S.Convolution(
        x, num_filter=6, kernel=(3, 2), stride=(2, 1), dilate=(1, 2), pad=(1, 2), num_group=3, no_bias=True)),
    "convolution_of_rows": (ROWS, lambda x: S.Convolution(x, num_filter=4, kernel=(3,), stride=(2,))),
    "convolution_of_volumes": ((2, 2, 4, 5, 6), lambda x: S.Convolution(x, num_filter=3, kernel=(2, 3, 3))),
    "deconvolution": (IMAGE, lambda x: S.Deconvolution(x, num_filter=4, kernel=(3, 3), stride=(2, 2), pad=(1, 1),
                                                       adj=(1, 0), no_bias=False)),
    "deconvolution_aimed": (IMAGE, lambda x: S.Deconvolution(x, num_filter=4, kernel=(4, 4), stride=(2, 2),
                                                             target_shape=(20, 18))),
    "deconvolution_of_groups": (IMAGE, lambda x: S.Deconvolution(x, num_filter=4, kernel=(2, 2), num_group=2)),
    "fully_connected": (IMAGE, lambda x: S.FullyConnected(x, num_hidden=7)),
    "fully_connected_keeping_axes": (ROWS, lambda x: S.FullyConnected(x, num_hidden=7, flatten=False, no_bias=True)),
    "batch_norm": (IMAGE, lambda x: S.BatchNorm(x, fix_gamma=False, eps=0.01)),
    "batch_norm_fixing_gamma": (IMAGE, lambda x: S.BatchNorm(x, fix_gamma=True)),
    "batch_norm_of_the_last_axis": (IMAGE, lambda x: S.BatchNorm(x, fix_gamma=False, axis=3)),
    "batch_norm_of_rows": (MATRIX, lambda x: S.BatchNorm(x, fix_gamma=False)),
    **{f"activation_{kind}": (IMAGE, unary("Activation", act_type=kind))
       for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")},
    **{f"leaky_relu_{kind}": (IMAGE, unary("LeakyReLU", act_type=kind, slope=0.3))
       for kind in ("leaky", "elu", "selu", "gelu", "prelu")},
    "leaky_relu_rrelu": (IMAGE, lambda x: S.LeakyReLU(x, act_type="rrelu")[0] * 2),
    "pooling_max": (IMAGE, unary("Pooling", kernel=(3, 2), stride=(2, 2), pad=(1, 1))),
    "pooling_by_default_strides": (IMAGE, unary("Pooling", kernel=(3, 3), pool_type="avg")),
    "pooling_full": (IMAGE, unary("Pooling", kernel=(3, 3), stride=(2, 2), pooling_convention="full")),
    "pooling_average_with_padding": (IMAGE, unary("Pooling", kernel=(3, 3), stride=(2, 2), pad=(1, 1),
                                                  pool_type="avg")),
    "pooling_average_without_padding": (IMAGE, unary("Pooling", kernel=(3, 3), stride=(2, 2), pad=(1, 1),
                                                     pool_type="avg", count_include_pad=False)),
    "pooling_average_full": (IMAGE, unary("Pooling", kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg",
                                          pooling_convention="full")),
    "pooling_sum": (IMAGE, unary("Pooling", kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="sum")),
    "pooling_lp": (IMAGE, unary("Pooling", kernel=(2, 2), stride=(2, 2), pool_type="lp", p_value=2)),
    "pooling_of_rows": (ROWS, unary("Pooling", kernel=(2,), stride=(2,), pool_type="max")),
    **{f"pooling_all_{kind}": (IMAGE, unary("Pooling", global_pool=True, kernel=(1, 1), pool_type=kind))
       for kind in ("max", "avg", "sum")},
    "adaptive_pooling": ((2, 6, 8, 8), lambda x: S.contrib.AdaptiveAvgPooling2D(x, output_size=(4, 2))),
    "softmax": (ROWS, unary("softmax", axis=1)),
    "softmax_with_temperature": (ROWS, unary("softmax", temperature=2.0)),
    "log_softmax": (ROWS, unary("log_softmax")),
    "softmin": (ROWS, unary("softmin")),
    "softmax_activation": (MATRIX, unary("SoftmaxActivation")),
    "softmax_activation_of_channels": (IMAGE, unary("SoftmaxActivation", mode="channel")),
    "softmax_output": (MATRIX, lambda x: S.SoftmaxOutput(x)),
    "softmax_output_of_channels": (IMAGE, lambda x: S.SoftmaxOutput(x, multi_output=True)),
    "softmax_output_keeping_axes": (ROWS, lambda x: S.SoftmaxOutput(x, preserve_shape=True)),
    "regression": (MATRIX, lambda x: S.LinearRegressionOutput(x * 2)),
    "logistic_regression": (MATRIX, lambda x: S.LogisticRegressionOutput(x)),
    "concat": (IMAGE, lambda x: S.Concat(x, x * 2, x + 1, dim=1)),
    "concat_of_the_last_axis": (ROWS, lambda x: S.concat(x, x * 2, dim=-1)),
    "stack": (MATRIX, lambda x: S.stack(x, x * 2, axis=1)),
    "split": (IMAGE, lambda x: S.Group([part * 2 for part in S.split(x, num_outputs=3, axis=1)])),
    "split_and_squeezed": (ROWS, lambda x: S.Group([part * 2 for part in
                                                    S.split(x, num_outputs=5, axis=1, squeeze_axis=True)])),
    "flatten": (IMAGE, unary("Flatten")),
    "reshape": (IMAGE, unary("Reshape", shape=(-1, 6, 72))),
    "reshape_copying": (IMAGE, unary("reshape", shape=(0, 0, -1))),
    "reshape_joining": (IMAGE, unary("reshape", shape=(-3, -2))),
    "reshape_splitting": (IMAGE, unary("reshape", shape=(0, -4, 2, -1, -2))),
    "reshape_joining_behind": (IMAGE, unary("reshape", shape=(0, -3, 0))),
    "reshape_from_behind": ((2, 6, 5), unary("reshape", shape=(-1, 0), reverse=True)),
    "transpose": (IMAGE, unary("transpose", axes=(0, 2, 3, 1))),
    "transpose_all": (MATRIX, unary("transpose")),
    "swapaxes": (ROWS, unary("swapaxes", dim1=1, dim2=2)),
    "expand_dims": (ROWS, unary("expand_dims", axis=-1)),
    "squeeze": ((2, 1, 5, 1), unary("squeeze", axis=(1, 3))),
    "slice": (IMAGE, unary("slice", begin=(None, 1, 7), end=(None, 5, 2), step=(None, 2, -2))),
    "slice_axis": (IMAGE, unary("slice_axis", axis=1, begin=1, end=-1)),
    "slice_axis_to_the_end": (IMAGE, unary("slice_axis", axis=-1, begin=3, end=None)),
    "slice_like": (IMAGE, lambda x: S.slice_like(x, S.slice_axis(x, axis=2, begin=0, end=4), axes=(2,))),
    "pad": (IMAGE, unary("pad", mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 3, 0), constant_value=0.5)),
    "pad_edge": (IMAGE, unary("Pad", mode="edge", pad_width=(0, 0, 0, 0, 1, 2, 3, 0))),
    "pad_reflect": (IMAGE, unary("Pad", mode="reflect", pad_width=(0, 0, 0, 0, 1, 2, 3, 0))),
    "up_sampling": (IMAGE, lambda x: S.UpSampling(x, scale=2, sample_type="nearest")),
    "tile": (MATRIX, unary("tile", reps=(1, 3))),
    "repeat": ((2, 3, 4), unary("repeat", repeats=3, axis=1)),
    "broadcast_to": ((2, 1, 4), unary("broadcast_to", shape=(0, 5, 4))),
    "broadcast_axis": ((2, 1, 4), unary("broadcast_axis", axis=1, size=3)),
    "broadcast_like": ((2, 1, 4), lambda x: S.broadcast_like(x, S.tile(x, reps=(1, 3, 1)))),
    "dot": (MATRIX, lambda x: S.dot(x, S.var("table", shape=(10, 4)))),
    "dot_transposed": (MATRIX, lambda x: S.dot(x, S.var("table", shape=(4, 10)), transpose_b=True)),
    "batch_dot": (ROWS, lambda x: S.batch_dot(x, S.var("data1"), transpose_b=True)),
    "layer_norm": (ROWS, lambda x: S.LayerNorm(x, eps=1e-3)),
    "instance_norm": (IMAGE, lambda x: S.InstanceNorm(x)),
    **{f"l2_normalization_{mode}": (IMAGE, unary("L2Normalization", mode=mode))
       for mode in ("instance", "channel", "spatial")},
    "lrn": (IMAGE, unary("LRN", nsize=3, alpha=0.1, beta=0.6, knorm=1.5)),
    "embedding": (MATRIX, lambda x: S.Embedding(x * 6 + 2, input_dim=5, output_dim=4)),
    "take": (MATRIX, lambda x: S.take(S.var("table", shape=(5, 4)), x * 6 + 2)),
    "one_hot": (MATRIX, lambda x: S.one_hot(x * 6 + 2, depth=4, on_value=3, off_value=-1)),
    "where": (MATRIX, lambda x: S.where(x > 0, x * 2, x - 1)),
    **{f"{name}_of_positive": (MATRIX, lambda x, name=name: getattr(S, name)(S.abs(x) + 1.1))
       for name in ("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "arccosh")},
    **{name: (MATRIX, unary(name))
       for name in ("relu", "sigmoid", "softsign", "hard_sigmoid", "erf", "exp", "square", "abs", "negative", "sign",
                    "ceil", "floor", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
                    "arcsinh", "arctanh", "zeros_like", "ones_like")},
    **{name: (MATRIX, lambda x, name=name: getattr(S, name)(x) * 2) for name in ("identity", "BlockGrad", "make_loss")},
    "clip": (MATRIX, unary("clip", a_min=-0.1, a_max=0.3)),
    "dropout": (MATRIX, lambda x: S.Dropout(x) * 2),
    "cast": (MATRIX, lambda x: S.Cast(S.Cast(x * 9, dtype="int32"), dtype="float64")),
    **{name: (MATRIX, with_other(name))
       for name in ("elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div")},
    **{name: (MATRIX, lambda x, name=name: getattr(S, name)(x, S.var("data1"))) for name in ("maximum", "minimum")},
    **{name: (MATRIX, broadcast(name))
       for name in ("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div", "broadcast_maximum",
                    "broadcast_minimum", "broadcast_equal", "broadcast_not_equal", "broadcast_greater",
                    "broadcast_greater_equal", "broadcast_lesser", "broadcast_lesser_equal")},
    "add_n": (MATRIX, lambda x: S.add_n(x, x * 2, x + 1)),
    "power": (MATRIX, lambda x: S.broadcast_power(S.abs(x) + 0.5, S.var("row", shape=(1, 10)))),
    **{f"scalar_{name}": (MATRIX, case) for name, case in {
        "plus": lambda x: x + 2.5, "minus": lambda x: x - 2.5, "minus_from": lambda x: 2.5 - x,
        "times": lambda x: x * 2.5, "over": lambda x: x / 2.5, "under": lambda x: 2.5 / (x + 3),
        "power": lambda x: (x + 2) ** 3, "base": lambda x: S.pow(2.0, x),
        "maximum": lambda x: S.maximum(x, 0.1), "minimum": lambda x: S.minimum(x, 0.1),
        "equal": lambda x: S.floor(x) == 0, "not_equal": lambda x: S.floor(x) != 0, "greater": lambda x: x > 0.1,
        "greater_equal": lambda x: x >= 0.1, "less": lambda x: x < 0.1, "less_equal": lambda x: x <= 0.1}.items()},
    **{name: (IMAGE, unary(name, axis=(2, 3))) for name in ("mean", "sum", "max", "min", "prod")},
    "mean_keeping_axes": (IMAGE, unary("mean", axis=1, keepdims=True)),
    "mean_of_the_others": (IMAGE, unary("mean", axis=(0, 1), exclude=True)),
    "norm": (IMAGE, unary("norm", axis=1)),
    "norm_of_absolutes": (IMAGE, unary("norm", ord=1, axis=(2, 3), keepdims=True)),
    "argmax": (MATRIX, unary("argmax", axis=1)),
    "argmin": (MATRIX, unary("argmin", axis=1, keepdims=True)),
}


def data_of(symbol, batch, **shapes):
    """Values for what changes from run to run."""
    random = np.random.RandomState(batch)
    arguments, _, _ = symbol.infer_shape(**shapes)
    return {name: random.uniform(-0.9, 0.9, shape).astype(np.float32)
            for name, shape in zip(symbol.list_arguments(), arguments)
            if name.startswith("data") or name.endswith("label")}


@pytest.mark.parametrize("name", CASES)
def test_gives_what_mxnet_gives(name):
    shape, build = CASES[name]
    symbol = build(S.var("data"))

    def shapes(batch):
        return {each: (batch, *shape[1:]) for each in symbol.list_arguments() if each.startswith("data")}

    args, aux = parameters(symbol, **shapes(shape[0]))
    grafted_args, grafted_aux = dict(args), dict(aux)
    grafted = symbol.optimize_for("graft", grafted_args, grafted_aux, mode="interpret", strict=True)
    assert operators(grafted) == ["_graft_engine"]
    for batch in (shape[0], 5):
        data = data_of(symbol, batch, **shapes(batch))
        for result, expected in zip(run(grafted, grafted_args, grafted_aux, **data), run(symbol, args, aux, **data),
                                    strict=True):
            close(result, expected)
