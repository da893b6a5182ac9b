// SPDX-License-Identifier: Apache-2.0
// How constant operands lie for the strategies that read them in an order of their own.
#pragma once

#include <optional>
#include <vector>

#include "expr/region.h"
#include "fuse/contraction.h"
#include "strategy/schedule.h"
#include "tile/panel_layout.h"

namespace graft::tile {

/// The region's reduction, if it has one alone; else null.
const graft::Reduce* only_reduction(const Region& region);

/// Panels of so many lanes for a constant right operand whose lane axis is a plain index of one dimension; nothing
/// where it cannot lie so.
std::optional<PanelLayout> panel_layout(const Region& region, Contraction contraction,
                                        const std::vector<bool>& constant, int64_t lanes);

/// Weights of single channels lie so that what neighbouring threads, or the lanes of a vector, read lies side by side.
/// Constants of which a whole row is read at once stay as they are: neighbours go along the row.
Layouts along_neighbours(const Region& region, const std::vector<bool>& constant, const Schedule&);

}  // namespace graft::tile
