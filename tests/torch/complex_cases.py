# SPDX-License-Identifier: Apache-2.0
"""What rows of the table of ATen operators are tried with where numbers are complex; as row_cases.py has them."""

import torch
from row_cases import BOOL, F64, whole, x

C64, C128 = torch.complex64, torch.complex128


def z(*shape, dtype=C64):
    """Complex numbers that differ, the same ones in each run."""
    part = F64 if dtype == C128 else torch.float32
    return torch.complex(x(*shape, dtype=part), x(*shape, 1, dtype=part)[..., 0].flip(0))


def border_cases():
    """From reals and back."""
    yield "view_as_complex view_as_complex_copy", (x(3, 4, 2),), {}
    yield "view_as_complex", (x(2, dtype=F64),), {}
    yield "view_as_real view_as_real_copy", (z(3, 4),), {}
    yield "complex", (x(2, 3), x(2, 3) + 1), {}
    yield "complex", (x(2, 1), x(3)), {}
    yield "polar", (x(2, 3), x(3, low=-9.0, high=9.0)), {}
    yield "real imag", (z(2, 3),), {}
    yield "real conj resolve_conj resolve_neg", (x(2, 3),), {}
    yield "_conj _conj_copy conj_physical resolve_conj resolve_neg", (z(2, 3),), {}
    yield "conj_physical", (x(2, 3),), {}
    yield "angle", (x(5),), {}
    yield "angle", (torch.tensor([0.0, -0.0, -1.0, float("nan"), float("inf")]),), {}
    yield "angle", (whole(3, low=-2),), {}


def arithmetic_cases():
    """Of one and of two operands, complex and real."""
    for names in ("abs absolute angle", "neg negative", "square", "reciprocal", "exp", "log", "sgn"):
        for dtype in (C64, C128):
            yield names, (z(2, 3, dtype=dtype),), {}
    yield "abs", (torch.tensor([3e30 + 4e30j, 3e-30 - 4e-30j, 0j, complex("inf"), complex(1, float("inf"))]),), {}
    yield "sgn", (torch.tensor([0j, 3 + 4j]),), {}
    pairs = [(z(2, 3), z(3)), (z(2, 1), x(3)), (x(2, 3, 1), z(4)), (z(2, 3), x(3, dtype=F64)), (whole(2, 3), z(3)),
             (z(3), torch.tensor(1.5, dtype=F64)), (z(3, dtype=C128), torch.tensor(2.0)), (torch.tensor(1 + 2j), x(3)),
             (torch.tensor(1 + 2j, dtype=C128), whole(3))]
    for pair in pairs:
        for name in ("add", "sub", "rsub"):
            yield f"{name}.Tensor", pair, {"alpha": 2}
        yield "mul.Tensor div.Tensor true_divide.Tensor", (pair[0] + 3, pair[1] + 3), {}
    for name in ("add", "sub", "rsub"):
        yield f"{name}.Scalar", (z(2, 3), 1.5, 3), {}
    yield "mul.Scalar div.Scalar true_divide.Scalar", (z(2, 3), -1.5), {}
    yield "div.Tensor", (z(3), torch.tensor([3e30 + 4e30j, 3e-30 - 4e-30j, 1j])), {}
    same = torch.tensor([1 + 2j, 1 - 2j, 3.0])
    yield "eq.Tensor ne.Tensor", (same, torch.tensor([1 + 2j, 1 + 2j, 3.0])), {}
    yield "eq.Scalar ne.Scalar", (same, 3), {}
    for exponent in (1, 2, -1):
        yield "pow.Tensor_Scalar", (z(2, 3), exponent), {}
    yield "where.self", (x(2, 3, dtype=BOOL), z(2, 3), z(3)), {}
    yield "where.self", (x(2, 3, dtype=BOOL), x(3), z(1, 3)), {}
    yield "where.ScalarOther", (x(3, dtype=BOOL), z(3), 0.5), {}
    yield "masked_fill.Scalar", (z(2, 3), x(3, dtype=BOOL), 2.5), {}
    yield "masked_fill.Tensor", (z(2, 3), x(2, 3, dtype=BOOL), torch.tensor(1 + 2j)), {}


