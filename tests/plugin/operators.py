# SPDX-License-Identifier: Apache-2.0
"""The operators that become plugins: the 124 that TPAT makes, and those that the parser of TensorRT-RTX 1.7.1 refuses;
and why others do not."""

import numpy as np
from onnx import TensorProto, helper

TPAT = """Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization BitShift Ceil Celu
Clip Compress Concat ConcatFromSequence Conv ConvTranspose Cos Cosh DepthToSpace Div Einsum Elu Equal Erf Exp Expand
EyeLike Flatten Floor GRU Gather GatherElements GatherND Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater
GreaterOrEqual HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LSTM LeakyRelu Less
LessOrEqual Log LogSoftmax LpPool MatMul Max MaxPool MaxRoiPool MaxUnpool Mean Min Mod Mul Neg
NegativeLogLikelihoodLoss Not OneHot Or PRelu ParametricSoftplus Pad Pow RNN RandomNormal Reciprocal ReduceL1 ReduceL2
ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize
ReverseSequence RoiAlign Round Scatter ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Size Slice Softmax
SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split Sqrt Sub Sum Tan Tanh ThresholdedRelu Tile Transpose Where
Xor""".split()

REFUSED = """AffineGrid Bernoulli BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CenterCropPad Col2Im
Compress ConcatFromSequence ConvInteger CumProd DFT DeformConv Det DynamicQuantizeLinear ImageDecoder MatMulInteger
MaxRoiPool MaxUnpool MelWeightMatrix Multinomial NegativeLogLikelihoodLoss Optional OptionalGetElement
OptionalHasElement QLinearConv QLinearMatMul RegexFullMatch SequenceAt SequenceConstruct SequenceEmpty SequenceErase
SequenceInsert SequenceLength SequenceMap SoftmaxCrossEntropyLoss SplitToSequence StringConcat StringNormalizer
StringSplit SwiGLU TfIdfVectorizer Unique""".split()

# Of TPAT's 137, which it says need no plugin.
COMPILE_TIME = {"Cast": "TensorRT has it", "Constant": "a constant", "ConstantOfShape": "a constant, or TensorRT's own",
                "Dropout": "nothing is computed at inference", "GridSample": "TensorRT has it",
                "If": "control flow is TensorRT's own", "Loop": "control flow is TensorRT's own",
                "RandomNormalLike": "TensorRT has it", "RandomUniform": "TensorRT has it",
                "Scan": "control flow is TensorRT's own", "Shape": "a size, known while an engine is built",
                "Squeeze": "a view", "Unsqueeze": "a view"}

# Of those that TensorRT refuses, what works on no tensors of numbers.
OUT_OF_SCOPE = {
    **dict.fromkeys(["RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"],
                    "strings"),
    "ImageDecoder": "encoded images",
    **dict.fromkeys(["Optional", "OptionalGetElement", "OptionalHasElement"], "optional values"),
    **dict.fromkeys(["SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
                     "SequenceLength", "SequenceMap", "SplitToSequence"], "sequences of tensors"),
}

# Of which no node with tensors alone can be written.
NO_NODE = {"ConcatFromSequence": "it takes a sequence, which is no tensor that a plugin could be given; "
                                 "with the SequenceConstruct before it, it is a Concat",
           "ParametricSoftplus": "ONNX has no such operator any more"}

PLUGINS = sorted({*TPAT, *REFUSED} - set(OUT_OF_SCOPE))


def own_cases():
    """Cases of operators of which the onnx package has none: (model, arrays by input name)."""
    random = np.random.default_rng(7)

    def case(op, arrays, results, opset=22, **attributes):
        node = helper.make_node(op, list(arrays), [name for name, _ in results], **attributes)
        graph = helper.make_graph(
            [node], op,
            [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
             for name, array in arrays.items()],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in results])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), arrays

    image = random.standard_normal((2, 3, 6, 7)).astype(np.float32)
    rois = np.array([[0, 0, 0, 4, 4], [1, 1, 2, 5, 5]], np.float32)
    chances = np.log(np.array([[0.25, 0.5, 0.25], [0.1, 0.1, 0.8]], np.float32))
    return [case("GlobalLpPool", {"x": image}, [("y", TensorProto.FLOAT)], p=2),
            case("MaxRoiPool", {"x": image, "rois": rois}, [("y", TensorProto.FLOAT)], pooled_shape=[2, 2]),
            case("RandomNormal", {}, [("y", TensorProto.FLOAT)], shape=[4, 33], seed=3.0, dtype=TensorProto.FLOAT),
            case("Multinomial", {"x": chances}, [("y", TensorProto.INT32)], sample_size=20, seed=3.0,
                 dtype=TensorProto.INT32)]
