# SPDX-License-Identifier: Apache-2.0
"""What each row of the table of ATen operators is tried with: names that share a row, then arguments of theirs."""

import torch

I64, I32, F16, F64, BOOL = torch.int64, torch.int32, torch.float16, torch.float64, torch.bool


def x(*shape, dtype=torch.float32, low=-2.0, high=2.0):
    """Numbers that differ, the same ones in each run."""
    generator = torch.Generator().manual_seed(sum(shape) + 7)
    if dtype == BOOL:
        return torch.rand(shape, generator=generator) > 0.4
    made = torch.rand(shape, generator=generator) * (high - low) + low
    return made.to(dtype)


def whole(*shape, low=0, high=5, dtype=I64):
    """Integers in [low, high)."""
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(len(shape) + high)).to(dtype)


def special():
    """Zeros of both signs, infinities and what is no number among others."""
    return torch.tensor([0.0, -0.0, 1.5, -1.5, 2.5, -0.3, 1e-6, -1e-6, float("inf"), float("-inf"), float("nan")])


POSITIVE = {"low": 0.2, "high": 3.0}
INSIDE = {"low": -0.9, "high": 0.9}


def unary_cases():
    """Functions of one tensor."""
    for names in ("cos", "cosh", "sin", "sinh", "tan", "tanh", "erf special_erf", "exp", "sigmoid special_expit",
                  "exp2", "expm1", "asinh arcsinh", "atan arctan"):
        yield names, (x(2, 5),), {}
        yield names, (special(),), {}
        yield names, (whole(4),), {}
    for names in ("acos arccos", "asin arcsin", "atanh arctanh"):
        yield names, (x(2, 5, **INSIDE),), {}
    for names in ("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "log1p"):
        yield names, (x(2, 5, **POSITIVE),), {}
        yield names, (special(),), {}
        yield names, (x(3, dtype=F16, **POSITIVE),), {}
    yield "log1p", (torch.tensor([1e-7, -1e-7, 1e-3, -0.6, 1e8]),), {}
    yield "expm1", (torch.tensor([1e-7, -1e-7, 1e-3, -90.0, 80.0]),), {}
    yield "acosh arccosh", (x(2, 5, low=1.1, high=4.0),), {}
    for names in ("neg negative", "abs absolute", "sign sgn", "square", "ceil", "floor", "round", "trunc fix"):
        yield names, (special(),), {}
        yield names, (whole(2, 3, low=-4),), {}
        yield names, (x(3, dtype=F64),), {}
    yield "frac", (x(2, 5),), {}
    for names in ("isnan", "isinf", "isfinite"):
        yield names, (special(),), {}
        yield names, (whole(3),), {}
    yield "logical_not", (special(),), {}
    yield "logical_not bitwise_not", (x(5, dtype=BOOL),), {}
    yield "bitwise_not", (whole(5, dtype=I32),), {}
    yield "detach alias lift_fresh lift_fresh_copy positive lift clone contiguous", (x(2, 3),), {}


def activation_cases():
    """Activations, with their parameters."""
    for names in ("relu", "relu6", "gelu", "silu", "mish", "hardswish", "hardsigmoid", "selu", "elu", "celu",
                  "leaky_relu", "hardshrink", "softshrink", "softplus", "log_sigmoid", "hardtanh", "glu"):
        yield names, (x(2, 6, low=-8.0, high=8.0),), {}
    yield "relu", (special(),), {}
    yield "gelu", (x(2, 6),), {"approximate": "tanh"}
    yield "elu", (x(2, 6), 0.7, 1.3, 0.9), {}
    yield "elu", (x(2, 6), 0.7, 1.3), {}
    yield "celu", (x(2, 6), 0.6), {}
    yield "leaky_relu", (x(2, 6), 0.2), {}
    yield "hardshrink", (x(2, 6), 0.9), {}
    yield "softshrink", (x(2, 6), 0.9), {}
    yield "softplus", (x(2, 6), 2.0, 1.0), {}
    yield "threshold", (x(2, 6), 0.1, 20.0), {}
    yield "glu", (x(4, 6), 0), {}
    yield "prelu _prelu_kernel", (x(2, 3, 4), x(1)), {}
    yield "prelu", (x(2, 3, 4), x(3)), {}
    yield "clamp clip", (x(2, 6), -0.5, 0.5), {}
    yield "clamp", (special(), -0.5), {}
    yield "clamp", (x(2, 6), None, 0.25), {}
    yield "clamp", (whole(6), 1, 3), {}
    yield "clamp", (whole(6), 0.5, 2.5), {}
    yield "clamp.Tensor clip.Tensor", (x(2, 6), x(6, low=-1.0, high=0.0), x(2, 1, low=0.1)), {}
    yield "clamp_min", (x(2, 6), 0.3), {}
    yield "clamp_max", (x(2, 6), 0.3), {}
    yield "clamp_min.Tensor", (x(2, 6), x(6)), {}
    yield "clamp_max.Tensor", (x(2, 6), x(6)), {}
    yield "hardtanh", (x(2, 6), -0.5, 0.75), {}
    yield "dropout feature_dropout alpha_dropout feature_alpha_dropout", (x(2, 6), 0.5, False), {}
    yield "native_dropout", (x(2, 6), 0.5, False), {}


def arithmetic_cases():
    """Operands of several types and shapes."""
    for name in ("add", "sub", "rsub"):
        yield f"{name}.Tensor", (x(2, 3), x(3)), {"alpha": 2}
        yield f"{name}.Scalar", (x(2, 3), 1.5, 3), {}
        yield f"{name}.Tensor", (x(2, 3), whole(2, 1)), {}
        yield f"{name}.Tensor", (whole(2, 3), x(3, dtype=F16)), {}
        yield f"{name}.Scalar", (whole(2, 3), 2), {}
        yield f"{name}.Scalar", (whole(2, 3), 2.5), {}
    yield "add.Tensor", (x(3, dtype=BOOL), torch.tensor([True, False, False])), {}
    yield "add.Tensor", (whole(3, dtype=I32), whole(3)), {}
    yield "add.Tensor", (x(3, dtype=F16), torch.tensor(1.5, dtype=F64)), {}
    yield "add.Scalar", (torch.tensor([2**31, 2**40 + 1, -(2**33)]), 2**33), {}
    yield "add.Scalar", (x(3, dtype=F64), 0.1), {}
    for name in ("mul", "div", "true_divide"):
        yield f"{name}.Tensor", (x(2, 3), x(2, 1, **POSITIVE)), {}
        yield f"{name}.Tensor", (whole(2, 3), whole(3, low=1)), {}
        yield f"{name}.Scalar", (x(2, 3), -1.5), {}
        yield f"{name}.Scalar", (whole(2, 3), 2), {}
    quotients = (torch.tensor([7.0, -7.0, 7.5, -7.5, 1.0, 6.0]), torch.tensor([2.0, 2.0, -2.0, -2.0, 0.1, -3.0]))
    integers = (torch.tensor([7, -7, 7, -7, 6]), torch.tensor([2, 2, -2, -2, -3]))
    for mode in (None, "floor", "trunc"):
        for pair in (quotients, integers):
            yield "div.Tensor_mode", pair, {"rounding_mode": mode}
        yield "div.Scalar_mode", (quotients[0], 2.5), {"rounding_mode": mode}
    for pair in (quotients, integers):
        yield "floor_divide remainder.Tensor fmod.Tensor", pair, {}
        yield "floor_divide.Scalar remainder.Scalar fmod.Scalar", (pair[0], -2), {}
    for names in ("maximum max.other", "minimum min.other"):
        yield names, (x(2, 3), x(3)), {}
        yield names, (special(), special().flip(0)), {}
        yield names, (whole(4), whole(4, high=9)), {}
    signs = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0])
    yield "atan2 arctan2", (signs[:, None].contiguous(), signs), {}
    yield "hypot", (x(4), x(4, **POSITIVE)), {}
    for name in ("logical_and", "logical_or", "logical_xor"):
        yield name, (x(4, dtype=BOOL), torch.tensor([True, False, True, False])), {}
        yield name, (whole(4), torch.tensor([0.0, 1.0, 0.0, 2.0])), {}
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        yield f"{name}.Tensor", (whole(4), whole(4, high=9)), {}
        yield f"{name}.Tensor", (x(4, dtype=BOOL), torch.tensor([True, False, True, False])), {}
        yield f"{name}.Scalar", (whole(4, dtype=I32), 3), {}
    yield "__and__.Tensor __or__.Tensor", (x(4, dtype=BOOL), torch.tensor([True, False, True, False])), {}
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        yield f"{name}.Tensor", (special(), special().flip(0)), {}
        yield f"{name}.Tensor", (whole(6), whole(6, high=4)), {}
        yield f"{name}.Tensor", (x(4, dtype=BOOL), torch.tensor([True, False, True, False])), {}
        yield f"{name}.Scalar", (whole(6), 2), {}
        yield f"{name}.Scalar", (whole(6), 1.5), {}
    for exponent in (2, 0.5, -0.5, 1, 3, -2, 2.5, 0):
        yield "pow.Tensor_Scalar", (x(2, 3, **POSITIVE), exponent), {}
    yield "pow.Tensor_Scalar", (whole(4), 3), {}
    yield "pow.Tensor_Scalar", (whole(4), 1.5), {}
    yield "pow.Tensor_Tensor", (x(2, 3, **POSITIVE), x(3)), {}
    yield "pow.Scalar", (2, x(2, 3)), {}
    yield "where.self", (x(2, 3, dtype=BOOL), x(2, 3), x(3)), {}
    yield "where.self", (x(2, 3, dtype=BOOL), whole(2, 3), torch.tensor(0.5)), {}
    yield "where.ScalarOther", (x(3, dtype=BOOL), x(3), 0.5), {}
    yield "where.ScalarSelf", (x(3, dtype=BOOL), 0.5, x(3)), {}
    yield "where.Scalar", (x(3, dtype=BOOL), 1.0, 2.0), {}
    yield "masked_fill.Scalar", (x(2, 3), x(3, dtype=BOOL), float("-inf")), {}
    yield "masked_fill.Scalar", (whole(3), x(3, dtype=BOOL), 7), {}
    yield "masked_fill.Tensor", (x(2, 3), x(2, 3, dtype=BOOL), torch.tensor(2.0)), {}
    yield "addcmul", (x(2, 3), x(3), x(2, 1)), {"value": 0.5}
    yield "addcdiv", (x(2, 3), x(3), x(2, 1, **POSITIVE)), {}
    yield "lerp.Scalar", (x(3), x(3, **POSITIVE), 0.75), {}
    yield "lerp.Tensor", (x(3), x(3, **POSITIVE), torch.tensor([0.1, 0.5, 2.0])), {}


