// SPDX-License-Identifier: Apache-2.0
// Choices that are the same at all points of a map, made before it: the parts of a concatenation, the steps of an
// unrolled recurrence.
#pragma once

#include "tile/program.h"

namespace graft::tile {

/// The map; or, where its value chooses between tensors by what does not depend on its points, branches with a map for
/// each choice.
Body choose_before(const Map& map);

}  // namespace graft::tile
