// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace graft {

/// Whether this process may use the tile registers of AMX: the processor has them, and Linux, which is asked for them
/// once, lets the process have their state (it does not where a container's filter forbids the call, or where a
/// thread's signal stack is too small for it). Safe from any thread.
bool may_use_tile_registers();

}  // namespace graft
