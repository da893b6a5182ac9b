# SPDX-License-Identifier: Apache-2.0
"""Each operator with a converter, in one engine, against TensorFlow's own result."""

import re

import numpy as np
import pytest
import tensorflow as tf
from conftest import FAST, close, engines_of, graph_of, run_graph, v1

from tensorflow.python.framework import meta_graph  # pylint: disable=no-name-in-module

import graft
import graft.tensorflow

raw = tf.raw_ops


def real(*shape, low=-2.0, high=2.0):
    return np.random.default_rng(len(shape) + sum(shape)).uniform(low, high, shape).astype(np.float32)


IMAGE, FILTER = real(2, 7, 8, 4), real(3, 2, 4, 6)
WINDOW = {"strides": [1, 2, 2, 1], "padding": "SAME"}
POOL = {"ksize": [1, 3, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
MATRIX = real(3, 4, 5)


def unary(name, **range_):
    return pytest.param(lambda x: getattr(raw, name)(x=x), [real(3, 4, **range_)], id=name)


def activation(name):
    return pytest.param(lambda x: getattr(raw, name)(features=x), [real(3, 4, high=8.0)], id=name)


def binary(name, low=-2.0):
    return pytest.param(lambda x, y: getattr(raw, name)(x=x, y=y), [real(3, 4), real(4, low=low)], id=name)


def case(name, build, *inputs):
    return pytest.param(build, list(inputs), id=name)


def reduction(name):
    return case(name, lambda x: getattr(raw, name)(input=x, axis=[0, -1], keep_dims=name == "Max"), MATRIX)


def corners(*shape):
    """Boxes, some with corners the wrong way round and some beyond the picture."""
    random = np.random.default_rng(sum(shape))
    middle, half = random.uniform(-0.1, 1.1, (*shape, 2)), random.uniform(-0.05, 0.2, (*shape, 2))
    return np.concatenate([middle - half, middle + half], -1).astype(np.float32)


def explicit(x):
    return raw.Conv2D(input=x, filter=FILTER, strides=[1, 2, 1, 1], padding="EXPLICIT",
                      explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0], dilations=[1, 1, 2, 1])


def both_ways(x):
    """A transposed convolution."""
    return raw.Conv2DBackpropInput(input_sizes=[2, 13, 16, 3], filter=real(3, 2, 3, 4), out_backprop=x,
                                   strides=[1, 2, 2, 1], padding="SAME")


CASES = [
    *map(unary, ["Abs", "Neg", "Exp", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Atan", "Asinh", "Ceil", "Floor", "Round",
                 "Rint", "Sign", "Erf", "Erfc", "Expm1", "Sigmoid", "Tanh", "Square", "Reciprocal", "Inv", "IsNan",
                 "IsInf", "ZerosLike", "OnesLike"]),
    *(unary(name, low=0.1) for name in ("Log", "Sqrt", "Rsqrt")),
    unary("Log1p", low=-0.9),
    case("Log1p-small", lambda x: raw.Log1p(x=x) * 1e6, np.array([1e-6, -3e-7, 0], np.float32)),
    case("Expm1-ends", lambda x: raw.Expm1(x=x), np.array([-200, 200, np.inf, 1e-8], np.float32)),
    case("DivNoNan", lambda x: raw.DivNoNan(x=x, y=[0.0, 2.0, 0.0, -1.0]), real(3, 4)),
    *(unary(name, low=-0.9, high=0.9) for name in ("Asin", "Acos", "Atanh")), unary("Acosh", low=1.1, high=4.0),
    *map(activation, ["Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign", "LeakyRelu"]),
    *map(binary, ["Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "Maximum", "Minimum", "SquaredDifference", "Greater",
                  "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual", "FloorDiv"]),
    case("Pow", lambda x, y: raw.Pow(x=x, y=y), real(3, 4, low=0.1), real(4)),
    case("FloorMod", lambda x: raw.FloorMod(x=x, y=[[3, -3]]), np.array([[7, 7], [-7, -7]], np.int32)),
    *(case(f"FloorDiv-{kind.__name__}", lambda x, y: raw.FloorDiv(x=x, y=y), np.array([7, -7, -8, 8, 0]).astype(kind),
           np.array([[2], [-2 if kind is np.int32 else 3]], kind)) for kind in (np.int32, np.int64, np.uint8)),
    case("Bucketize", lambda x: raw.Bucketize(input=x, boundaries=[-1.0, 0.0, 1.5]),
         np.array([[-2, -1, 0.3], [1.5, 9, 0]], np.float32)),
    case("EnsureShape", lambda x: raw.EnsureShape(input=x, shape=[3, None, 5]) * 2.0, MATRIX),
    case("LogicalAnd", lambda x, y: raw.LogicalAnd(x=x, y=y), np.array([True, False]), np.array([True, True])),
    case("LogicalOr", lambda x: raw.LogicalOr(x=x, y=raw.LogicalNot(x=x)), np.array([True, False])),
    case("AddN", lambda x, y: raw.AddN(inputs=[x, y, x]), real(3, 4), real(3, 4)),
    case("ClipByValue", lambda x: raw.ClipByValue(t=x, clip_value_min=-0.5, clip_value_max=0.7), real(3, 4)),
    case("Cast", lambda x: raw.Cast(x=x * 3.0, DstT=tf.int32), real(3, 4)),
    case("Select", lambda x, y: raw.Select(condition=x > y, x=x, y=y), real(3, 4), real(3, 4) * 0.5),
    case("SelectV2", lambda x: raw.SelectV2(condition=x > 0.0, t=x, e=5.0), real(3, 4)),
    case("NaN", lambda x: raw.GreaterEqual(x=x, y=[1.0]), np.array([np.nan, 1, 2], np.float32)),
    case("Conv2D", lambda x: raw.Conv2D(input=x, filter=FILTER, **WINDOW), IMAGE),
    case("Conv2D-valid-dilated", lambda x: raw.Conv2D(input=x, filter=FILTER, strides=[1] * 4, padding="VALID",
                                                      dilations=[1, 2, 3, 1]), IMAGE),
    case("Conv2D-explicit", explicit, IMAGE),
    case("Conv2D-groups", lambda x: raw.Conv2D(input=x, filter=real(3, 3, 2, 6), **WINDOW), IMAGE),
    case("DepthwiseConv2dNative", lambda x: raw.DepthwiseConv2dNative(input=x, filter=real(3, 3, 4, 2), **WINDOW),
         IMAGE),
    case("Conv2DBackpropInput", both_ways, IMAGE),
    case("Conv3D", lambda x: raw.Conv3D(input=x, filter=real(2, 2, 2, 2, 3), strides=[1] * 5, padding="SAME"),
         real(1, 3, 4, 5, 2)),
    case("BiasAdd", lambda x: raw.BiasAdd(value=x, bias=real(4)), IMAGE),
    case("BiasAdd-NCHW", lambda x: raw.BiasAdd(value=x, bias=real(7), data_format="NCHW"), IMAGE),
    case("FusedBatchNormV3", lambda x: raw.FusedBatchNormV3(
        x=x, scale=real(4), offset=real(4), mean=real(4), variance=real(4, low=0.5), is_training=False,
        epsilon=0.01)[0], IMAGE),
    case("MaxPool", lambda x: raw.MaxPool(input=x, **POOL), IMAGE),
    case("AvgPool", lambda x: raw.AvgPool(value=x, **POOL), IMAGE),
    case("MaxPool3D", lambda x: raw.MaxPool3D(input=x, ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1],
                                              padding="SAME"), real(1, 3, 4, 5, 2)),
    case("DepthToSpace", lambda x: raw.DepthToSpace(input=x, block_size=2), IMAGE),
    case("SpaceToDepth", lambda x: raw.SpaceToDepth(input=x, block_size=2), real(2, 4, 6, 3)),
    *(case(f"{name}-{grid}", lambda x, op=getattr(raw, name), grid=grid: op(
        images=x, size=[5, 13], align_corners=grid == "corners", half_pixel_centers=grid == "half"), IMAGE)
      for name in ("ResizeBilinear", "ResizeNearestNeighbor") for grid in ("corners", "half", "plain")),
    case("MatMul", lambda x: raw.MatMul(a=x, b=real(6, 3), transpose_a=True, transpose_b=True), real(3, 4)),
    case("BatchMatMulV2", lambda x: raw.BatchMatMulV2(x=x, y=real(1, 6, 5), adj_y=True), MATRIX),
    case("BatchMatMulV3", lambda x: raw.BatchMatMulV3(x=x, y=real(5, 2), Tout=tf.float32), MATRIX),
    case("Einsum", lambda x: raw.Einsum(inputs=[x, real(5, 2)], equation="bij,jk->bik"), MATRIX),
    *map(reduction, ["Sum", "Mean", "Max", "Min", "Prod"]),
    case("Sum-of-no-axis", lambda x: raw.Sum(input=x, axis=np.zeros(0, np.int32)), MATRIX),
    case("All", lambda x: raw.All(input=x > 0.0, axis=1), real(3, 4)),
    case("Any", lambda x: raw.Any(input=x > 0.0, axis=1), real(3, 4)),
    case("ArgMax", lambda x: raw.ArgMax(input=x, dimension=1), MATRIX),
    case("ArgMin", lambda x: raw.ArgMin(input=x, dimension=-1, output_type=tf.int32), MATRIX),
    case("TopKV2", lambda x: raw.TopKV2(input=x, k=2), MATRIX),
    case("Softmax", lambda x: raw.Softmax(logits=x), real(3, 4)),
    case("LogSoftmax", lambda x: raw.LogSoftmax(logits=x), real(3, 4)),
    case("Reshape", lambda x: raw.Reshape(tensor=x, shape=[5, -1]), MATRIX),
    case("Reshape-by-shape", lambda x: raw.Reshape(tensor=x, shape=tf.stack([tf.shape(x)[0], 20])), MATRIX),
    case("Squeeze", lambda x: raw.Squeeze(input=x, axis=[1]), real(3, 1, 4, 1)),
    case("Squeeze-all", lambda x: raw.Squeeze(input=x), real(3, 1, 4, 1)),
    case("ExpandDims", lambda x: raw.ExpandDims(input=x, axis=-2), MATRIX),
    case("Transpose", lambda x: raw.Transpose(x=x, perm=[2, 0, 1]), MATRIX),
    case("ConcatV2", lambda x, y: raw.ConcatV2(values=[x, y], axis=-1), real(3, 4), real(3, 2)),
    case("Concat", lambda x, y: raw.Concat(concat_dim=1, values=[x, y]), real(3, 4), real(3, 2)),
    case("Pad", lambda x: raw.Pad(input=x, paddings=[[0, 1], [2, 0], [1, 1]]), MATRIX),
    case("PadV2", lambda x: raw.PadV2(input=x, paddings=[[0, 1], [2, 0], [1, 1]], constant_values=7.0), MATRIX),
    case("MirrorPad", lambda x: raw.MirrorPad(input=x, paddings=[[0, 1], [2, 0], [1, 1]], mode="REFLECT"), MATRIX),
    case("Pack", lambda x, y: raw.Pack(values=[x, y], axis=1), real(3, 4), real(3, 4) * 2),
    case("Unpack", lambda x: raw.Unpack(value=x, num=4, axis=1), MATRIX),
    case("Split", lambda x: raw.Split(axis=1, value=x, num_split=2), MATRIX),
    case("SplitV", lambda x: raw.SplitV(value=x, size_splits=[1, -1, 2], axis=2, num_split=3), MATRIX),
    case("Tile", lambda x: raw.Tile(input=x, multiples=[1, 2, 1]), MATRIX),
    case("Slice", lambda x: raw.Slice(input=x, begin=[1, 0, 2], size=[2, -1, 2]), MATRIX),
    case("StridedSlice", lambda x: x[..., tf.newaxis, 3:0:-2, 1], MATRIX),
    case("StridedSlice-ends", lambda x: x[-1, ::2, -3:], MATRIX),
    case("StridedSlice-new", lambda x: x[tf.newaxis, 1:, ..., -1], MATRIX),
    case("GatherV2", lambda x: raw.GatherV2(params=x, indices=[[2, 0]], axis=1), MATRIX),
    case("GatherNd", lambda x: raw.GatherNd(params=x, indices=[[2, 1], [0, 3]]), MATRIX),
    *(case(f"GatherV2-{axis}-{batches}", lambda x, axis=axis, batches=batches: raw.GatherV2(
        params=x, indices=[[[1, 0], [3, 1]], [[0, 2], [2, 2]]], axis=axis, batch_dims=batches), IMAGE)
      for axis, batches in ((1, 1), (2, 1), (3, 1), (-1, -2))),
    case("Where", lambda x: raw.Where(condition=x > 0.5), MATRIX),
    case("MatrixBandPart", lambda x: raw.MatrixBandPart(input=x, num_lower=1, num_upper=2), MATRIX),
    case("MatrixBandPart-causal", lambda x: raw.MatrixBandPart(input=x, num_lower=-1, num_upper=0), MATRIX),
    case("DenseBincount", lambda x: raw.DenseBincount(input=x, size=4, weights=np.zeros(0, np.float32)),
         np.array([[0, 3, 3], [1, 9, 1]], np.int32)),
    case("DenseBincount-weights", lambda x, w: raw.DenseBincount(input=x, size=4, weights=w),
         np.array([0, 3, 3], np.int64), real(3)),
    case("DenseBincount-binary", lambda x: raw.DenseBincount(
        input=x, size=4, weights=np.zeros(0, np.float32), binary_output=True), np.array([[0, 3, 3]], np.int32)),
    case("TensorScatterUpdate",
         lambda x: raw.TensorScatterUpdate(tensor=x, indices=[[2], [0]], updates=real(2, 4, 5)), MATRIX),
    case("ReverseV2", lambda x: raw.ReverseV2(tensor=x, axis=[0, -1]), MATRIX),
    case("OneHot", lambda x: raw.OneHot(indices=x, depth=3, on_value=2.0, off_value=-1.0, axis=0),
         np.array([[0, 2], [-1, 3]], np.int32)),
    case("Cumsum", lambda x: raw.Cumsum(x=x, axis=-1), MATRIX),
    case("Cumsum-others", lambda x: raw.Cumsum(x=x, axis=1, exclusive=True, reverse=True), MATRIX),
    case("LRN", lambda x: raw.LRN(input=x, depth_radius=1, bias=1.5, alpha=0.4, beta=0.6), IMAGE),
    case("Fill", lambda x: x + raw.Fill(dims=tf.shape(x), value=2.0), MATRIX),
    case("BroadcastTo", lambda x: raw.BroadcastTo(input=x, shape=[2, 3, 4]), real(3, 4)),
    case("Size", lambda x: x * tf.cast(tf.size(x), tf.float32), MATRIX),
    case("Rank", lambda x: x * tf.cast(raw.Rank(input=x), tf.float32), MATRIX),
    case("IdentityN", lambda x: raw.IdentityN(input=[x * 2.0, x + 1.0]), MATRIX),
    case("StopGradient", lambda x: raw.StopGradient(input=x) * 2.0, MATRIX),
    case("DataFormatVecPermute", lambda x: raw.DataFormatVecPermute(x=x), np.arange(4, dtype=np.int32)),
    case("DataFormatVecPermute-pairs", lambda x: raw.DataFormatVecPermute(x=x, src_format="NCHW", dst_format="HWNC"),
         np.arange(8, dtype=np.int64).reshape(4, 2)),
    case("DataFormatVecPermute-spatial", lambda x: raw.DataFormatVecPermute(x=x, src_format="HWNC", dst_format="NWHC"),
         np.arange(2, dtype=np.int32)),
    *(case(f"FakeQuantWithMinMaxArgs-{bits}-{narrow}", lambda x, bits=bits, narrow=narrow: raw.FakeQuantWithMinMaxArgs(
        inputs=x * 3.0, min=-1.3, max=4.1, num_bits=bits, narrow_range=narrow), real(5, 7))
      for bits in (4, 8) for narrow in (False, True)),
    case("FakeQuantWithMinMaxVars", lambda x: raw.FakeQuantWithMinMaxVars(inputs=x, min=-0.4, max=0.9), MATRIX),
    case("FakeQuantWithMinMaxVarsPerChannel", lambda x: raw.FakeQuantWithMinMaxVarsPerChannel(
        inputs=x, min=[-0.4, 0.0, -1.5, -2.0, -1.0], max=[0.9, 1.7, 0.0, 2.0, 1.0], narrow_range=True), MATRIX),
    case("FakeQuantWithMinMaxVars-positive", lambda x: raw.FakeQuantWithMinMaxVars(inputs=x, min=0.0, max=1.7), MATRIX),
    *(case(f"QuantizeAndDequantizeV2-{mode}-{signed}", lambda x, mode=mode, signed=signed: raw.QuantizeAndDequantizeV2(
        input=x, input_min=-0.7, input_max=1.9, signed_input=signed, num_bits=6, range_given=True, round_mode=mode),
           MATRIX) for mode in ("HALF_TO_EVEN", "HALF_UP") for signed in (True, False)),
    case("QuantizeAndDequantizeV3", lambda x: raw.QuantizeAndDequantizeV3(
        input=x, input_min=-1.9, input_max=0.7, num_bits=8, narrow_range=True), real(7)),
    case("QuantizeAndDequantizeV4", lambda x: raw.QuantizeAndDequantizeV4(
        input=x, input_min=-1.0, input_max=1.0, range_given=True), real(2, 3)),
    *(case(f"CombinedNonMaxSuppression-{own}-{pad}", lambda boxes, scores, pad=pad: [*raw.CombinedNonMaxSuppression(
        boxes=boxes, scores=scores, max_output_size_per_class=4, max_total_size=20, iou_threshold=0.4,
        score_threshold=0.3, pad_per_class=pad, clip_boxes=not pad)], corners(2, 30, 3 if own else 1),
           real(2, 30, 3, low=0.0, high=1.0)) for own in (False, True) for pad in (False, True)),
    case("NonMaxSuppressionV2", lambda boxes, scores: raw.NonMaxSuppressionV2(
        boxes=boxes, scores=scores, max_output_size=9, iou_threshold=0.5), corners(30), real(30)),
    case("NonMaxSuppressionV3", lambda boxes, scores: raw.NonMaxSuppressionV3(
        boxes=boxes, scores=scores, max_output_size=9, iou_threshold=0.5, score_threshold=0.1), corners(30), real(30)),
    *(case(f"NonMaxSuppressionV4-{pad}", lambda boxes, scores, pad=pad: [*raw.NonMaxSuppressionV4(
        boxes=boxes, scores=scores, max_output_size=40, iou_threshold=0.3, score_threshold=0.1,
        pad_to_max_output_size=pad)], corners(30), real(30)) for pad in (False, True)),
    *(case(f"NonMaxSuppressionV5-{sigma}-{least}", lambda boxes, scores, sigma=sigma, least=least: [
        *raw.NonMaxSuppressionV5(boxes=boxes, scores=scores, max_output_size=12, iou_threshold=0.4,
                                 score_threshold=least, soft_nms_sigma=sigma, pad_to_max_output_size=sigma == 0.3)],
           corners(30), real(30, low=0.0, high=1.0)) for sigma, least in ((0.0, 0.2), (0.3, 0.2), (0.5, 2.0))),
    case("NonMaxSuppressionWithOverlaps", lambda table, scores: raw.NonMaxSuppressionWithOverlaps(
        overlaps=table, scores=scores, max_output_size=8, overlap_threshold=0.4, score_threshold=-1.0),
         real(30, 30), real(30)),
    case("CombinedNonMaxSuppression-all", lambda boxes, scores: [*raw.CombinedNonMaxSuppression(
        boxes=boxes, scores=scores, max_output_size_per_class=50, max_total_size=50, iou_threshold=0.9,
        score_threshold=0.0)], corners(1, 5, 1), real(1, 5, 2, low=0.1, high=1.0)),
    case("CombinedNonMaxSuppression-none", lambda boxes, scores: [*raw.CombinedNonMaxSuppression(
        boxes=boxes, scores=scores, max_output_size_per_class=5, max_total_size=5, iou_threshold=0.5,
        score_threshold=2.0)], corners(1, 5, 1), real(1, 5, 2, low=0.1, high=1.0)),
]


