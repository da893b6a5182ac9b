# SPDX-License-Identifier: Apache-2.0
"""Operators one by one: each runs as an engine, and gives what MXNet gives, also for another batch."""

import os
import pathlib
import subprocess

import mxnet as mx
import pytest
import registry
from conftest import check_operator

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


def boxes(x):
    """Rows of a class, a score and corners, of numbers that are anything."""
    def part(begin, end):
        return S.slice_axis(x, axis=-1, begin=begin, end=end)
    middle, half = part(2, 4), S.abs(part(4, 6)) * 0.5 + 0.2
    return S.concat(S.floor(part(0, 1) * 1.5), part(1, 2), middle - half, middle + half, dim=-1)


def suppressed(**attributes):
    """Boxes without those that better ones cover."""
    return lambda x: S.contrib.box_nms(boxes(x), **attributes)


def part_of(x, begin, end, *shape):
    """So many numbers of each row of a batch."""
    return S.reshape(S.slice_axis(S.flatten(x), axis=1, begin=begin, end=end), shape=(-1, *shape))


def pooled(**attributes):
    """Regions here and there, also outside of the maps and of images that there are not."""
    def build(x):
        rows = part_of(x, 0, 35, 5)
        image, first = S.trunc(S.slice_axis(rows, axis=1, begin=0, end=1) * 3.3), S.slice_axis(rows, axis=1, begin=1,
                                                                                             end=3) * 9 + 5
        last = first + S.slice_axis(rows, axis=1, begin=3, end=5) * 9 + 4
        return S.ROIPooling(x, S.concat(image, first, last, dim=1), **attributes)
    return build


def pooled_in_sevenths(x):
    """57 elements: the border of the last bin is rounded up."""
    return S.ROIPooling(x, S.concat(S.zeros((1, 3)), S.full((1, 1), 56), S.zeros((1, 1)), dim=1), pooled_size=(1, 7),
                        spatial_scale=1)


def detected(**attributes):
    """Boxes of three classes at 36 anchors."""
    def build(x):
        anchors = S.contrib.MultiBoxPrior(x, sizes=(0.3, 0.5), ratios=(1, 2))
        scores = S.softmax(part_of(x, 0, 144, 4, 36) * 4, axis=1)
        return S.contrib.MultiBoxDetection(scores, part_of(x, 144, 288, 144) * 3, anchors, **attributes)
    return build


def proposed(name, **attributes):
    """Regions at 120 anchors, of images that do not fill the maps."""
    def build(x):
        scores, moves = (S.slice_axis(x, axis=1, begin=begin, end=end) for begin, end in ((0, 8), (8, 24)))
        nothing = S.mean(S.flatten(x), axis=1, keepdims=True) * 0
        image = S.concat(nothing + 75, nothing + 90, nothing + 1.5, dim=1)
        made = getattr(S.contrib, name)(S.sigmoid(scores * 3), moves * 0.5, image, scales=(2, 4), ratios=(0.5, 1.5),
                                        output_score=True, **attributes)
        return S.Group([made[0] * 2, made[1] * 2])
    return build


