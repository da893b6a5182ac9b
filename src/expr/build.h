// SPDX-License-Identifier: Apache-2.0
// The language that definitions are written in: tensors, and forms that make tensors from tensors.
//
//   Tensor m = b.reduce("m", Intrinsic::kMax, {rows}, {n}, [&](auto& i, auto& k) { return x({i[0], k[0]}); });
//   Tensor e = b.compute("e", DType::kFloat32, {rows, n}, [&](auto& i) { return exp(x(i) - m({i[0]})); });
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "expr/region.h"

namespace graft {

/// What a softmax subtracts from the elements of a row: the largest, and 0 where all are minus infinity, so that their
/// exponentials are 0.
Expr softmax_shift(const Expr& largest);
/// What it divides by where such a row has weights of 0: the sum of the exponentials, and 1 where that is 0.
Expr softmax_divisor(const Expr& sum);

class RegionBuilder;
using Indices = std::vector<Expr>;

/// A handle to a tensor of the region under construction; cheap to copy, valid while its builder lives.
class Tensor {
 public:
  Tensor() = default;
  Tensor(RegionBuilder* builder, int id) : builder_(builder), id_(id) {}
  explicit operator bool() const { return builder_ != nullptr; }
  int id() const { return id_; }
  DType type() const;
  const Shape& shape() const;
  int rank() const { return static_cast<int>(shape().size()); }
  /// Extent of an axis; negative axes count from the end.
  const Size& size(int axis) const;
  /// The element at `indices` (one per axis), in the tensor's own type.
  Expr operator()(const Indices& indices) const;
  /// The element at `indices`, cast to the type that arithmetic on it uses (f16 -> f32).
  Expr wide(const Indices& indices) const;

 private:
  RegionBuilder* builder_ = nullptr;
  int id_ = -1;
};

/// Collects forms into a Region. Values are cast to the stated tensor type where a form stores them.
class RegionBuilder {
 public:
  using Body = std::function<Expr(const Indices&)>;
  using Lift = std::function<Expr(const Indices&, const Indices&)>;
  using Lifts = std::function<std::vector<Expr>(const Indices&, const Indices&)>;

  Tensor input(std::string_view name, DType type, const Shape& shape);
  Tensor compute(std::string_view name, DType type, const Shape& shape, const Body& body);
  /// Fold with one of add, mul, min, max, and, or, xor; the result has the (compute) type of the lift.
  Tensor reduce(std::string_view name, Intrinsic combine, const Shape& axes, const Shape& reduced, const Lift& lift);
  /// Fold with any monoid over a tuple; one tensor per component, of its type.
  std::vector<Tensor> reduce(std::string_view name, const Monoid& monoid, const Shape& axes, const Shape& reduced,
                             const Lifts& lifts);
  /// The recurrence of `Scan`; `make` fills state, initial, step and emit given the indices over axes and t.
  std::vector<Tensor> scan(std::string_view name, const Shape& axes, const Size& length,
                           const std::function<void(Scan&, const Indices&, const Expr& t)>& make);
  /// Copy of `base` with updates over `domain`; `make` fills indices, value, condition (value is cast to base's type).
  Tensor scatter(std::string_view name, const Tensor& base, ScatterMode mode, const Shape& domain,
                 const std::function<void(Scatter&, const Indices&)>& make);
  /// Values and positions (i64) of the `count` first ranks along a row of `length`, for each point of `axes`.
  std::vector<Tensor> sort(std::string_view name, const Shape& axes, const Size& length, const Size& count,
                           bool descending, const std::function<Expr(const Indices&, const Expr& t)>& key);
  /// The kept points of `domain`; each value becomes a tensor [symbol `count`].
  std::vector<Tensor> compact(std::string_view name, const Shape& domain, std::string_view count,
                              const std::function<void(Compact&, const Indices&)>& make);

  const TensorDecl& decl(int id) const { return region_.tensors[id]; }
  const Shape& shape(int id) const { return shapes_[id]; }
  const Region& region() const { return region_; }
  /// Ends construction; `outputs` are in order.
  Region finish(std::string_view name, const std::vector<Tensor>& outputs);

 protected:
  Tensor declare(std::string_view name, DType type, const Shape& shape);
  Region region_;

 private:
  std::deque<Shape> shapes_;  ///< by tensor: Tensor::shape() stays valid while more are declared
};

}  // namespace graft
