// SPDX-License-Identifier: Apache-2.0
// Whether the order in which a fold meets elements matters.
#pragma once

#include "expr/region.h"

namespace graft {

/// Whether combine(left, right) is seen to be combine(right, left), so that lanes and threads may interleave elements:
/// by the form of the expressions, or because they choose the same one of the two states by comparing them.
bool commutes(const Monoid& monoid);

}  // namespace graft