@pytest.mark.parametrize("build, inputs", CASES)
def test_an_operator_is_one_engine_that_agrees(build, inputs):
    """With its first axis open where the operator lets it be."""
    outputs = []

    def traced():
        given = [v1.placeholder(value.dtype, value.shape, name=f"x{i}") for i, value in enumerate(inputs)]
        results = build(*given)
        for result in results if isinstance(results, (list, tuple)) else [results]:
            outputs.append(tf.identity(result).op.name)

    graph = graph_of(traced)
    made = graft.tensorflow.create_inference_graph(graph, outputs, minimum_segment_size=1, strict=True, **FAST)
    assert {node.op for node in made.node} == {"Placeholder", "GraftEngine", "Identity"} and len(engines_of(made)) == 1
    feeds = {f"x{i}": value for i, value in enumerate(inputs)}
    for result, expected in zip(run_graph(made, outputs, feeds), run_graph(graph, outputs, feeds)):
        close(result, expected)


def test_attributes_that_a_later_tensorflow_has_added_may_be_missing():
    """What an older one has written has no attributes that came later, and means their defaults."""
    for parameters in CASES:
        build, inputs = parameters.values

        def traced():
            made = build(*(v1.placeholder(value.dtype, value.shape, name=f"x{i}") for i, value in enumerate(inputs)))
            tf.identity(made[0] if isinstance(made, (list, tuple)) else made, name="y")

        meta = v1.MetaGraphDef(graph_def=graph_of(traced))
        meta_graph.strip_graph_default_valued_attrs(meta)
        assert graft.embed(meta.graph_def, ["y"], strict=True, build=False).engines == 1, parameters.id


