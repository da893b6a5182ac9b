// SPDX-License-Identifier: Apache-2.0
// What a wrong index does where a tensor may have no elements.
#pragma once

#include "expr/region.h"

namespace graft::tile {

/// A wrong index counts as 0 once it is told (Intrinsic::kCheckIndex), and the threads of a GPU's block go on with it,
/// as they wait for one another. Along an axis that can be empty there is no element 0: such loads give 0 and such
/// updates are left out. Axes of constant sizes cost nothing.
Region guard_empty(const Region& region);

}  // namespace graft::tile
