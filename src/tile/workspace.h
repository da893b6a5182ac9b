// SPDX-License-Identifier: Apache-2.0
// Scratch that a block's memory cannot hold: each grid point gets its part of a global buffer instead.
#pragma once

#include "tile/program.h"

namespace graft::tile {

/// Turns kShared buffers into kGlobal ones named `workspace...` with an element for every grid point: those whose size
/// is known only while running, and the largest ones until the rest takes at most `limit` bytes. They come after the
/// other global buffers but for `last` of these, and are the launcher's to provide; what they hold is undefined before
/// and after.
void move_to_workspace(Program& program, int64_t limit, int last);

}  // namespace graft::tile
