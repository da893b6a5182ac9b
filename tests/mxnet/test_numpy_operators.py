# SPDX-License-Identifier: Apache-2.0
"""Operators of numpy's interface, and those of images and regions: each is an engine, and gives what MXNet gives."""

import mxnet as mx
import pytest
from conftest import check_operator

S, N = mx.sym, mx.sym.np
IMAGE, MATRIX, ROWS = (2, 6, 9, 8), (3, 10), (2, 5, 6)


def of(build):
    """In numpy's interface, on x as it has it."""
    return lambda x: build(x.as_np_ndarray()).as_nd_ndarray()


def chosen(build):
    """A truth value decides between x and its double."""
    return of(lambda x: N.where(build(x), x, x * 2))


def row(shape=(1, 10)):
    return S.var("row", shape=shape).as_np_ndarray()


CASES = {
    **{f"np_{name}": (MATRIX, chosen(lambda x, name=name: getattr(N, name)(x, row())))
       for name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")},
    **{f"np_scalar_{name}": (MATRIX, chosen(lambda x, name=name: getattr(N, name)(x, 0.25)))
       for name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")},
    "np_logical_not": (MATRIX, chosen(lambda x: N.logical_not(x > 0))),
    **{f"np_bitwise_{name}": (MATRIX, chosen(
        lambda x, name=name: getattr(N, f"bitwise_{name}")((x * 9).astype("int32"), (row() * 9).astype("int32")) > 0))
       for name in ("or", "xor")},
    "np_bitwise_not": (MATRIX, chosen(lambda x: N.bitwise_not((x * 9).astype("int32")) > 0)),
    **{f"np_{name}": (MATRIX, chosen(lambda x, name=name: getattr(N, name)(x / N.maximum(x, 0))))
       for name in ("isnan", "isinf", "isposinf", "isneginf", "isfinite")},
    "np_nan_to_num": (MATRIX, of(lambda x: N.nan_to_num(x / N.maximum(x, 0), nan=3.0, posinf=5.0, neginf=-5.0))),
    "np_arctan2": (MATRIX, of(lambda x: N.arctan2(x, row()))),
    "np_arctan2_of_scalars": (MATRIX, of(lambda x: N.arctan2(x, -0.5) + N.arctan2(0.5, x))),
    "np_copysign": (MATRIX, of(lambda x: N.copysign(x, row()) + N.copysign(x, -1.0) + N.copysign(2.0, x))),
    "np_ldexp": (MATRIX, of(lambda x: N.ldexp(x, row()) + N.ldexp(x, 3.0) + N.ldexp(2.0, x))),
    "np_around": (MATRIX, of(lambda x: N.around(x * 5) + N.around(x, 1))),
    "np_where_scalars": (MATRIX, of(lambda x: N.where(x > 0, x, 0.5) + N.where(x > 0, 0.5, x))),
    "np_where_two_scalars": (MATRIX, of(lambda x: N.where(x > 0, 1.0, -1.0) * x)),
    "np_polyval": (MATRIX, of(lambda x: N.polyval(S.var("factors", shape=(4,)).as_np_ndarray(), x))),
    **{f"np_{name}": (ROWS, of(lambda x, name=name: getattr(N, name)(x, axis=(1, 2), keepdims=True)))
       for name in ("sum", "mean", "prod", "std", "var")},
    **{f"np_{name}": (ROWS, of(lambda x, name=name: getattr(N, name)(x, axis=1))) for name in ("max", "min")},
    "np_var_of_samples": (ROWS, of(lambda x: N.var(x, axis=1, ddof=1))),
    "np_any": (ROWS, of(lambda x: N.any(x > 0.8, axis=1).astype("float32"))),
    "np_all": (ROWS, of(lambda x: N.all(x > -0.8, axis=1).astype("float32"))),
    "np_argmax": (ROWS, of(lambda x: N.argmax(x, axis=1))),
    "np_argmin": (ROWS, of(lambda x: N.argmin(x, axis=2))),
    "np_diff": (ROWS, of(lambda x: N.diff(x, n=2, axis=1))),
    "np_matmul": (ROWS, of(lambda x: N.matmul(x, S.var("table", shape=(6, 4)).as_np_ndarray()))),
    "np_dot": (ROWS, of(lambda x: N.dot(x, S.var("table", shape=(6, 4)).as_np_ndarray()))),
    "np_tensordot": (ROWS, of(lambda x: N.tensordot(x, S.var("table", shape=(4, 6, 5)).as_np_ndarray(),
                                                    axes=((2, 1), (1, 2))))),
    "np_tensordot_of_inner_axes": (ROWS, of(lambda x: N.tensordot(x, S.var("table", shape=(5, 6, 4)).as_np_ndarray(),
                                                                  axes=2))),
    "np_einsum": (ROWS, of(lambda x: N.einsum("bij,jk->bki", x, S.var("table", shape=(6, 4)).as_np_ndarray()))),
    "np_reshape": (ROWS, of(lambda x: N.reshape(x, (-1, 30)))),
    "npx_reshape": (ROWS, of(lambda x: mx.sym.npx.reshape(x, (-2, 3, -1)))),
    "npx_reshape_copying_the_rest": (ROWS, of(lambda x: mx.sym.npx.reshape(x, (-2, -4)) * 2)),
    "np_squeeze": ((2, 1, 5), of(lambda x: N.squeeze(x, axis=1))),
    "np_transpose": (ROWS, of(lambda x: N.transpose(x, (0, 2, 1)))),
    "np_moveaxis": (IMAGE, of(lambda x: N.moveaxis(x, 1, -1))),
    "np_roll": (ROWS, of(lambda x: N.roll(x, shift=2, axis=1))),
    "np_rot90": (IMAGE, of(lambda x: N.rot90(x, k=1, axes=(2, 3)))),
    "np_rot90_thrice": (IMAGE, of(lambda x: N.rot90(x, k=3, axes=(2, 3)))),
    "np_flip": (ROWS, of(lambda x: N.flip(x, axis=1))),
    "np_concatenate": (ROWS, of(lambda x: N.concatenate([x, x * 2], axis=1))),
    "np_stack": (ROWS, of(lambda x: N.stack([x, x * 2], axis=1))),
    "np_vstack": (ROWS, of(lambda x: N.vstack([x, x * 2]))),
    "np_hsplit": (ROWS, of(lambda x: (lambda parts: parts[0] - parts[1])(N.hsplit(x[:, :4], 2)))),
    "np_atleast": (MATRIX, of(lambda x: N.atleast_3d(x) * 2)),
    "np_column_stack": (MATRIX, of(lambda x: N.column_stack([x, x * 2]))),
    "np_pad": (ROWS, of(lambda x: N.pad(x, ((0, 0), (1, 2), (3, 0)), mode="constant", constant_values=0.5))),
    "np_pad_reflected": (ROWS, of(lambda x: N.pad(x, ((0, 0), (1, 2), (3, 0)), mode="reflect"))),
    "np_tril": (ROWS, of(lambda x: N.tril(x, k=1))),
    "np_diagonal": (ROWS, of(lambda x: N.diagonal(x, offset=1, axis1=1, axis2=2))),
    "np_trace": (ROWS, of(lambda x: N.trace(x, axis1=1, axis2=2))),
    "np_full_like": (MATRIX, of(lambda x: N.full_like(x, 2.5) * x)),
    "np_arange": (MATRIX, of(lambda x: x * N.arange(1, 11) + N.linspace(0, 1, 10) + N.logspace(0, 1, 10))),
    "np_eye": ((3, 10), of(lambda x: N.dot(x, N.eye(10, 10, k=1) + N.identity(10)))),
    "np_zeros_and_ones": (MATRIX, of(lambda x: N.maximum(x + N.ones((1, 10)), N.zeros((1, 10))))),
    "arange": (MATRIX, lambda x: S.broadcast_add(x, S.expand_dims(S.arange(0, 5, 0.5), axis=0))),
    "arange_repeated": (MATRIX, lambda x: S.broadcast_add(x, S.expand_dims(S.arange(5, repeat=2), axis=0))),
    "diag": (ROWS, lambda x: S.diag(x, k=-1, axis1=1, axis2=2)),
    "extract_diagonal": ((2, 5, 5), lambda x: S.linalg.extractdiag(x, offset=1)),
    "make_diagonal": (MATRIX, lambda x: S.linalg.makediag(x)),
    "make_diagonal_above": (MATRIX, lambda x: S.linalg.makediag(x, offset=2)),
    "make_diagonal_below": (MATRIX, lambda x: S.linalg.makediag(x, offset=-2)),
    "sum_of_logarithms": ((2, 5, 5), lambda x: S.linalg.sumlogdiag(S.abs(x) + 0.1)),
    "all_finite": (MATRIX, lambda x: S.broadcast_mul(x, S.expand_dims(S.all_finite(x), axis=0))),
    "bilinear_sampler": (IMAGE, lambda x: S.BilinearSampler(x, S.broadcast_mul(
        S.slice_axis(x, axis=1, begin=0, end=2), S.ones((1, 1, 1, 1))) * 1.3)),
    "affine_grid": ((2, 6), lambda x: S.GridGenerator(x, transform_type="affine", target_shape=(4, 5))),
    "warped_grid": ((2, 2, 4, 5), lambda x: S.GridGenerator(x, transform_type="warp")),
    "spatial_transformer": (IMAGE, lambda x: S.SpatialTransformer(
        x, S.slice_axis(S.Flatten(x), axis=1, begin=0, end=6), target_shape=(5, 4), transform_type="affine",
        sampler_type="bilinear")),
    "modulated_deformable_convolution": (IMAGE, lambda x: S.contrib.ModulatedDeformableConvolution(
        x, S.tile(S.slice_axis(x, axis=1, begin=0, end=2), reps=(1, 9, 1, 1)),
        S.tile(S.slice_axis(x, axis=1, begin=0, end=1), reps=(1, 9, 1, 1)), kernel=(3, 3), pad=(1, 1), num_filter=4)),
    "crop": (IMAGE, lambda x: S.Crop(x, num_args=1, offset=(2, 1), h_w=(4, 5))),
    "crop_like": (IMAGE, lambda x: S.Crop(x, S.slice_axis(x, axis=2, begin=0, end=4), num_args=2, center_crop=True)),
    "image_to_tensor": ((2, 9, 8, 3), lambda x: S.image.to_tensor(x)),
    "image_normalize": ((2, 3, 9, 8), lambda x: S.image.normalize(x, mean=(0.1, 0.2, 0.3), std=(2, 3, 4))),
    "image_flip_left_right": ((9, 8, 3), lambda x: S.image.flip_left_right(x * 2)),
    "image_flip_top_bottom": ((9, 8, 3), lambda x: S.image.flip_top_bottom(x * 2)),
    "image_crop": ((2, 9, 8, 3), lambda x: S.image.crop(x, x=1, y=2, width=5, height=4)),
    "box_iou": ((3, 4), lambda x: S.contrib.box_iou(S.abs(x), S.var("boxes", shape=(5, 4)) + 0.5, format="center")),
    "box_iou_of_corners": ((3, 4), lambda x: S.contrib.box_iou(x, S.var("boxes", shape=(5, 4)), format="corner")),
    "box_decode": (ROWS, lambda x: S.contrib.box_decode(
        S.slice_axis(x, axis=2, begin=0, end=4), S.var("anchors", shape=(1, 5, 4)), 0.1, 0.1, 0.2, 0.2, 0.1)),
    "box_decode_of_corners": (ROWS, lambda x: S.contrib.box_decode(
        S.slice_axis(x, axis=2, begin=0, end=4), S.var("anchors", shape=(1, 5, 4)), format="corner")),
    "anchors": (IMAGE, lambda x: S.broadcast_mul(S.mean(x), S.reshape(
        S.contrib.MultiBoxPrior(x, sizes=(0.5, 0.25), ratios=(1, 2, 0.5), clip=True), shape=(-1,)))),
    "scatter_nd": ((3, 4), lambda x: S.scatter_nd(S.transpose(x), S.reshape(S.arange(1, 5), shape=(1, 4)),
                                                  shape=(6, 3))),
}
FIXED = {"scatter_nd"}  # their shapes are of one batch


@pytest.mark.parametrize("name", CASES)
def test_gives_what_mxnet_gives(name):
    check_operator(*CASES[name], batches=() if name in FIXED else (5,))


def test_regions_are_sampled_as_mxnet_samples_them():
    def build(x):
        numbers = S.Flatten(x)
        image = S.slice_axis(numbers, axis=1, begin=0, end=1) * 0
        corners = S.abs(S.slice_axis(numbers, axis=1, begin=1, end=5)) * 8
        return S.contrib.ROIAlign(x, S.concat(image, corners, dim=1), pooled_size=(3, 2), spatial_scale=0.7,
                                  sample_ratio=2)
    check_operator(IMAGE, build)