def cast_cases():
    """Between types."""
    for dtype in (F16, F64, I32, I64, BOOL, torch.bfloat16, torch.uint8):
        yield "to.dtype", (x(2, 3, low=0.0, high=9.0), dtype), {}
        yield "_to_copy to.dtype_layout", (whole(2, 3),), {"dtype": dtype}
    yield "_to_copy", (x(2, 3),), {}
    yield "to.device", (x(2, 3), torch.device("cpu"), F64), {}
    yield "to.other type_as", (x(2, 3), whole(1)), {}


def reduction_cases():
    """Over all axes, some, and none to speak of."""
    for names in ("sum", "prod", "mean"):
        yield names, (x(2, 3, 4),), {}
        yield names, (x(2, 3),), {"dtype": F64}
        yield names, (torch.tensor(1.5),), {}
    for name in ("sum.dim_IntList", "mean.dim"):
        for dims in ([1], [-1, 0], [], None):
            yield name, (x(2, 3, 4), dims), {}
        yield name, (x(2, 3, 4), [-2], True), {"dtype": F64}
    yield "sum prod", (whole(2, 3, high=3),), {}
    yield "sum.dim_IntList", (x(2, 3, dtype=BOOL), [1]), {}
    yield "prod.dim_int", (x(2, 3), -1, True), {}
    for name in ("amax", "amin"):
        yield name, (x(2, 3, 4),), {}
        yield name, (x(2, 3, 4), [0, -1], True), {}
        yield name, (whole(2, 3), [1]), {}
    yield "max min", (x(2, 3),), {}
    yield "max min", (special(),), {}
    ties = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 1.0]])
    for name in ("max.dim", "min.dim"):
        yield name, (ties, -1), {}
        yield name, (x(2, 3, 4), 1, True), {}
    for name in ("argmax", "argmin"):
        yield name, (ties,), {}
        yield name, (ties, 1), {}
        yield name, (x(2, 3, 4), -2, True), {}
        yield name, (ties, None, True), {}
        yield name, (special(),), {}
    for name in ("any", "all"):
        yield name, (x(2, 3, dtype=BOOL),), {}
        yield f"{name}.dim", (x(2, 3, dtype=BOOL), -1, True), {}
        yield f"{name}.dims", (whole(2, 3, 4, high=2), [0, 2]), {}
        yield f"{name}.dims", (x(2, 3, dtype=BOOL),), {}
    for name in ("var", "std", "var_mean", "std_mean"):
        yield name, (x(2, 3),), {}
        yield name, (x(2, 3), False), {}
        yield f"{name}.dim", (x(2, 3, 4), [1, -1], True, True), {}
        yield f"{name}.correction", (x(2, 3, 4), [0]), {"correction": 0}
        yield f"{name}.correction", (x(2, 3, 4),), {"correction": 2, "keepdim": True}
        yield f"{name}.correction", (x(2, 3, 4), [1]), {}
    yield "logsumexp", (x(2, 3) * 50, [1], True), {}
    yield "count_nonzero", (whole(2, 3, high=2),), {}
    yield "count_nonzero", (whole(2, 3, high=2), 1), {}
    for order in (2, 1, 0, 3.0, float("inf"), float("-inf")):
        yield "linalg_vector_norm", (x(2, 3, 4), order, [-1]), {}
    yield "linalg_vector_norm", (x(2, 3, 4),), {}
    yield "norm.ScalarOpt_dim", (x(2, 3), None, [1], True), {}
    yield "norm.Scalar", (x(2, 3), 2), {}
    for name in ("cumsum", "cumprod"):
        yield name, (x(2, 5), -1), {}
        yield name, (whole(2, 5, high=3), 0), {}
        yield name, (x(2, 5), 1), {"dtype": F64}
    spread = torch.tensor([[3.0, 1.0, 2.0, 5.0], [0.0, -1.0, 7.0, 4.0]])
    yield "topk", (spread, 2), {}
    yield "topk", (spread, 1, 0, False), {}
    for names in ("sort", "argsort"):
        yield names, (spread,), {}
        yield names, (spread, 0, True), {}
    yield "sort.stable", (ties,), {"stable": True, "dim": -1, "descending": True}


