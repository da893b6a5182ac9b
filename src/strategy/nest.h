// SPDX-License-Identifier: Apache-2.0
// Loops over every region, on a CPU and, without threads that share, on a GPU.
#pragma once

#include "strategy/strategy.h"

namespace graft::tile {

/// Loops over the common axes of all forms, one grid point per row or per `chunk` elements.
struct NestSchedule {
  int64_t chunk = 4096;  ///< elements of the innermost axis in one grid point of a pure map
  int64_t lanes = 64;    ///< columns handled together when a reduction runs down columns; 1: one row a grid point

  static constexpr Member<NestSchedule> kMembers[] = {{"chunk", &NestSchedule::chunk, 1, 1 << 20},
                                                      {"lanes", &NestSchedule::lanes, 1, 1 << 12}};
  static const Strategy& strategy();
};

Lowered lower_nest(const Region& region, const Layouts& layouts, const NestSchedule& schedule, const Target& target);

}  // namespace graft::tile
