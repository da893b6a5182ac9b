# SPDX-License-Identifier: Apache-2.0
"""Operators of com.microsoft against ONNX Runtime: one-node models, by generated kernels and by the interpreter."""

import dataclasses
import functools
import pathlib
import sys
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import library
from support.run_model import by_graft

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "models"))

import convolution_blocks as blocks  # noqa: E402
import generative_architectures as generative  # noqa: E402
import network_builder  # noqa: E402
import network_inputs  # noqa: E402
import networks  # noqa: E402

DOMAIN = "com.microsoft"


@dataclasses.dataclass
class Case:
    """A node, its inputs by position (None: left out), and which of them are known when compiling."""
    name: str
    op: str
    inputs: list
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: tuple = ("y",)
    constants: tuple = ()
    domain: str = DOMAIN
    rtol: float = 2e-5
    atol: float = 2e-5


def seeded(name):
    return np.random.default_rng(sum(map(ord, name)))


def cases():
    """All cases; the data of each follow from its name."""
    rows = []

    def add(name, op, build, **rest):
        random = seeded(name)

        def f(*shape):
            return random.standard_normal(shape).astype(np.float32)

        def u8(*shape):
            return random.integers(0, 256, shape).astype(np.uint8)

        rows.append(Case(name, op, build(f, u8), **rest))

    one = np.float32
    byte = np.uint8
    attention = {"num_heads": 4}
    add("gelu", "Gelu", lambda f, u: [f(3, 7)])
    add("bias_gelu", "BiasGelu", lambda f, u: [f(2, 3, 8), f(8)])
    add("fast_gelu", "FastGelu", lambda f, u: [f(3, 7)])
    add("fast_gelu_with_bias", "FastGelu", lambda f, u: [f(2, 3, 8), f(8)])
    add("quick_gelu", "QuickGelu", lambda f, u: [f(3, 7)])
    add("quick_gelu_alpha", "QuickGelu", lambda f, u: [f(3, 7)], attributes={"alpha": 0.7})
    add("matmul", "FusedMatMul", lambda f, u: [f(2, 3, 4), f(2, 4, 5)], attributes={"alpha": 0.25})
    add("matmul_transposed", "FusedMatMul", lambda f, u: [f(2, 4, 3), f(2, 5, 4)],
        attributes={"transA": 1, "transB": 1})
    add("matmul_batches_inside", "FusedMatMul", lambda f, u: [f(3, 2, 4), f(4, 2, 5)],
        attributes={"transBatchA": 1, "transBatchB": 1})
    add("matmul_batches_inside_and_transposed", "FusedMatMul", lambda f, u: [f(4, 2, 3), f(5, 2, 4)],
        attributes={"transBatchA": 1, "transBatchB": 1, "transA": 1, "transB": 1})
    add("gemm_with_relu", "FusedGemm", lambda f, u: [f(3, 4), f(4, 5), f(5)],
        attributes={"activation": "Relu", "alpha": 0.5})
    add("conv_with_residual_and_relu", "FusedConv", lambda f, u: [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4), f(1, 4, 6, 6)],
        attributes={"activation": "Relu", "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]})
    add("conv_with_leaky_relu", "FusedConv", lambda f, u: [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)],
        attributes={"activation": "LeakyRelu", "activation_params": [0.3], "kernel_shape": [3, 3]})
    for name in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        tail = [] if "Simplified" in name else ["beta"]
        add(f"{name}_plain", name, lambda f, u, tail=tail: [f(2, 3, 8), f(2, 3, 8), f(8)] + [f(8) for _ in tail],
            attributes={"epsilon": 1e-5})
        add(f"{name}_bias_and_sum", name,
            lambda f, u, tail=tail: [f(2, 3, 8), f(2, 3, 8), f(8)] + [f(8) for _ in tail] + [f(8)],
            outputs=("y", "", "", "sum"))
        add(f"{name}_one_skip_for_the_batch", name,
            lambda f, u, tail=tail: [f(2, 3, 8), f(1, 3, 8), f(8)] + [f(8) for _ in tail])
        add(f"{name}_skip_without_batch", name,
            lambda f, u, tail=tail: [f(2, 3, 8), f(3, 8), f(8)] + [f(8) for _ in tail])
    add("simplified_layer_normalization", "SimplifiedLayerNormalization", lambda f, u: [f(2, 3, 8), f(8)], domain="",
        outputs=("y", "inverse"))
    ids = [np.int32([[1, 4, 2], [0, 3, 3]])]
    kinds = [np.int32([[0, 1, 1], [0, 0, 1]])]
    mask = [np.int32([[1, 1, 0], [1, 1, 1]])]
    add("embed_layer_normalization", "EmbedLayerNormalization",
        lambda f, u: ids + kinds + [f(6, 8), f(5, 8), f(2, 8), f(8), f(8)] + mask, outputs=("y", "mask", "sum"))
    add("embed_without_segments", "EmbedLayerNormalization",
        lambda f, u: ids + [None, f(6, 8), f(5, 8), None, f(8), f(8), None, np.int32([[2, 1, 0], [0, 1, 2]])],
        outputs=("y", "mask"))
    add("attention", "Attention", lambda f, u: [f(2, 5, 16), f(16, 48), f(48)], attributes=attention)
    add("attention_causal", "Attention", lambda f, u: [f(2, 5, 16), f(16, 48), f(48)],
        attributes=attention | {"unidirectional": 1})
    add("attention_counts_of_keys", "Attention",
        lambda f, u: [f(2, 5, 16), f(16, 48), f(48), np.int32([3, 5])], attributes=attention)
    add("attention_ends_and_starts_of_keys", "Attention",
        lambda f, u: [f(2, 5, 16), f(16, 48), f(48), np.int32([4, 5, 1, 2])], attributes=attention)
    add("attention_mask_of_keys", "Attention",
        lambda f, u: [f(2, 3, 16), f(16, 48), f(48), np.int32([[1, 1, 0], [1, 0, 1]])], attributes=attention)
    add("attention_mask_of_scores", "Attention",
        lambda f, u: [f(1, 3, 16), f(16, 48), f(48), np.int32([[[1, 0, 0], [1, 1, 0], [1, 1, 1]]])],
        attributes=attention)
    add("attention_cache", "Attention",
        lambda f, u: [f(2, 3, 16), f(16, 48), f(48), None, f(2, 2, 4, 5, 4)],
        attributes=attention | {"unidirectional": 1}, outputs=("y", "present"))
    add("attention_bias_of_scores", "Attention",
        lambda f, u: [f(2, 3, 16), f(16, 48), f(48), None, None, f(2, 4, 3, 3)], attributes=attention)
    add("attention_values_of_another_size", "Attention", lambda f, u: [f(2, 3, 16), f(16, 40), f(40)],
        attributes=attention | {"qkv_hidden_sizes": [16, 16, 8]})
    add("multi_head", "MultiHeadAttention", lambda f, u: [f(2, 3, 16), f(2, 5, 16), f(2, 5, 16)], attributes=attention)
    add("multi_head_bias_and_mask", "MultiHeadAttention",
        lambda f, u: [f(2, 3, 16), f(2, 5, 16), f(2, 5, 8), f(40), np.int32([[1, 1, 0, 1, 1], [1, 1, 1, 1, 0]])],
        attributes=attention | {"scale": 0.4})
    add("multi_head_cache_and_score_bias", "MultiHeadAttention",
        lambda f, u: [f(2, 3, 16), f(2, 3, 16), f(2, 3, 16), None, None, f(1, 4, 3, 5), f(2, 4, 2, 4), f(2, 4, 2, 4)],
        attributes=attention, outputs=("y", "key", "value"))
    add("multi_head_causal", "MultiHeadAttention", lambda f, u: [f(2, 5, 16), f(2, 5, 16), f(2, 5, 16)],
        attributes=attention | {"unidirectional": 1})
    add("multi_head_of_an_encoder", "MultiHeadAttention", lambda f, u: [f(2, 3, 16), f(2, 4, 5, 4), f(2, 4, 5, 4)],
        attributes=attention)
    groups = {"num_heads": 4, "kv_num_heads": 2}
    turn = [np.cos(np.arange(36).reshape(12, 3) / 7).astype(np.float32),
            np.sin(np.arange(36).reshape(12, 3) / 7).astype(np.float32)]
    turn8 = [np.cos(np.arange(96).reshape(12, 8) / 7).astype(np.float32),
             np.sin(np.arange(96).reshape(12, 8) / 7).astype(np.float32)]
    add("groups_prompt", "GroupQueryAttention",
        lambda f, u: [f(2, 5, 64), f(2, 5, 32), f(2, 5, 32), f(2, 2, 0, 16), f(2, 2, 0, 16), np.int32([4, 4]),
                      np.int32(5)], attributes=groups, outputs=("y", "key", "value"))
    add("groups_next_token_with_rotation", "GroupQueryAttention",
        lambda f, u: [f(2, 1, 64), f(2, 1, 32), f(2, 1, 32), f(2, 2, 6, 16), f(2, 2, 6, 16), np.int32([6, 6]),
                      np.int32(7)] + turn8, attributes=groups | {"do_rotary": 1}, outputs=("y", "key", "value"))
    add("groups_window", "GroupQueryAttention",
        lambda f, u: [f(1, 1, 64), f(1, 1, 32), f(1, 1, 32), f(1, 2, 6, 16), f(1, 2, 6, 16), np.int32([6]),
                      np.int32(7)], attributes=groups | {"local_window_size": 3, "scale": 0.5},
        outputs=("y", "key", "value"))
    add("groups_packed_with_softcap", "GroupQueryAttention",
        lambda f, u: [f(1, 5, 128), None, None, f(1, 2, 0, 16), f(1, 2, 0, 16), np.int32([4]), np.int32(5)],
        attributes=groups | {"softcap": 5.0}, outputs=("y", "key", "value"))
    add("rotary_positions", "RotaryEmbedding",
        lambda f, u: [f(2, 3, 12), np.int64([[0, 1, 2], [5, 6, 11]])] + turn, outputs=("y",))
    add("rotary_offset_interleaved", "RotaryEmbedding", lambda f, u: [f(2, 3, 12), np.int64([4])] + turn,
        attributes={"interleaved": 1})
    add("rotary_four_axes", "RotaryEmbedding", lambda f, u: [f(2, 4, 3, 6), np.int64([[0, 1, 2], [5, 6, 11]])] + turn)
    for bits, k in ((4, 64), (4, 48), (8, 32)):
        blocks, n = -(-k // 32), 6
        add(f"matmul_{bits}_bits_{k}", "MatMulNBits",
            lambda f, u, bits=bits, blocks=blocks, k=k: [f(3, k), u(6, blocks, 4 * bits), np.abs(f(6 * blocks))],
            attributes={"K": k, "N": n, "bits": bits, "block_size": 32}, constants=(1, 2), rtol=1e-4, atol=1e-3)
    add("matmul_4_bits_zero_points_and_bias", "MatMulNBits",
        lambda f, u: [f(2, 3, 96), u(6, 3, 16), np.abs(f(18)), u(12), None, f(6)],
        attributes={"K": 96, "N": 6, "bits": 4, "block_size": 32}, constants=(1, 2, 3), rtol=1e-4, atol=1e-3)
    pair = [one(0.02), byte(120)]
    other = [one(0.03), byte(110)]
    result = [one(0.05), byte(128)]
    step = {"rtol": 0, "atol": 1.01}  # a tie may round to either side of it
    for name in ("QLinearAdd", "QLinearMul"):
        add(name, name, lambda f, u: [u(3, 7)] + pair + [u(7)] + other + result, **step)
    for name in ("QLinearSigmoid", "QLinearLeakyRelu"):
        add(name, name, lambda f, u: [u(3, 7)] + pair + result, constants=(1, 2, 3, 4), **step)
    add("QLinearSoftmax", "QLinearSoftmax", lambda f, u: [u(3, 7)] + pair + [one(1 / 256), byte(0)],
        attributes={"opset": 13, "axis": -1}, constants=(1, 2, 3, 4), **step)
    add("QLinearAveragePool", "QLinearAveragePool", lambda f, u: [u(1, 3, 6, 6)] + pair + result,
        attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, constants=(1, 2, 3, 4), **step)
    add("QLinearGlobalAveragePool", "QLinearGlobalAveragePool", lambda f, u: [u(1, 3, 6, 6)] + pair + result,
        constants=(1, 2, 3, 4), **step)
    add("QLinearGlobalAveragePool_channels_last", "QLinearGlobalAveragePool",
        lambda f, u: [u(1, 6, 6, 3)] + pair + result, attributes={"channels_last": 1}, constants=(1, 2, 3, 4), **step)
    add("QLinearConcat", "QLinearConcat", lambda f, u: result + [u(2, 3)] + pair + [u(2, 4)] + other,
        attributes={"axis": 1}, constants=(0, 1, 3, 4, 6, 7), **step)
    add("matmul_integer_to_float", "MatMulIntegerToFloat",
        lambda f, u: [u(3, 8), u(8, 5), one(0.02), np.abs(f(5)), byte(120), u(5), f(5)], constants=(1,))
    add("dynamic_quantize_matmul", "DynamicQuantizeMatMul",
        lambda f, u: [f(3, 8), u(8, 5), np.float32([0.02]), np.uint8([120]), f(5)], constants=(1,))
    scales = [one(0.02), byte(120)]
    to = [one(0.05), byte(100)]
    for name, rest in (("to_bytes", to), ("to_floats", [])):
        add(f"quantized_gemm_{name}", "QGemm",
            lambda f, u, rest=rest: [u(3, 8), *scales, u(8, 4), one(0.03), byte(130), np.int32([5, -7, 0, 900]), *rest],
            constants=(3,), atol=1 if rest else 1e-3)
    add("quantized_gemm_per_channel", "QGemm",
        lambda f, u: [u(3, 8), *scales, u(4, 8), np.float32([0.01, 0.02, 0.03, 0.04]), np.uint8([120, 1, 122, 3]),
                      None, *to], attributes={"transB": 1, "alpha": 0.5}, constants=(3,), atol=1)
    add("quantized_choice", "QLinearWhere",
        lambda f, u: [u(2, 5) > 128, u(2, 5), *scales, u(2, 5), one(0.03), byte(130), *to], atol=1)
    add("quantized_lstm", "DynamicQuantizeLSTM",
        lambda f, u: [f(4, 2, 5), u(1, 5, 24).astype(np.int8), u(1, 6, 24).astype(np.int8), f(1, 48), None, None, None,
                      None, np.float32([0.01]), np.int8([0]), np.float32([0.01]), np.int8([0])],
        attributes={"hidden_size": 6}, outputs=("y", "h", "c"), constants=(1, 2, 8, 9, 10, 11), atol=0.02)
    add("weights_of_4_bits_in_told_blocks", "MatMulNBits",
        lambda f, u: [f(2, 64), u(8, 2, 16), f(16), None, np.int32([1, 0] * 32)],
        attributes={"K": 64, "N": 8, "bits": 4, "block_size": 32}, constants=(1, 2, 4), rtol=1e-4, atol=1e-4)
    for name, kind in (("floats", 0), ("quantiles", 1)):
        add(f"weights_of_bitsandbytes_{name}", "MatMulBnb4",
            lambda f, u: [f(2, 32), u(128), np.abs(f(4))], constants=(1, 2), rtol=1e-4, atol=1e-4,
            attributes={"K": 32, "N": 8, "block_size": 64, "quant_type": kind})
    for name, zero in (("middle", None), ("told", True)):
        add(f"rows_of_4_bits_zero_{name}", "GatherBlockQuantized",
            lambda f, u, zero=zero: [u(9, 16), np.int64([[1, 8, 0], [3, 3, 5]]), f(9, 2), *([u(9, 1)] if zero else [])],
            attributes={"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": 4}, constants=(0, 2, 3) if zero
            else (0, 2))
    for activation in ("relu", "silu", "gelu"):
        for share in (0, 1):
            add(f"experts_{activation}_{share}", "MoE",
                lambda f, u: [f(5, 16), f(5, 4), f(4, 32, 16), f(4, 32), f(4, 16, 32), f(4, 16)], rtol=1e-3, atol=1e-3,
                attributes={"k": 2, "activation_type": activation, "normalize_routing_weights": share})
    add("inverse", "Inverse", lambda f, u: [f(2, 4, 4)], rtol=1e-3, atol=1e-3)
    add("inverse_needs_a_pivot", "Inverse", lambda f, u: [np.float32([[0, 2, 1], [3, 0, 5], [1, 4, 0]])])
    add("samples_of_a_grid", "GridSample", lambda f, u: [f(1, 2, 4, 4), np.tanh(f(1, 3, 3, 2))],
        attributes={"mode": "bilinear", "padding_mode": "border", "align_corners": 1})
    add("lower_triangle", "Trilu", lambda f, u: [f(3, 4), np.array(-1)], attributes={"upper": 0}, constants=(1,))
    add("padding", "Pad", lambda f, u: [f(3, 4), np.int64([1, 0, 0, 2]), one(3)], attributes={"mode": "constant"},
        constants=(1,))
    add("unique_values", "Unique", lambda f, u: [np.float32([3, 1, 3, 2, 1, 1])], outputs=("y", "place", "count"))
    for metric in ("euclidean", "sqeuclidean"):
        add(f"distances_{metric}", "CDist", lambda f, u: [f(5, 3), f(7, 3)], attributes={"metric": metric}, rtol=1e-4,
            atol=1e-4)
    add("a_new_axis", "ExpandDims", lambda f, u: [f(3, 4), np.array(-1, np.int32)], constants=(1,))
    for mode in ("bilinear", "nearest"):
        add(f"crops_{mode}", "CropAndResize",
            lambda f, u: [f(2, 2, 8, 7), np.float32([[0.1, 0.1, 0.83, 0.9], [-0.2, 0.3, 0.5, 1.3]]), np.int32([1, 0]),
                          np.int32([4, 5])], attributes={"mode": mode, "extrapolation_value": 2.0}, constants=(3,))
    add("repeated_runs_of_tokens", "NGramRepeatBlock",
        lambda f, u: [np.int64([[0, 1, 2, 0, 1], [2, 2, 2, 2, 2]]), f(2, 4)], attributes={"ngram_size": 3})
    for positive in (0, 1):
        add(f"hash_{positive}", "MurmurHash3", lambda f, u: [np.int32([3, -4, 2**31 - 1])],
            attributes={"positive": positive, "seed": 7})
    cache = [np.int32([3]), np.array(4, np.int32)]
    add("sinks_of_the_softmax", "GroupQueryAttention",
        lambda f, u: [f(1, 4, 64), f(1, 4, 32), f(1, 4, 32), f(1, 2, 0, 16), f(1, 2, 0, 16), *cache, None, None, None,
                      None, f(4)], attributes={"num_heads": 4, "kv_num_heads": 2}, constants=(11,),
        outputs=("y", "k", "v"), rtol=1e-4, atol=1e-4)
    add("one_query_and_a_cache_with_room", "DecoderMaskedMultiHeadAttention",
        lambda f, u: [f(2, 1, 16), f(2, 1, 16), f(2, 1, 16), None, None, f(2, 4, 8, 4), f(2, 4, 8, 4), np.int32([3])],
        attributes=attention | {"past_present_share_buffer": 1}, outputs=("y", "k", "v"), rtol=1e-4, atol=1e-4)
    add("one_query_and_a_mask_of_the_keys_that_count", "DecoderMaskedMultiHeadAttention",
        lambda f, u: [f(2, 1, 16), f(2, 1, 16), f(2, 1, 16), np.int32([[1, 1, 0, 1], [1, 0, 1, 1]]), None,
                      f(2, 4, 8, 4), f(2, 4, 8, 4), np.int32([3])],
        attributes=attention | {"past_present_share_buffer": 1}, outputs=("y", "k", "v"), rtol=1e-4, atol=1e-4)
    add("quantized_attention", "QAttention",
        lambda f, u: [u(2, 3, 16), u(16, 48), f(48), one(0.02), one(0.01), np.int32([2, 3]), byte(120), byte(128)],
        attributes=attention, constants=(1,), rtol=1e-4, atol=1e-4)
    return rows


def model_of(case):
    """The one-node model, and what it is fed."""
    names = ["" if value is None else f"x{i}" for i, value in enumerate(case.inputs)]
    given = {f"x{i}": np.asarray(value) for i, value in enumerate(case.inputs) if value is not None}
    constants = {f"x{i}" for i in case.constants}
    node = helper.make_node(case.op, names, list(case.outputs), domain=case.domain, name="the_node", **case.attributes)
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
              for name, value in given.items() if name not in constants]
    graph = helper.make_graph([node], "contrib", inputs,
                              [onnx.ValueInfoProto(name=name) for name in case.outputs if name],
                              [numpy_helper.from_array(given[name], name) for name in sorted(constants)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 10
    return model, {name: value for name, value in given.items() if name not in constants}


def by_onnxruntime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"]).run(None, feeds)


def agree(case, expected, got):
    for name, wanted, found in zip([name for name in case.outputs if name], expected, got):
        assert found.shape == wanted.shape and found.dtype == wanted.dtype, name
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=case.rtol,
                                   atol=case.atol, err_msg=name)


@pytest.mark.parametrize("mode", ["generated", "interpret"])
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_agrees_with_onnxruntime(graft, case, mode):
    model, feeds = model_of(case)
    expected = by_onnxruntime(model, feeds)
    got, ways = by_graft(graft, model, feeds, mode)
    agree(case, expected, got)
    if mode == "generated":
        assert not ways.get("interpreter"), ways


def composed(nodes, inputs):
    """The model of several nodes of ai.onnx that an operator is compared with where ONNX Runtime's CPU lacks it."""
    graph = helper.make_graph(nodes, "composition",
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
                               for name, value in inputs.items()],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)])
    model.ir_version = 10
    return model


