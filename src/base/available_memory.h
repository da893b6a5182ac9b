// SPDX-License-Identifier: Apache-2.0
// How much memory this process can still take, so that a request can be refused before it is begun.
#pragma once

#include <cstdint>

namespace graft {

/// Bytes that the machine and the control groups of this process (a container's limit) have left, counting caches that
/// they can drop; the largest int64 where the system does not say.
int64_t available_memory();

}  // namespace graft
