// SPDX-License-Identifier: Apache-2.0
// Windows that slide along channels which lie side by side, on a CPU: depthwise convolutions and poolings.
#pragma once

#include "strategy/strategy.h"

namespace graft::tile {

/// A grid point makes `rows` by `columns` points for `lanes` channels, `points` of a row side by side in registers.
struct WindowSchedule {
  int64_t rows = 4;
  int64_t columns = 28;
  int64_t lanes = 32;
  int64_t points = 7;

  static constexpr Member<WindowSchedule> kMembers[] = {{"rows", &WindowSchedule::rows, 1, 1 << 10},
                                                        {"columns", &WindowSchedule::columns, 1, 1 << 10},
                                                        {"lanes", &WindowSchedule::lanes, 1, 1 << 10},
                                                        {"points", &WindowSchedule::points, 1, 16}};
  static const Strategy& strategy();
};

Lowered lower_window(const Region& region, const Layouts& layouts, const WindowSchedule& schedule,
                     const Target& target);

/// Why the normalised region is no such window, or an empty text; what lies where is asked when it is lowered.
std::string why_no_window(const Region& region);

}  // namespace graft::tile