def product_cases():
    """Products of matrices."""
    yield "matmul linalg_matmul", (z(2, 3, 4), z(4, 5)), {}
    yield "matmul", (z(4), z(2, 4, 5)), {}
    yield "mm", (z(3, 4, dtype=C128), z(4, 2, dtype=C128)), {}
    yield "bmm", (z(2, 3, 4), z(2, 4, 2)), {}
    yield "mv", (z(3, 4), z(4)), {}
    yield "dot vdot", (z(5), z(5).flip(0)), {}
    yield "linear", (z(2, 3, 4), z(5, 4), z(5)), {}
    yield "addmm", (z(5), z(3, 4), z(4, 5)), {"beta": 2, "alpha": 0.5}
    yield "baddbmm", (z(2, 3, 5), z(2, 3, 4), z(2, 4, 5)), {}
    yield "outer ger", (z(3), z(4)), {}
    yield "einsum", ("bixy,ioxy->boxy", [z(2, 3, 4, 5), z(3, 2, 4, 5)]), {}
    yield "einsum", ("ij->ji", [z(2, 3)]), {}


def movement_cases():
    """Shapes, orders, parts, indices, sums: both parts alike."""
    yield "reshape view view_copy", (z(2, 6), [3, -1]), {}
    yield "view_as reshape_as", (z(2, 6), z(3, 4)), {}
    yield "unflatten.int", (z(2, 6, 3), -2, [2, -1]), {}
    yield "flatten.using_ints", (z(2, 3, 4), 1, -1), {}
    yield "expand expand_copy broadcast_to", (z(3, 1), [2, -1, 4]), {}
    yield "unsqueeze", (z(2, 3), -1), {}
    yield "squeeze.dim", (z(1, 3, 1), -1), {}
    yield "permute", (z(2, 3, 4), [-1, 0, 1]), {}
    yield "transpose.int", (z(2, 3, 4), -1, 0), {}
    yield "t", (z(2, 3),), {}
    yield "movedim.int", (z(2, 3, 4), 0, -1), {}
    yield "flip", (z(2, 3, 4), [0, -1]), {}
    yield "roll", (z(2, 5), [2, -1], [1, 0]), {}
    yield "cat concat", ([z(2, 3), z(2, 1)], -1), {}
    yield "stack", ([z(2, 3), z(2, 3) + 1], -1), {}
    yield "split.Tensor", (z(2, 7), 3, -1), {}
    yield "chunk", (z(2, 7), 3, 1), {}
    yield "unbind.int", (z(2, 3), -1), {}
    yield "repeat", (z(2, 3), [2, 1, 3]), {}
    yield "slice.Tensor", (z(4, 6), -1, 1, 5, 2), {}
    yield "select.int", (z(4, 6), 1, -1), {}
    yield "narrow", (z(4, 6), -1, 2, 3), {}
    yield "slice_scatter", (z(4, 6), z(4, 2), 1, 1, 5, 2), {}
    yield "select_scatter", (z(4, 6), z(4), 1, -1), {}
    yield "tril triu", (z(3, 4), -1), {}
    yield "index_select", (z(4, 6), -1, torch.tensor([5, 0, 0])), {}
    yield "gather", (z(3, 4), -1, whole(3, 2, high=4)), {}
    yield "index.Tensor", (z(3, 4, 5), [None, torch.tensor([0, 2]), torch.tensor([[1], [3]])]), {}
    yield "index_put", (z(3, 4), [torch.tensor([0, 0, 1])], z(4), True), {}
    yield "index_add", (z(4, 3), 0, torch.tensor([2, 0, 2]), z(3, 3)), {"alpha": 2}
    yield "constant_pad_nd", (z(2, 3), [1, 2]), {}
    yield "clone contiguous detach", (z(2, 3),), {}
    yield "sum mean", (z(2, 3),), {}
    yield "sum.dim_IntList mean.dim", (z(2, 3, 4), [-1, 0], True), {}
    yield "cumsum", (z(2, 5), -1), {}


