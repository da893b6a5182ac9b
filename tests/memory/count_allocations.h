// SPDX-License-Identifier: Apache-2.0
// Counts what the whole process takes from the allocator and the system: every thread, every library.
#pragma once

#include <cstdint>

namespace graft_test {

/// Counts from construction on; one at a time.
class AllocationCount {
 public:
  AllocationCount();
  ~AllocationCount();
  AllocationCount(const AllocationCount&) = delete;
  AllocationCount& operator=(const AllocationCount&) = delete;

  /// Calls of malloc, calloc, realloc, aligned_alloc, posix_memalign, memalign, mmap and of what is built on them
  /// (operator new).
  int64_t count() const;
};

}  // namespace graft_test