def product_cases():
    """Products of matrices, attention."""
    yield "_int_mm", tuple(whole(*shape, low=-9, high=9, dtype=torch.int8) for shape in ((17, 8), (8, 16))), {}
    yield "matmul linalg_matmul", (x(2, 3, 4), x(4, 5)), {}
    yield "matmul", (x(4), x(2, 4, 5)), {}
    yield "mm", (x(3, 4), x(4, 2)), {}
    yield "bmm", (x(2, 3, 4), x(2, 4, 2)), {}
    yield "mv", (x(3, 4), x(4)), {}
    yield "dot vdot", (x(5), x(5)), {}
    yield "linear", (x(2, 3, 4), x(5, 4), x(5)), {}
    yield "linear", (x(3, 4), x(5, 4)), {}
    yield "addmm", (x(5), x(3, 4), x(4, 5)), {}
    yield "addmm", (x(3, 5), x(3, 4), x(4, 5)), {"beta": 0.5, "alpha": 2}
    yield "addmm", (torch.full((3, 5), float("nan")), x(3, 4), x(4, 5)), {"beta": 0}
    yield "baddbmm", (x(2, 3, 5), x(2, 3, 4), x(2, 4, 5)), {"beta": 0.5, "alpha": 2}
    yield "addmv", (x(3), x(3, 4), x(4)), {"alpha": 0.5}
    yield "outer ger", (x(3), x(4)), {}
    yield "einsum", ("bij,bjk->bik", [x(2, 3, 4), x(2, 4, 5)]), {}
    yield "einsum", ("...hd,...kd->...hk", [x(2, 2, 3, 4), x(2, 2, 5, 4)]), {}
    heads = (x(2, 3, 4, 8), x(2, 3, 5, 8) * 0.7, x(2, 3, 5, 6))
    yield "scaled_dot_product_attention", heads, {}
    yield "scaled_dot_product_attention", heads, {"scale": 0.3, "attn_mask": x(4, 5)}
    yield "scaled_dot_product_attention", heads, {"attn_mask": torch.ones(4, 5, dtype=BOOL).tril(1)}
    yield "scaled_dot_product_attention", (x(2, 4, 8), x(2, 4, 8), x(2, 4, 8)), {"is_causal": True}
    yield "scaled_dot_product_attention", (x(4, 8), x(5, 8), x(5, 8)), {}
    yield "scaled_dot_product_attention", (x(2, 4, 3, 8), x(2, 2, 5, 8), x(2, 2, 5, 8)), {"enable_gqa": True}
    yield "_scaled_dot_product_flash_attention_for_cpu", heads[:2] + heads[1:2], {"scale": 0.3}
    joined = (x(24, 8), x(24), x(8, 8), x(8))
    tokens, padding = x(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    later = torch.ones(5, 5, dtype=BOOL).triu(1)
    for mask in ({}, {"mask": later, "mask_type": 0}, {"mask": padding, "mask_type": 1},
                 {"mask": later.expand(2, 2, 5, 5).contiguous(), "mask_type": 2}):
        yield "_native_multi_head_attention", (tokens, tokens, tokens, 8, 2, *joined), {"need_weights": False, **mask}
    others = (x(2, 5, 8), x(2, 5, 8))
    yield "_native_multi_head_attention", (tokens, *others, 8, 2, *joined), {"need_weights": False}
    around = (x(8), x(8), x(8), x(8), x(16, 8), x(16), x(8, 16), x(8))
    for gelu, before in ((False, False), (True, True)):
        yield "_transformer_encoder_layer_fwd", (tokens, 8, 2, *joined, gelu, before, 1e-5, *around), {}
    masked = (*around, padding, 1)
    yield "_transformer_encoder_layer_fwd", (tokens, 8, 2, *joined, True, False, 1e-5, *masked), {}
    for p in (2.0, 1.0, 0.0, 3.0, float("inf")):
        yield "_cdist_forward", (x(2, 3, 4), x(2, 5, 4) * 0.5, p, None), {}
    yield "_pdist_forward", (x(4, 3), 1.0), {}
    yield "cdist", (x(3, 4), x(5, 4) * 0.5), {}


def movement_cases():
    """Shapes, orders, parts."""
    yield "flatten.using_ints", (x(2, 3, 4),), {}
    yield "flatten.using_ints", (x(2, 3, 4), 1, -1), {}
    yield "flatten.using_ints", (x(2, 3, 4), 0, 1), {}
    yield "flatten.using_ints", (torch.tensor(2.0),), {}
    yield "reshape view _unsafe_view view_copy", (x(2, 6), [3, -1]), {}
    yield "view_as reshape_as", (x(2, 6), x(3, 4)), {}
    yield "unflatten.int", (x(2, 6, 3), -2, [2, -1]), {}
    yield "expand expand_copy broadcast_to", (x(3, 1), [2, -1, 4]), {}
    yield "expand_as", (x(3, 1), x(2, 3, 4)), {}
    yield "unsqueeze unsqueeze_copy", (x(2, 3), -1), {}
    yield "unsqueeze", (x(2, 3), 0), {}
    yield "squeeze", (x(1, 3, 1),), {}
    yield "squeeze.dim squeeze_copy.dim", (x(1, 3, 1), -1), {}
    yield "squeeze.dim", (x(1, 3, 1), 1), {}
    yield "squeeze.dims squeeze_copy.dims", (x(1, 3, 1), [0, 1]), {}
    yield "permute permute_copy", (x(2, 3, 4), [-1, 0, 1]), {}
    yield "transpose.int swapaxes swapdims transpose_copy.int", (x(2, 3, 4), -1, 0), {}
    yield "t numpy_T t_copy", (x(2, 3),), {}
    yield "t", (x(3),), {}
    yield "mT", (x(2, 3, 4),), {}
    yield "movedim.int moveaxis.int", (x(2, 3, 4), 0, -1), {}
    yield "movedim.intlist moveaxis.intlist", (x(2, 3, 4), [0, 1], [2, 0]), {}
    yield "flip", (x(2, 3, 4), [0, -1]), {}
    yield "roll", (x(2, 5), [2, -1], [1, 0]), {}
    yield "roll", (x(2, 5), [3]), {}
    yield "cat concat concatenate", ([x(2, 3), x(2, 1)], -1), {}
    yield "cat", ([x(0), x(2, 3), x(1, 3)],), {}
    yield "stack", ([x(2, 3), x(2, 3) + 1], -1), {}
    yield "split.Tensor", (x(2, 7), 3, -1), {}
    yield "split_with_sizes split.sizes split_with_sizes_copy", (x(2, 7), [3, 4], 1), {}
    yield "chunk", (x(2, 7), 3, 1), {}
    yield "chunk", (x(2, 7), 1), {}
    yield "unbind.int", (x(2, 3), -1), {}
    yield "repeat tile", (x(2, 3), [2, 1, 3]), {}
    yield "tile", (x(2, 3), [2]), {}
    yield "repeat_interleave.self_int", (x(2, 3, 4), 2, 1), {}
    yield "repeat_interleave.self_int", (x(2, 3), 3), {}
    yield "pixel_shuffle", (x(1, 8, 2, 3), 2), {}
    yield "pixel_unshuffle", (x(1, 2, 4, 6), 2), {}
    yield "channel_shuffle", (x(1, 6, 2, 3), 3), {}


def indexing_cases():
    """Slices and elements by index."""
    yield "slice.Tensor slice_copy.Tensor", (x(4, 6), 1, 1, 5, 2), {}
    yield "slice.Tensor", (x(4, 6), -1, -3, 2**63 - 1), {}
    yield "slice.Tensor", (x(4, 6), 0, None, -1), {}
    yield "select.int select_copy.int", (x(4, 6), 1, -1), {}
    yield "select.int", (x(4, 6), 0, 2), {}
    yield "narrow", (x(4, 6), -1, 2, 3), {}
    yield "slice_scatter", (x(4, 6), x(4, 2), 1, 1, 5, 2), {}
    yield "slice_scatter", (x(4, 6), x(4, 6) + 1), {}
    yield "select_scatter", (x(4, 6), x(4), 1, -1), {}
    yield "diagonal diagonal_copy", (x(3, 4),), {}
    yield "diagonal", (x(2, 3, 4), -1, -1, 1), {}
    yield "unfold unfold_copy", (x(2, 7), -1, 3, 2), {}
    yield "tril triu", (x(2, 4, 4),), {}
    yield "tril triu", (x(3, 4), -1), {}
    yield "index_select", (x(4, 6), -1, torch.tensor([5, 0, 0])), {}
    yield "index_select", (x(4, 6), 0, torch.tensor(2)), {}
    yield "gather", (x(3, 4), -1, whole(3, 2, high=4)), {}
    yield "gather", (x(3, 4), 0, whole(2, 3, high=3)), {}
    yield "embedding", (x(5, 3), whole(2, 4)), {}
    yield "embedding", (x(5, 3), whole(4, dtype=I32), 2), {}
    rows, columns = torch.tensor([0, 2, -1]), torch.tensor([[1], [3]])
    yield "index.Tensor", (x(3, 4), [x(3, dtype=BOOL)]), {}
    for names in ("index.Tensor _unsafe_index.Tensor",):
        yield names, (x(3, 4, 5), [rows]), {}
        yield names, (x(3, 4, 5), [None, columns]), {}
        yield names, (x(3, 4, 5), [rows, columns]), {}
        yield names, (x(3, 4, 5), [None, rows, columns]), {}
        yield names, (x(3, 4, 5), [rows, None, columns]), {}
    put = "index_put _unsafe_index_put"
    yield put, (x(3, 4, 5), [rows], x(3, 4, 5)), {}
    yield put, (x(3, 4, 5), [None, rows, columns], x(5)[:3].contiguous()), {}
    yield put, (x(3, 4, 5), [rows, None, columns], torch.tensor(9.0)), {}
    yield put, (x(3, 4), [torch.tensor([0, 0, 1])], x(4), True), {}
    yield "index_put", (x(3, 4), [x(3, dtype=BOOL)], torch.tensor(9.0)), {}
    mask = torch.tensor([True, False, True])
    yield "index_put", (x(3, 4), [mask], x(2, 4) * 9), {}
    yield "index_put", (x(3, 4), [mask], x(4) * 9), {}
    yield "index_put", (x(3, 4), [mask], x(1, 4) * 9), {}
    yield "index_put", (x(2, 3, 2), [torch.stack([mask, ~mask])], x(3, 2) * 9), {}
    yield "nonzero", (whole(2, 3, high=2),), {}
    yield "masked_select", (x(2, 3), x(3, dtype=BOOL)), {}
    yield "masked_scatter", (x(2, 3), torch.tensor([[False, True, True], [True, False, True]]), x(5) * 9), {}
    yield "masked_scatter", (x(2, 3), torch.tensor([False, True, True]), x(4)), {}
    yield "one_hot", (whole(2, 3), 5), {}


def ranking_cases():
    """Places in an order, and what runs along one."""
    steps = torch.tensor([-1.5, -0.5, -0.5, 0.0, 1.0])
    for right in (False, True):
        yield "searchsorted.Tensor", (steps, torch.cat([x(7), steps, special()])), {"right": right}
        yield "searchsorted.Tensor", (x(2, 5).sort(-1).values, x(2, 3)), {"right": right, "out_int32": True}
        yield "bucketize.Tensor", (torch.cat([x(7), steps]).reshape(3, 4), steps), {"right": right}
    yield "searchsorted.Tensor", (torch.tensor([1, 3, 3, 7]), whole(2, 3, high=9)), {"side": "right"}
    yield "histc", (x(40), 7, -1.0, 1.5), {}
    yield "histc", (torch.tensor([0.0, 0.25, 1.0, 2.0, -1.0, float("nan")]), 4, 0, 1), {}
    for dim in (0, 1, -1):
        yield "kthvalue", (x(3, 4, 5), 2, dim), {}
        yield "median.dim", (x(3, 4, 5), dim, True), {}
        yield "cummax cummin logcumsumexp", (x(3, 4, 5), dim), {}
    yield "median", (x(3, 4),), {}
    yield "median", (torch.tensor([1.0, float("nan"), 2.0]),), {}
    yield "median", (whole(5, high=50),), {}
    yield "cummax cummin", (torch.tensor([1.0, 3.0, 3.0, 2.0, float("nan"), 5.0, 1.0]), 0), {}
    yield "logcumsumexp", (torch.tensor([-500.0, -499.0, 300.0, 301.0, -float("inf"), 90.0]), 0), {}
    yield "logcumsumexp", (torch.tensor([-float("inf"), -float("inf"), 1.0]), 0), {}


def creation_cases():
    """Tensors that no tensor, or only another's shape, tells."""
    yield "zeros ones", ([2, 3],), {}
    yield "zeros ones", ([2],), {"dtype": I64}
    yield "zeros_like ones_like", (x(2, 3),), {}
    yield "zeros_like ones_like", (x(2, 3),), {"dtype": BOOL}
    yield "new_zeros new_ones", (x(2, dtype=F16), [2, 3]), {}
    yield "full", ([2, 3], 1.5), {}
    yield "full", ([2, 3], 7), {}
    yield "full", ([], True), {}
    yield "full", ([2], 7), {"dtype": F64}
    yield "full_like", (whole(2, 3), 4), {}
    yield "full_like", (whole(2, 3), 1.5), {"dtype": torch.float32}
    yield "new_full", (x(2), [2, 3], 4), {}
    yield "fill.Scalar", (x(2, 3), 4), {}
    yield "fill.Tensor", (x(2, 3), torch.tensor(4.0)), {}
    yield "zero", (x(2, 3),), {}
    yield "scalar_tensor", (3,), {}
    yield "scalar_tensor", (3,), {"dtype": I64}
    yield "arange", (5,), {}
    yield "arange", (2.5,), {}
    yield "arange.start", (2, 6), {"dtype": torch.float32}
    yield "arange.start_step", (1, 10, 3), {}
    yield "arange.start_step", (5, 0, -2), {}
    yield "arange.start_step", (0.5, 2.0, 0.25), {}
    yield "linspace", (0, 1, 7), {}
    yield "linspace", (-3, 4, 1), {}
    yield "eye", (3,), {}
    yield "eye.m", (2, 4), {"dtype": I64}
    yield "copy", (x(2, 3), whole(3)), {}


# Further results are empty in inference, or for training: nobody takes them.
FIRST_RESULT = ("native_batch_norm", "_native_batch_norm_legit_no_training", "_fused_rms_norm", "native_group_norm",
                "_scaled_dot_product_flash_attention_for_cpu", "_native_multi_head_attention", "_embedding_bag",
                "_embedding_bag_forward_only", "embedding_bag", "embedding_bag.padding_idx")
# What torch chooses for attention on a GPU: no processor runs them. {operator: arguments behind query, key and value}
ON_A_GPU = {"_scaled_dot_product_flash_attention": (), "_scaled_dot_product_efficient_attention": (None, False),
            "_scaled_dot_product_cudnn_attention": (None, False)}
# Any elements will do.
UNDEFINED = ("empty.memory_format", "empty_permuted", "empty_strided", "empty_like", "new_empty")


def convolution_cases():
    """Convolutions of one to three axes."""
    for axes in (1, 2, 3):
        size, image, weight = [5, 6, 7][:axes], x(2, 4, *[5, 6, 7][:axes]), x(6, 4, *[3, 2, 2][:axes])
        yield f"conv{axes}d", (image, weight, x(6)), {}
        yield f"conv{axes}d", (image, x(6, 2, *[3] * axes), None, [2] * axes, [1] * axes, [1] * axes, 2), {}
        yield f"conv{axes}d.padding", (image, weight, None, [1] * axes, "same"), {}
        yield f"conv{axes}d.padding", (image, weight), {}
        yield f"conv{axes}d", (x(4, *size), weight), {}
        back = f"conv_transpose{axes}d" + ("" if axes == 1 else ".input")
        yield back, (image, x(4, 3, *[3] * axes), x(3), [2], [1], [1], 1, [1]), {}
        yield back, (image, x(4, 3, *[2] * axes), None, [1], [0], [0], 2), {}
    plain = (x(2, 4, 5, 6), x(6, 4, 3, 3), x(6), [2, 1], [1, 0], [1, 2])
    yield "convolution", (*plain, False, [0, 0], 1), {}
    yield "convolution", (x(2, 4, 5, 6), x(4, 3, 3, 3), None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1), {}
    yield "_convolution", (*plain, False, [0, 0], 1, False, False, False, False), {}
    yield "col2im", (x(2, 12, 12), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1]), {}
    yield "im2col", (x(2, 3, 5, 6), [2, 3], [1, 2], [1, 0], [2, 1]), {}