def creation_cases():
    """In a type that is complex, and from one to another."""
    yield "zeros ones", ([2, 3],), {"dtype": C64}
    yield "full", ([2, 3], 1.5), {"dtype": C128}
    yield "zeros_like ones_like", (z(2, 3),), {}
    yield "zeros_like ones_like", (x(2, 3),), {"dtype": C64}
    yield "zeros_like", (z(2, 3),), {"dtype": torch.float32}
    yield "new_zeros new_ones", (z(2), [2, 3]), {}
    yield "full_like", (z(2, 3), 4), {}
    yield "zero", (z(2, 3),), {}
    yield "fill.Scalar", (z(2, 3), 4), {}
    yield "to.dtype", (z(2, 3), C128), {}
    yield "to.dtype", (x(2, 3), C64), {}
    yield "_to_copy", (whole(2, 3),), {"dtype": C64}
    yield "_to_copy", (z(2, 3),), {}
    yield "type_as", (x(2, 3), z(1, dtype=C128)), {}
    yield "copy", (z(2, 3), z(3)), {}
    yield "copy", (z(2, 3), x(3)), {}


LENGTHS = (1, 2, 3, 7, 8, 12, 97, 128, 130, 131, 144, 165, 521)


def fourier_cases():
    """Lengths that are odd, prime and products; norms, axes and half spectra."""
    for n in LENGTHS:
        for forward in (True, False):
            yield "_fft_c2c", (z(2, n), [1], 0, forward), {}
            yield "_fft_c2c", (z(n, 3, dtype=C128), [0], 1, forward), {}
        for onesided in (True, False):
            yield "_fft_r2c", (x(2, n), [1], 0, onesided), {}
        yield "_fft_r2c", (x(n, 2, dtype=F64), [0], 2, True), {}
        yield "_fft_c2r", (z(2, n // 2 + 1), [1], 2, n), {}
        yield "_fft_c2r", (z(n // 2 + 1, 2, dtype=C128), [0], 0, n), {}
    yield "_fft_c2c", (z(2, 3, 4, 5), [1, 3, 2], 2, False), {}
    yield "_fft_r2c", (x(2, 3, 4, 5), [1, 3, 2], 1, True), {}
    yield "_fft_c2r", (z(2, 3, 4), [0, 1, 2], 1, 7), {}
    for norm in (None, "ortho", "forward", "backward"):
        yield "fft_fft fft_ifft fft_irfft", (z(2, 5), None, -1, norm), {}
        yield "fft_fft fft_rfft", (x(2, 5), 7, 1, norm), {}
        yield "fft_rfft fft_fft", (x(6, 2), 4, 0, norm), {}
        yield "fft_ifft fft_irfft fft_fft", (z(2, 5), 9, -1, norm), {}
        yield "fft_irfft", (z(2, 5), 3, -1, norm), {}
        for name in ("fft", "ifft", "irfft"):
            yield f"fft_{name}2 fft_{name}n", (z(2, 3, 5), None, [-2, -1], norm), {}
            yield f"fft_{name}n", (z(2, 3, 5), [4, 6], None, norm), {}
        yield "fft_rfft2 fft_rfftn fft_fft2", (x(2, 3, 5), None, [0, 2], norm), {}
        yield "fft_rfftn", (x(2, 3, 5), [4, 6], [0, 1], norm), {}
    yield "fft_fftn fft_ifftn fft_irfftn", (z(2, 3, 5),), {}
    yield "fft_fft fft_rfft", (whole(2, 6),), {}
    yield "fft_irfft", (x(2, 6),), {}


def spectrogram_cases():
    """Frames with windows and without."""
    window = torch.hann_window(6)
    for name, more in (("stft", {}), ("stft.center", {"center": False}), ("stft.center", {"center": True})):
        signal = x(2, 40)
        yield name, (signal, 8), {"return_complex": True, **more}
        yield name, (signal, 8, 3, 6, window), {"return_complex": True, "normalized": True, **more}
        yield name, (signal, 7, 2, 5), {"return_complex": True, "onesided": False, **more}
        yield name, (signal[0].double(), 8, 5, 6, window.double()), {"return_complex": False, **more}
    for mode in ("constant", "replicate", "circular"):
        yield "stft.center", (x(2, 40), 8), {"return_complex": True, "center": True, "pad_mode": mode}


def all_cases():
    """(names, arguments, attributes)."""
    for family in (border_cases, arithmetic_cases, product_cases, movement_cases, creation_cases, fourier_cases,
                   spectrogram_cases):
        yield from family()