CASES = {
    "roi_pooling": (IMAGE, pooled(pooled_size=(3, 2), spatial_scale=0.7)),
    "roi_pooling_of_many_bins": (IMAGE, pooled(pooled_size=(7, 7), spatial_scale=1)),
    "roi_pooling_in_sevenths": ((2, 1, 1, 60), pooled_in_sevenths),
    "multi_box_detection": ((2, 24, 4, 3), detected()),
    "multi_box_detection_of_few": ((2, 24, 4, 3), detected(nms_topk=9, threshold=0.3, nms_threshold=0.2, clip=False,
                                                           variances=(0.2, 0.1, 0.3, 0.2))),
    "multi_box_detection_forced": ((2, 24, 4, 3), detected(force_suppress=True, nms_threshold=0.3)),
    "multi_box_detection_of_all": ((2, 24, 4, 3), detected(nms_threshold=0, threshold=0.35)),
    "multi_proposal": ((2, 24, 5, 6), proposed("MultiProposal", rpn_post_nms_top_n=20, threshold=0.5)),
    "multi_proposal_of_few": ((2, 24, 5, 6), proposed("MultiProposal", rpn_pre_nms_top_n=30, rpn_post_nms_top_n=40,
                                                      threshold=0.3, rpn_min_size=1)),
    "multi_proposal_of_corners": ((2, 24, 5, 6), proposed("MultiProposal", rpn_post_nms_top_n=12, iou_loss=True,
                                                          rpn_min_size=30)),
    "box_nms": ((2, 30, 6), suppressed()),
    "box_nms_by_class": ((2, 30, 6), suppressed(id_index=0, overlap_thresh=0.3, valid_thresh=-0.4)),
    "box_nms_without_background": ((2, 30, 6), suppressed(id_index=0, background_id=0, topk=9)),
    "box_nms_forced": ((2, 20, 6), suppressed(id_index=0, force_suppress=True, overlap_thresh=0.1, valid_thresh=-1)),
    "box_nms_of_centres": ((2, 20, 6), suppressed(in_format="center", out_format="corner", valid_thresh=-1)),
    "box_nms_to_centres": ((2, 3, 20, 6), suppressed(out_format="center", topk=40, valid_thresh=-1)),
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


def recurrent(mode, bidirectional=False, layers=2):
    """A recurrent layer of (batch, time, 5), whose states follow the data."""
    def build(x):
        count = layers * (2 if bidirectional else 1)
        state = S.tile(S.expand_dims(S.mean(x, axis=1), axis=0), reps=(count, 1, 1))
        states = [state] + [state * 2] * (mode == "lstm")
        made = S.RNN(S.swapaxes(x, dim1=0, dim2=1), S.var("weights"), *states, state_size=5, num_layers=layers,
                     mode=mode, state_outputs=True, bidirectional=bidirectional)
        return S.Group([result * 2 for result in made])
    return build


def lengths(x, axis, most):
    """Lengths from 1 to `most` that follow the data."""
    return S.clip(S.ceil(S.mean(S.abs(x), axis=axis) * most * 2) - 1, 1, most)


def attention(x):
    """As GluonNLP's BERT has it."""
    scores = S.contrib.interleaved_matmul_selfatt_qk(x, heads=2)
    return S.contrib.interleaved_matmul_selfatt_valatt(x, S.softmax(scores), heads=2)


def attention_to(x):
    """To keys and values of another length."""
    other = S.var("other", shape=(3, 2, 20))
    scores = S.contrib.interleaved_matmul_encdec_qk(x, other, heads=2)
    return S.contrib.interleaved_matmul_encdec_valatt(other, S.softmax(scores), heads=2)


ROW = {"shape": (1, 10)}
CASES.update({
    "concat_by_default": (IMAGE, lambda x: S.Concat(x, x * 2, x + 1)),
    "stack_by_default": (MATRIX, lambda x: S.stack(x, x * 2, x + 1)),
    **{name: (MATRIX, lambda x, name=name: getattr(S, name)(x * 5))
       for name in ("rint", "round", "fix", "trunc", "cbrt", "expm1", "degrees", "radians")},
    **{f"{name}_of_halves": (MATRIX, lambda x, name=name: getattr(S, name)(S.floor(x * 9) * 0.5))
       for name in ("rint", "round", "fix")},
    "log1p": (MATRIX, unary("log1p")),
    "log1p_of_large": (MATRIX, lambda x: S.log1p(S.exp(x * 12))),
    "expm1_of_small": (MATRIX, lambda x: S.expm1(x * 1e-4) * 1e4),
    "rcbrt": (MATRIX, lambda x: S.rcbrt(S.abs(x) + 0.5)),
    "logical_not": (MATRIX, lambda x: S.logical_not(x > 0)),
    "smooth_l1": (MATRIX, unary("smooth_l1", scalar=2.0)),
    "quadratic": (MATRIX, lambda x: S.contrib.quadratic(x, a=2, b=-1, c=0.5)),
    "div_sqrt_dim": (MATRIX, lambda x: S.contrib.div_sqrt_dim(x)),
    "mod": (MATRIX, lambda x: S.broadcast_mod(x * 9, S.var("row", **ROW))),
    "mod_by_zero": (MATRIX, lambda x: S.broadcast_mod(x, S.zeros_like(x))),
    "mod_scalar": (MATRIX, lambda x: (x * 9) % 2.5),
    "mod_negative_scalar": (MATRIX, lambda x: (x * 9) % -2.5),
    "hypot": (MATRIX, lambda x: S.broadcast_hypot(x, S.var("row", **ROW))),
    "hypot_scalar": (MATRIX, lambda x: S.hypot(x, 2.0)),
    **{f"logical_{name}": (MATRIX, lambda x, name=name: getattr(S, f"broadcast_logical_{name}")(
        S.relu(x), S.relu(S.var("row", **ROW)))) for name in ("and", "or", "xor")},
    "self_attention": ((4, 2, 30), attention),
    "self_attention_scores": ((4, 2, 30), lambda x: S.contrib.interleaved_matmul_selfatt_qk(x, heads=2)),
    "cross_attention": ((4, 2, 10), attention_to),
    "arange_like": (MATRIX, lambda x: S.broadcast_add(x, S.contrib.arange_like(x, axis=1, start=2, step=0.5))),
    "arange_like_all": (MATRIX, lambda x: x + S.contrib.arange_like(x)),
    "softmax_with_lengths": (ROWS, lambda x: S.softmax(x, S.Cast(S.floor(S.sum(S.abs(x), axis=2)), dtype="int32"),
                                                       use_length=True)),
    "sequence_mask": (ROWS, lambda x: S.SequenceMask(x, lengths(x, (1, 2), 5), use_sequence_length=True, axis=1,
                                                     value=-3)),
    "sequence_mask_of_time_first": (ROWS, lambda x: S.SequenceMask(x, lengths(x, (0, 2), 2),
                                                                   use_sequence_length=True)),
    "sequence_mask_without_lengths": (ROWS, lambda x: S.SequenceMask(x) * 2),
    "sequence_last": (ROWS, lambda x: S.SequenceLast(x, axis=1)),
    "sequence_last_by_lengths": (ROWS, lambda x: S.SequenceLast(x, lengths(x, (1, 2), 5), use_sequence_length=True,
                                                                axis=1)),
    "sequence_reverse": (ROWS, lambda x: S.SequenceReverse(x)),
    "sequence_reverse_by_lengths": (ROWS, lambda x: S.SequenceReverse(x, lengths(x, (0, 2), 2),
                                                                      use_sequence_length=True)),
    **{f"topk_{kind}": (ROWS, unary("topk", k=3, ret_typ=kind)) for kind in ("value", "indices")},
    "topk_smallest": (ROWS, lambda x: S.Group([part * 2 for part in S.topk(x, k=2, axis=1, ret_typ="both",
                                                                           is_ascend=True)])),
    "sort": (ROWS, unary("sort", axis=1)),
    "sort_descending": (ROWS, unary("sort", is_ascend=False)),
    "argsort": (ROWS, unary("argsort")),
    **{f"recurrent_{mode}": ((2, 4, 5), recurrent(mode)) for mode in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    **{f"recurrent_both_ways_{mode}": ((2, 4, 5), recurrent(mode, bidirectional=True))
       for mode in ("lstm", "gru", "rnn_tanh")},
    "pick": (MATRIX, lambda x: S.pick(x, S.argmax(x, axis=1))),
    "pick_keeping_axes": (ROWS, lambda x: S.pick(x, S.argmin(x, axis=1), axis=1, keepdims=True)),
    "batch_take": (MATRIX, lambda x: S.batch_take(x, S.Cast(S.argmax(x, axis=1), dtype="int32"))),
    "gather_nd": (MATRIX, lambda x: S.gather_nd(x, S.stack(S.zeros_like(S.argmax(x, axis=1)), S.argmax(x, axis=1)))),
    "take_wrapping": (MATRIX, lambda x: S.take(S.var("table", shape=(5, 4)), x * 20, mode="wrap")),
    "where_by_rows": (MATRIX, lambda x: S.where(S.mean(x, axis=1) > 0, x * 2, x - 1)),
    "reverse": (ROWS, unary("reverse", axis=(1, 2))),
    "depth_to_space": ((2, 8, 3, 4), unary("depth_to_space", block_size=2)),
    "space_to_depth": ((2, 3, 4, 6), unary("space_to_depth", block_size=2)),
    "shape_array": (ROWS, lambda x: S.broadcast_mul(S.Cast(S.shape_array(x), dtype="float32"), S.mean(x))),
    "size_array": (ROWS, lambda x: S.Cast(S.size_array(x), dtype="float32") * S.mean(x)),
    "reshape_like": ((2, 12), lambda x: S.reshape_like(x, S.reshape(x, shape=(0, 3, 4)) + 1)),
    "reshape_like_in_parts": ((2, 12), lambda x: S.reshape_like(x, S.reshape(x, shape=(0, 3, 4)), lhs_begin=1,
                                                                lhs_end=2, rhs_begin=1, rhs_end=3)),
    "repeat_of_all": ((2, 3), unary("repeat", repeats=3)),
    "split_at_borders": (ROWS, lambda x: S.Group([part * 2 for part in S.split_v2(x, (2, 5), axis=2)])),
    "argmax_of_all": ((3, 4), lambda x: S.argmax(S.slice_axis(x, axis=0, begin=0, end=1))),
    "argmax_channel": (MATRIX, unary("argmax_channel")),
    "nansum": (MATRIX, lambda x: S.nansum(S.sqrt(x), axis=1)),
    "nanprod": (MATRIX, lambda x: S.nanprod(S.sqrt(x), axis=1)),
    "moments": (IMAGE, lambda x: S.Group([part * 2 for part in S.moments(x, axes=(2, 3))])),
    "cumsum": (ROWS, unary("cumsum", axis=1)),
    "cumsum_of_all": (MATRIX, unary("cumsum")),
    "zeros_and_ones": (MATRIX, lambda x: S.broadcast_maximum(S.broadcast_add(x, S.ones((1, 10))), S.zeros((1, 10)))),
    "full": (MATRIX, lambda x: S.broadcast_mul(x, S.full((1, 10), 2.5))),
    "bilinear_resize": (IMAGE, lambda x: S.contrib.BilinearResize2D(x, height=13, width=5)),
    "bilinear_resize_by_pixels": (IMAGE, lambda x: S.contrib.BilinearResize2D(x, height=18, width=16,
                                                                              align_corners=False)),
    "gemm": (ROWS, lambda x: S.linalg.gemm(x, x + 1, S.batch_dot(x, x, transpose_b=True), transpose_b=True, alpha=0.5,
                                           beta=2)),
    "gemm2": (ROWS, lambda x: S.linalg.gemm2(x, x + 1, transpose_a=True, alpha=3)),
    "syrk": (ROWS, lambda x: S.linalg.syrk(x, alpha=2)),
    "syrk_transposed": (ROWS, lambda x: S.linalg.syrk(x, transpose=True)),
    "group_norm": (IMAGE, lambda x: S.GroupNorm(x, num_groups=3)),
    "layer_norm_of_channels": (IMAGE, lambda x: S.LayerNorm(x, axis=1)),
    "numpy_functions": (MATRIX, lambda x: (S.np.tanh(S.np.exp(x.as_np_ndarray()) * 2 - 0.5) + 1).as_nd_ndarray()),
})


@pytest.mark.parametrize("name", CASES)
def test_gives_what_mxnet_gives(name):
    check_operator(*CASES[name])


def test_a_proposal_is_of_one_image():
    check_operator((1, 24, 5, 6), proposed("Proposal", rpn_post_nms_top_n=25, threshold=0.4), batches=())


def test_the_list_of_mxnets_operators_is_its_registry():
    assert registry.LISTED.read_text() == registry.text()


def test_every_converter_is_of_an_operator_that_mxnet_has():
    known = {name for line in registry.LISTED.read_text().splitlines() for name in line.split(" = ")}
    known.add("CuDNNBatchNorm")  # of files that MXNet before 1.6 wrote
    graft = pathlib.Path(os.environ["GRAFT_BUILD"]) / "bin" / "graft"
    listed = subprocess.run([graft, "ops", "--front-end", "mxnet"], capture_output=True, text=True, check=True).stdout
    assert {line.split()[0] for line in listed.splitlines()[1:-1]} <= known