def pooling_cases():
    """Windows of one to three axes."""
    for axes in (1, 2, 3):
        image = x(2, 3, *[7, 6, 5][:axes])
        for names in (f"max_pool{axes}d max_pool{axes}d_with_indices",):
            yield names, (image, [2]), {}
            yield names, (image, [3] * axes, [2] * axes, [1] * axes, [1] * axes, True), {}
            yield names, (image, [2], [1], [0], [2]), {}
        yield f"max_pool{axes}d", (image[0], [2]), {}
        yield f"avg_pool{axes}d", (image, [2]), {}
        yield f"avg_pool{axes}d", (image, [3] * axes, [2] * axes, [1] * axes, True, False), {}
        yield f"avg_pool{axes}d", (image, [3] * axes, [2] * axes, [1] * axes, False, True), {}
        core = f" _adaptive_avg_pool{axes}d" if axes > 1 else ""
        yield f"adaptive_avg_pool{axes}d{core}", (image, [1] * axes), {}
        yield f"adaptive_avg_pool{axes}d", (image, [3, 4, 2][:axes]), {}
        yield f"adaptive_max_pool{axes}d", (x(2, 3, *[6, 4, 8][:axes]), [3, 2, 4][:axes]), {}
    yield "avg_pool2d", (x(2, 3, 6, 6), [2, 2]), {"divisor_override": 3}
    yield "adaptive_avg_pool2d", (x(2, 3, 6, 4), [3, 2]), {}
    yield "adaptive_avg_pool2d", (x(3, 6, 4), [6, 4]), {}


