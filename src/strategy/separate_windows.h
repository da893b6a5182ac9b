// SPDX-License-Identifier: Apache-2.0
// Folds over windows of several axes, one axis after the other: 5 + 5 elements instead of 25.
#pragma once

#include "expr/region.h"

namespace graft::tile {

/// y[o] = max over (i, j) of x[.., a + i, b + j], guarded or not -> x with its padding, computed once, where it has
/// any; its maxima along the first axis of the window; the maxima of these along the next. The same for min and sums,
/// where results of a row are at most a few elements apart; other regions stay as they are.
Region separate_windows(const Region& region);

}  // namespace graft::tile
