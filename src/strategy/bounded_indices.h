// SPDX-License-Identifier: Apache-2.0
// Indices made simpler by what their axes can be: remainders of numbers that are seldom too large, bounds that always
// hold.
#pragma once

#include "expr/region.h"

namespace graft::tile {

/// i mod n, where i is between -n and 2n over the axes -> i, i + n or i - n; min, max and comparisons of indices whose
/// ranges do not meet -> what they always give. Extents that only a run knows are anything from 0 on.
Region bounded_indices(const Region& region);

}  // namespace graft::tile
