// SPDX-License-Identifier: Apache-2.0
// Loads in branches of selects whose conditions are the same for all points of a piece: whole pieces are loaded where
// the conditions hold.
#pragma once

#include <vector>

#include "codegen/cuda/kernel_parts.h"
#include "tile/program.h"

namespace graft::cuda {

/// Appends the guarded loads of what the map stores to `accesses`, which have those that every point makes. What
/// several branches share is left out: it is loaded in each of them, element by element.
void add_guarded_loads(const tile::Map& map, std::vector<PointAccess>& accesses);

}  // namespace graft::cuda
