// SPDX-License-Identifier: Apache-2.0
// What the copy engine tells an mbarrier.
#pragma once

#include <cstdint>

namespace graft::emulator {

/// So many bytes of those that the barrier waits for are there.
void bring_bytes(unsigned barrier, int64_t bytes);

}  // namespace graft::emulator
