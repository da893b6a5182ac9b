// SPDX-License-Identifier: Apache-2.0
// What definitions are composed from: maps over tensors, views by index arithmetic, sets of axes that may be known
// only when running, reductions over such sets, and the commonest row of their tables.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "graph/op_def.h"

namespace graft {

/// The most tensors that one expression reads: of operators with more inputs, what is made of some is read next.
inline constexpr int kMostOperands = 64;

using Map = std::function<Expr(const Expr&)>;
using Zip = std::function<Expr(const Expr&, const Expr&)>;

/// f of every element, computed in the compute type of x and stored as `type`.
Tensor map(Definition& d, std::string_view name, const Tensor& x, DType type, const Map& f);
/// f of every pair of elements after numpy's broadcasting.
Tensor zip(Definition& d, std::string_view name, const Tensor& a, const Tensor& b, DType type, const Zip& f);
/// Output 0 = f(input 0), of the input's type.
void define_map(Definition& d, const Map& f);
/// The tensor itself when it has the type already, else its rounded copy: how a wide result leaves a definition.
Tensor stored_as(Definition& d, std::string_view name, const Tensor& x, DType type);
/// A copy under the same shape and type.
Tensor copy_of(Definition& d, std::string_view name, const Tensor& x);

/// The literal `value` in the type that arithmetic on `type` uses.
inline Expr literal(DType type, double value) { return make_constant(compute_type(type), value); }
/// A size as a number of the type that arithmetic on `type` uses.
inline Expr number(DType type, const Size& size) { return make_cast(compute_type(type), make_size(size)); }

/// `indices` without the one at `axis`, and with `index` put in at `axis`.
Indices without_axis(Indices indices, int axis);
Indices with_axis(Indices indices, int axis, const Expr& index);
Shape without_axis(Shape shape, int axis);
Shape with_axis(Shape shape, int axis, const Size& size);

/// The row-major position of `indices` in `shape`, and back.
Expr flat_index(const Shape& shape, const Indices& indices);
Indices unflatten(const Shape& shape, const Expr& position);
/// Where element `indices` of a tensor reshaped to `to` lies in the tensor of shape `from`: index arithmetic only
/// where axes are really merged or split, so that reshapes that map axes one to one cost nothing.
Indices reshaped_indices(const Shape& from, const Shape& to, const Indices& indices);
/// The same elements in the same order under another shape.
Tensor reshape(Definition& d, std::string_view name, const Tensor& x, const Shape& shape);
/// Axis i of the result is axis permutation[i] of x.
Tensor transpose(Definition& d, std::string_view name, const Tensor& x, const std::vector<int>& permutation);

/// An index from data: negative ones count from the end of `size`, others are checked in the kernel.
Expr wrapped_index(const Expr& index, const Size& size);

/// 1 when the sizes are equal, else 0: arithmetic that also works on symbols of a run.
Size is_equal(const Size& a, const Size& b);
/// 1 when the size is below zero, else 0.
Size is_negative(const Size& a);
/// max(0, a) and min(a, b), left away where it is seen that they change nothing.
Size at_least_zero(const Size& a);
/// a rounded up to a whole number of `b`, of either sign.
Size signed_ceil_div(const Size& a, const Size& b);

/// 1 when `axis`, in [-rank, rank), is the axis of that number, else 0.
Size names_axis(Definition& d, const Size& axis, int number, int rank);

/// For each of `rank` axes, 1 when it belongs to the set and 0 when not; symbols where a run decides.
using AxisSet = std::vector<Size>;
AxisSet axis_set(Definition& d, const std::vector<Size>& axes, int rank);
AxisSet axis_set(const Definition& d, const std::vector<int64_t>& axes, int rank);
/// The members' sizes replaced by 1, or removed when not `keep` (`count` members).
Shape without(const Shape& shape, const AxisSet& set, bool keep, int count);

/// How a set of axes is folded: lift(element), then the monoid, over `x` as it is read through `wide`.
struct Fold {
  Intrinsic combine;
  RegionBuilder::Body lift;  ///< gets the indices into x
};
/// Folds the members of `set`; they stay as axes of size 1. The result has the lift's compute type.
Tensor fold_axes(Definition& d, std::string_view name, const Shape& shape, const AxisSet& set, const Fold& fold);
/// The number of elements that fold_axes folds into one.
Size folded_count(const Shape& shape, const AxisSet& set);

/// The row of a table of operators: one of ONNX's own domain whose only output is called "output".
OpDef row(std::string_view name, int since, std::vector<std::string_view> inputs, std::vector<AttributeSpec> attributes,
          void (*define)(Definition&), std::vector<Sample> (*samples)(), std::string_view doc);

}  // namespace graft