def against_composition(graft, node, nodes, inputs):
    expected = by_onnxruntime(composed(nodes, inputs), inputs)
    got, ways = by_graft(graft, composed([node], inputs), inputs, "generated")
    np.testing.assert_allclose(got[0], expected[0], rtol=2e-5, atol=2e-5)
    assert not ways.get("interpreter"), ways


def test_convolution_with_channels_last(graft):
    random = seeded("nhwc")
    x = random.standard_normal((2, 6, 5, 3)).astype(np.float32)
    w = random.standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [helper.make_node("Transpose", ["x"], ["a"], perm=[0, 3, 1, 2]),
             helper.make_node("Transpose", ["w"], ["v"], perm=[0, 3, 1, 2]),
             helper.make_node("Conv", ["a", "v"], ["b"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
             helper.make_node("Transpose", ["b"], ["y"], perm=[0, 2, 3, 1])]
    node = helper.make_node("NhwcConv", ["x", "w"], ["y"], domain=DOMAIN, pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    against_composition(graft, node, nodes, {"x": x, "w": w})


def test_group_normalization_with_channels_last_and_silu(graft):
    random = seeded("group")
    inputs = {"x": random.standard_normal((2, 4, 5, 6)).astype(np.float32),
              "s": random.standard_normal(6).astype(np.float32), "b": random.standard_normal(6).astype(np.float32)}
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
             helper.make_node("GroupNormalization", ["t", "s", "b"], ["g"], num_groups=3, epsilon=1e-5),
             helper.make_node("Sigmoid", ["g"], ["o"]), helper.make_node("Mul", ["g", "o"], ["m"]),
             helper.make_node("Transpose", ["m"], ["y"], perm=[0, 2, 3, 1])]
    node = helper.make_node("GroupNorm", ["x", "s", "b"], ["y"], domain=DOMAIN, groups=3, activation=1,
                            channels_last=1, epsilon=1e-5)
    against_composition(graft, node, nodes, inputs)


def test_operators_that_only_gpus_have_are_their_compositions(graft):
    random = seeded("bias")
    x, bias, skip = (random.standard_normal(shape).astype(np.float32) for shape in [(2, 3, 4, 6), (2, 1, 1, 6), (6,)])
    against_composition(
        graft, helper.make_node("BiasSoftmax", ["x", "b"], ["y"], domain=DOMAIN, axis=3, is_inner_broadcast=0),
        [helper.make_node("Add", ["x", "b"], ["s"]), helper.make_node("Softmax", ["s"], ["y"], axis=-1)],
        {"x": x, "b": bias})
    against_composition(
        graft, helper.make_node("BiasAdd", ["x", "b", "s"], ["y"], domain=DOMAIN),
        [helper.make_node("Add", ["x", "b"], ["t"]), helper.make_node("Add", ["t", "s"], ["y"])],
        {"x": x, "b": skip, "s": x * 2})
    group = {"groups": 3, "activation": 1, "channels_last": 1}
    against_composition(
        graft, helper.make_node("SkipGroupNorm", ["x", "g", "b", "s"], ["y"], domain=DOMAIN, **group),
        [helper.make_node("Add", ["x", "s"], ["t"]), helper.make_node("Transpose", ["t"], ["u"], perm=[0, 3, 1, 2]),
         helper.make_node("GroupNormalization", ["u", "g", "b"], ["n"], num_groups=3, epsilon=1e-5),
         helper.make_node("Sigmoid", ["n"], ["o"]), helper.make_node("Mul", ["n", "o"], ["m"]),
         helper.make_node("Transpose", ["m"], ["y"], perm=[0, 2, 3, 1])],
        {"x": x, "g": skip, "b": skip * 2, "s": x * 3})


def test_gelu_of_half_of_a_sum(graft):
    random = seeded("split")
    inputs = {"x": random.standard_normal((2, 3, 8)).astype(np.float32),
              "b": random.standard_normal(8).astype(np.float32)}
    nodes = [helper.make_node("Add", ["x", "b"], ["s"]),
             helper.make_node("Split", ["s"], ["l", "r"], axis=-1, num_outputs=2),
             helper.make_node("Gelu", ["r"], ["g"]), helper.make_node("Mul", ["l", "g"], ["y"])]
    node = helper.make_node("BiasSplitGelu", ["x", "b"], ["y"], domain=DOMAIN)
    against_composition(graft, node, nodes, inputs)


def test_packed_operands_are_those_apart(graft):
    random = seeded("packed")
    q, k, v = (random.standard_normal((2, 3, 4, 8)).astype(np.float32) for _ in range(3))
    flat = [part.reshape(2, 3, 32) for part in (q, k, v)]
    model, feeds = model_of(Case("apart", "MultiHeadAttention", flat, {"num_heads": 4}))
    expected = by_onnxruntime(model, feeds)
    for inputs in ([np.stack([q, k, v], axis=3)], [flat[0], np.stack([k, v], axis=3)]):
        case = Case("packed", "MultiHeadAttention", inputs, {"num_heads": 4})
        agree(case, expected, by_graft(graft, *model_of(case), "generated")[0])


BLOCKED = "com.microsoft.nchwc"
TINY_GPT2 = dataclasses.replace(generative.GPT2, words=101, hidden=32, layers=2, heads=4, positions=24)
TINY_WHISPER = dataclasses.replace(generative.WHISPER_TINY, words=101, hidden=32, layers=2, heads=4, positions=24,
                                   bands=16, frames=40)
LENGTH = 9


def image_blocks():
    """Convolutions that ONNX Runtime blocks in every way it has: few channels, depthwise, groups, a residual, an
    activation, sizes that blocks do not divide, poolings, and channels that come last."""
    net = network_builder.NetworkBuilder("blocks")
    x = net.input("input", np.float32, ["batch", 3, 20, 20])
    x = net.op("Relu", blocks.conv(net, x, (20, 3, 3, 3), "few"))
    x = net.op("Clip", blocks.conv(net, net.op("Erf", x), (32, 20, 1, 1), "odd"), net.constant(0.0), net.constant(6.0))
    y = net.op("LeakyRelu", blocks.conv(net, x, (32, 1, 3, 3), "each", groups=32), alpha=0.1)
    x = net.op("Relu", net.op("Add", x, blocks.conv(net, y, (32, 32, 1, 1), "residual")))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    x = net.op("Sigmoid", blocks.conv(net, x, (64, 32, 3, 3), "strided", 2))
    y = blocks.conv(net, x, (64, 32, 3, 3), "groups", groups=2)
    x = net.op("AveragePool", net.op("Concat", x, y, axis=1), kernel_shape=[2, 2], strides=[1, 1])
    x = net.op("Resize", x, "", net.constant([1.0, 1.0, 2.0, 2.0]), mode="nearest", nearest_mode="floor",
               coordinate_transformation_mode="asymmetric")
    net.output("most", net.op("GlobalMaxPool", x), np.float32, ["batch", 128, 1, 1])
    net.output("mean", net.op("GlobalAveragePool", x), np.float32, ["batch", 128, 1, 1])
    x = blocks.conv(net, x, (36, 128, 1, 1), "last")
    net.output("last", net.op("Transpose", x, perm=[0, 2, 3, 1]), np.float32, ["batch", 8, 8, 36])
    return net.model()


@dataclasses.dataclass
class Optimised:
    """A network, whether its sizes are known to the optimiser, and operators that the optimiser then writes."""
    name: str
    build: Callable
    inputs: Callable
    written: set
    fixed: bool = False
    level: str = "ORT_ENABLE_ALL"


def optimised_networks():
    table = networks.NETWORKS
    words = functools.partial(network_inputs.word_inputs, 101, length=LENGTH)
    speech = functools.partial(generative.speech_inputs, 101, 40, 16, length=LENGTH)
    bert = functools.partial(network_inputs.token_inputs, networks.TINY_BERT.vocab_size, length=LENGTH)
    image = functools.partial(network_inputs.image_inputs, 20)
    skip = "SkipLayerNormalization"
    conv = {f"{BLOCKED}.{name}" for name in ("Conv", "ReorderOutput", "GlobalAveragePool")}
    blocked = {f"{BLOCKED}.{name}" for name in ("ReorderInput", "MaxPool", "AveragePool", "GlobalMaxPool", "Upsample")}
    one_node = functools.partial(networks.tiny_transformer, fused=True)
    return [Optimised("bert", networks.tiny_transformer, bert, {"FusedMatMul", "BiasGelu", "FusedGemm"}),
            Optimised("bert_fixed", one_node, bert, {"FusedMatMul", "FusedGemm", skip}, True),
            Optimised("gpt2", functools.partial(generative.gpt2, config=TINY_GPT2), words, {"FastGelu"}),
            Optimised("gpt2_fixed", functools.partial(generative.gpt2, config=TINY_GPT2), words, {"FastGelu", skip},
                      True),
            Optimised("whisper", functools.partial(generative.whisper_tiny, config=TINY_WHISPER), speech,
                      {"BiasGelu", skip}),
            Optimised("whisper_fixed", functools.partial(generative.whisper_tiny, config=TINY_WHISPER), speech,
                      {"FusedMatMul", skip}, True),
            Optimised("cnn_extended", networks.tiny_cnn, table["tiny_cnn"].inputs, {"FusedConv"},
                      level="ORT_ENABLE_EXTENDED"),
            Optimised("cnn", networks.tiny_cnn, table["tiny_cnn"].inputs, conv),
            Optimised("resnet50", table["resnet50"].build, table["resnet50"].inputs, conv),
            Optimised("blocks", image_blocks, image, conv | blocked)]


@pytest.mark.parametrize("case", optimised_networks(), ids=lambda case: case.name)
def test_what_the_optimiser_of_onnxruntime_writes_agrees(graft, tmp_path, case):
    model = case.build()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, case.level)
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    feeds = case.inputs(batch=2)
    if case.fixed:
        for name, size in (("batch", 2), ("length", LENGTH)):
            options.add_free_dimension_override_by_name(name, size)
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    optimised = onnx.load(options.optimized_model_filepath)
    written = {node.op_type if node.domain == DOMAIN else f"{node.domain}.{node.op_type}"
               for node in optimised.graph.node}
    assert case.written <= written, written
    got, ways = by_graft(graft, optimised, feeds, "generated")
    for wanted, found in zip(by_onnxruntime(model, feeds), got):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    assert not ways.get("interpreter"), ways


def test_an_unknown_attribute_is_an_error_that_names_the_node(graft):
    model, feeds = model_of(Case("x", "Gelu", [np.zeros((2, 2), np.float32)], {"shape": 3}))
    with pytest.raises(library.GraftError, match=r"the_node.*the attribute 'shape' is not known here"):
        by_graft(graft, model, feeds, "generated")


def test_a_missing_input_is_an_error_that_names_the_node(graft):
    model, feeds = model_of(Case("x", "BiasGelu", [np.zeros((2, 2), np.float32)]))
    with pytest.raises(library.GraftError, match=r"the_node.*it needs 2 inputs"):
        by_graft(graft, model, feeds, "generated")
