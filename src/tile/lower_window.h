// SPDX-License-Identifier: Apache-2.0
// Windows that slide along channels which lie side by side.
#pragma once

#include <string>
#include <vector>

#include "tile/lower.h"

namespace graft::tile {

/// Tiles that may suit it: few rows, so that threads share the work, and as many as serve what they have in common.
/// Nothing where the strategy does not apply.
std::vector<WindowSchedule> window_candidates(const Region& region, const Target& target);

Lowered lower_window(const Region& region, const Layouts& layouts, const WindowSchedule& schedule,
                     const Target& target);

/// Why the normalised region is no such window, or an empty text; what lies where is asked when it is lowered.
std::string why_no_window(const Region& region);

}  // namespace graft::tile