def normalization_cases():
    """Statistics that are given, of rows, and of groups."""
    image, channels = x(2, 4, 3, 5), [x(4), x(4) * 0.5, x(4) * 0.1, x(4, **POSITIVE)]
    yield "batch_norm", (image, *channels, False, 0.1, 1e-3, False), {}
    yield "batch_norm", (image, None, None, *channels[2:], False, 0.1, 1e-3, False), {}
    yield "native_batch_norm", (image, *channels, False, 0.1, 1e-3), {}
    yield "_native_batch_norm_legit_no_training", (x(2, 4), *channels, 0.1, 1e-3), {}
    yield "_native_batch_norm_legit.no_stats", (image, *channels[:2], True, 0.1, 1e-3), {}
    yield "instance_norm", (image, *channels[:2], None, None, True, 0.1, 1e-3, False), {}
    yield "instance_norm", (image, None, None, None, None, True, 0.1, 1e-3, False), {}
    yield "layer_norm", (x(2, 3, 4), [4], x(4), x(4) * 0.5), {}
    yield "layer_norm", (x(2, 3, 4), [3, 4]), {"eps": 0.1}
    yield "native_layer_norm", (x(2, 3, 4), [4], x(4), x(4) * 0.5, 1e-3), {}
    yield "native_layer_norm", (x(2, 3, 4), [3, 4], None, None, 1e-3), {}
    yield "rms_norm", (x(2, 3, 4), [4], x(4)), {"eps": 1e-3}
    yield "rms_norm", (x(2, 3, 4) * 1e-4, [3, 4]), {}
    yield "_fused_rms_norm", (x(2, 3, 4), [4], x(4), 1e-3), {}
    yield "group_norm", (image, 2, *channels[:2]), {}
    yield "group_norm", (image, 4), {"eps": 0.1}
    yield "native_group_norm", (image, *channels[:2], 2, 4, 15, 2, 1e-3), {}
    yield "softmax.int special_softmax log_softmax.int", (x(2, 3, 4), -1), {}
    yield "softmax.int log_softmax.int", (x(2, 3), 0), {"dtype": F64}
    yield "_softmax _log_softmax", (x(2, 3, 4), 1, False), {}
    hidden = torch.where(x(3, 4) > 0, x(3, 4), -torch.inf)
    hidden[1] = -torch.inf
    yield "_safe_softmax", (hidden, -1), {}
    yield "_safe_softmax", (x(3, 4), 0), {"dtype": F64}


