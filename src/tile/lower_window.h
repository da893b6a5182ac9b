// SPDX-License-Identifier: Apache-2.0
// Windows that slide along channels which lie side by side.
#pragma once

#include <string>

#include "tile/lower.h"

namespace graft::tile {

Lowered lower_window(const Region& region, const Layouts& layouts, const WindowSchedule& schedule,
                     const Target& target);

/// Why the normalised region is no such window, or an empty text; what lies where is asked when it is lowered.
std::string why_no_window(const Region& region);

}  // namespace graft::tile
