// SPDX-License-Identifier: Apache-2.0
// Memory for what kernels read from end to end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace graft {

/// Asks the system for huge pages (2 MiB) in the part of [memory, memory + bytes) that consists of whole ones. Weights
/// of a network are far more than the translation buffers of a processor reach with pages of 4 KiB, and fetching ahead
/// ends at a page. Nothing happens for less than 4 MiB, or where the system has none. Threads may call it at once.
void prefer_huge_pages(void* memory, int64_t bytes);

/// `bytes` of memory, not set to anything, that begins at a multiple of 64: of a huge page if it is so large. Throws
/// out_of_memory, naming `what` it is for, if the machine has less.
std::shared_ptr<std::byte> large_memory(int64_t bytes, std::string_view what);

}  // namespace graft