def resizing_cases():
    """Borders and other resolutions."""
    yield "constant_pad_nd", (x(2, 3, 4), [1, 2, 0, 1], 1.5), {}
    yield "constant_pad_nd", (x(2, 5), [-1, 2]), {}
    yield "pad", (x(1, 2, 4, 5), [1, 2, 1, 0]), {}
    for mode in ("reflect", "replicate", "circular"):
        yield "pad", (x(1, 2, 4, 5), [1, 2, 1, 0], mode), {}
    for axes in (1, 2, 3):
        image, amounts = x(1, 2, *[4, 5, 6][:axes]), [1, 2, 0, 1, 2, 1][:2 * axes]
        yield f"reflection_pad{axes}d replication_pad{axes}d", (image, amounts), {}
        size, linear = [7, 4, 9][:axes], ("linear", "bilinear", "trilinear")[axes - 1]
        for name in (f"upsample_nearest{axes}d", f"_upsample_nearest_exact{axes}d"):
            yield f"{name}.vec", (image, size, None), {}
            yield f"{name}.vec", (image, None, [2.0, 1.5, 2.5][:axes]), {}
            yield name, (image, size), {}
        for corners in (False, True):
            yield f"upsample_{linear}{axes}d.vec", (image, size, corners, None), {}
            yield f"upsample_{linear}{axes}d", (image, size, corners), {}
        yield f"upsample_{linear}{axes}d.vec", (image, None, False, [2.0, 1.5, 2.5][:axes]), {}
    for name in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
        for size in ([7, 8], [2, 3], [3, 9], [4, 2]):
            yield name, (x(1, 2, 4, 5), size, False), {}
            yield f"{name}.vec", (x(2, 1, 9, 11, dtype=F64), size, False, None), {}
        yield f"{name}.vec", (x(1, 2, 13, 3), None, False, [1.1, 1.1]), {}
        for factors in ([0.6, 0.3], [0.5, 1.7], [0.7, 0.9], [2.0, 0.25]):
            yield f"{name}.vec", (x(1, 2, 10, 20), None, False, factors), {}
        yield name, (x(1, 2, 140, 5), [2, 5], False), {}
        yield name, (x(1, 2, 8, 8), [4, 4], False, 0.5, 0.5), {}
    for name in ("upsample_nearest2d", "_upsample_nearest_exact2d"):
        yield f"{name}.vec", (x(1, 2, 10, 20), None, [0.7, 0.9]), {}
    for corners in (False, True):
        yield "upsample_bilinear2d.vec", (x(1, 2, 10, 20), None, corners, [0.7, 0.9]), {}
        yield "upsample_bicubic2d.vec", (x(1, 2, 4, 5), [7, 8], corners, None), {}
        yield "upsample_bicubic2d", (x(1, 2, 4, 5), [7, 8], corners), {}
        for mode in (0, 1, 2):
            for padding in (0, 1, 2):
                yield "grid_sampler_2d", (x(1, 2, 4, 5), x(1, 3, 3, 2) * 0.6, mode, padding, corners), {}
        yield "affine_grid_generator", (x(2, 2, 3), [2, 3, 4, 5], corners), {}
    yield "grid_sampler", (x(1, 2, 4, 5), x(1, 3, 3, 2) * 0.6, 0, 0, False), {}
    yield "grid_sampler_3d", (x(1, 2, 3, 4, 5), x(1, 2, 3, 3, 3) * 0.6, 0, 0, False), {}


