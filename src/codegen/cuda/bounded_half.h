// SPDX-License-Identifier: Apache-2.0
// Results in f16 that end in least and greatest of constants, which halves are compared with two at a time.
#pragma once

#include <utility>
#include <vector>

#include "expr/expr.h"

namespace graft::cuda {

/// A value in f16: `inner`, then the least or greatest of it and each bound in turn.
struct BoundedHalf {
  Expr inner;
  std::vector<std::pair<Intrinsic, Expr>> bounds;  ///< f32 that are halves, the same for all neighbours
};

/// cast<f16>(min(max(x: f32, a), b)) -> min(max(cast<f16>(x), a), b), where a and b are halves that do not change with
/// the variable `last`: rounding keeps the order, and NaN stays NaN. No bounds where it is not so.
BoundedHalf bounded_half(const Expr& value, int last);

}  // namespace graft::cuda
