// SPDX-License-Identifier: Apache-2.0
// Arithmetic with floats that is exact in integers, done in integers.
#pragma once

#include "expr/expr.h"

namespace graft::tile {

/// floor(cast<f64>(i) / 2) -> floor_div(i, 2) and the like: f64 expressions whose value is an integer expression over a
/// power of two (places that a resize by such a factor reads, and their weights) become integer ones where a floor or
/// a cast needs them. The result is the same number for all indices of tensors.
Expr exact_indices(const Expr& e);

}  // namespace graft::tile