def recurrent_cases():
    """Layers of cells, in one direction and in two."""
    for name, count, states in (("lstm.input", 4, 2), ("gru.input", 3, 1), ("rnn_tanh.input", 1, 1),
                                ("rnn_relu.input", 1, 1)):
        for biased, layers, both, batch_first in ((True, 1, False, True), (False, 1, False, False),
                                                  (True, 2, True, False)):
            directions, weights = 1 + both, []
            for layer in range(layers):
                width = 3 if layer == 0 else 4 * directions
                for direction in range(directions):
                    weights += [x(4 * count, width) * 0.3, x(4 * count, 4 + direction)[:, :4].contiguous() * 0.3]
                    weights += [x(4 * count) * 0.2, x(4 * count, low=-1.0) * 0.2] if biased else []
            state = [x(layers * directions, 2, 4), x(layers * directions, 2, 4, low=-1.0)]
            yield name, (x(2, 5, 3) if batch_first else x(5, 2, 3), state if states == 2 else state[0], weights, biased,
                         layers, 0.0, False, both, batch_first), {}


def cell_cases():
    """One step of a cell."""
    for name, count, states in (("lstm_cell", 4, 2), ("gru_cell", 3, 1), ("rnn_tanh_cell", 1, 1),
                                ("rnn_relu_cell", 1, 1)):
        weights = [x(4 * count, 3) * 0.3, x(4 * count, 4) * 0.3]
        biases = [x(4 * count) * 0.2, x(4 * count, low=-1.0) * 0.2]
        state = [x(2, 4), x(2, 4, low=-1.0)]
        for given in (weights, weights + biases):
            yield name, (x(2, 3), state if states == 2 else state[1], *given), {}


def all_cases():
    """(name, arguments, attributes), one for each name that shares a row."""
    for family in (unary_cases, activation_cases, arithmetic_cases, cast_cases, reduction_cases, product_cases,
                   movement_cases, indexing_cases, ranking_cases, creation_cases, convolution_cases,
                   pooling_cases, normalization_cases, resizing_cases, recurrent_cases, cell_cases):
        for names, arguments, attributes in family():
            for name in names.split():
                yield name, arguments, attributes
