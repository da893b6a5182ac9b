// SPDX-License-Identifier: Apache-2.0
// The memory of the emulated GPU: pages of the host with pages around them that nothing may touch, filled with NaN.
#pragma once

#include <cstddef>
#include <string>

namespace graft::emulator {

/// Null when the GPU has not that much left. The last byte lies at the end of a page, as far as multiples of 256 allow.
void* allocate(size_t bytes);
/// Whether there was such an allocation. Its pages are gone then.
bool release(void* memory);
/// Whether all of it lies in one allocation.
bool holds(const void* memory, size_t bytes);
size_t memory_free();
size_t memory_size();
/// `12 bytes behind an allocation of 512 bytes`.
std::string describe_address(const void* address);

}  // namespace graft::emulator