REFUSED = [
    case("quantizing", lambda x: raw.QuantizeAndDequantizeV2(input=x, input_min=0.0, input_max=1.0), IMAGE),
    case("training", lambda x: raw.FusedBatchNormV3(x=x, scale=real(4), offset=real(4), mean=[], variance=[])[0],
         IMAGE),
    case("mirror", lambda x: raw.MirrorPad(input=x, paddings=[[1, 1]] * 4, mode="SYMMETRIC"), IMAGE),
    case("modulo", lambda x: raw.FloorMod(x=x, y=3.0), IMAGE),
]


@pytest.mark.parametrize("build, inputs", REFUSED)
def test_forms_without_a_converter_stay_with_a_reason(build, inputs):
    """Rather than being something else that looks like it."""
    def traced():
        tf.identity(build(v1.placeholder(tf.float32, inputs[0].shape, name="x0")), name="y")

    graph = graph_of(traced)
    made = graft.embed(graph, ["y"], tune="off")
    assert made.engines <= 1
    names = "FusedBatchNormV3|MirrorPad|FloorMod|QuantizeAndDequantizeV2"
    assert re.search(rf"stays: ({names}) \S+: \w+", made.report)
    back = v1.GraphDef.FromString(made.model)
    close(run_graph(back, ["y"], {"x0": inputs[0]})[0], run_graph(graph, ["y"], {"x0": inputs[0]})[0])
