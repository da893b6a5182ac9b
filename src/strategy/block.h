// SPDX-License-Identifier: Apache-2.0
// Every region by tiles for the blocks of a GPU.
#pragma once

#include "strategy/strategy.h"

namespace graft::tile {

/// The common axes of all forms cut into tiles, one for each block of a GPU: of the last axis `x` elements, of the ones
/// before it `y` and `z` (0: whole). What is tiled is dealt to the threads.
struct BlockSchedule {
  int64_t z = 1;
  int64_t y = 1;
  int64_t x = 1;
  int64_t warps = 8;

  static constexpr Member<BlockSchedule> kMembers[] = {{"z", &BlockSchedule::z, 0, 1 << 12},
                                                       {"y", &BlockSchedule::y, 0, 1 << 16},
                                                       {"x", &BlockSchedule::x, 0, 1 << 20},
                                                       {"warps", &BlockSchedule::warps, 1, 32}};
  static const Strategy& strategy();
};

Lowered lower_block(const Region& region, const Layouts& layouts, const BlockSchedule& schedule, const Target& target);

}  // namespace graft::tile
