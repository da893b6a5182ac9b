// SPDX-License-Identifier: Apache-2.0
#include "base/large_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "base/checked_size.h"
#include "base/run_limits.h"

namespace graft {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20, kLeastBytes = 2 * kHugePage;
constexpr int64_t kAlignment = 64;

}  // namespace

void prefer_huge_pages(void* memory, int64_t bytes) {
  if (bytes < kLeastBytes) return;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t last = (address + static_cast<uintptr_t>(bytes)) / kHugePage * kHugePage;
  // A system without them says so, and has given memory as good as before.
  if (first < last) static_cast<void>(::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE));
}

std::shared_ptr<std::byte> large_memory(int64_t bytes, std::string_view what) {
  const int64_t alignment = bytes < kLeastBytes ? kAlignment : kHugePage;
  const int64_t rounded = checked_aligned(std::max<int64_t>(bytes, 1), kAlignment, what);
  void* memory = nullptr;
  const bool fits = rounded <= machine_memory();
  if (!fits || posix_memalign(&memory, static_cast<size_t>(alignment), static_cast<size_t>(rounded)) != 0) {
    throw_no_memory(rounded, what);
  }
  prefer_huge_pages(memory, rounded);
  return {static_cast<std::byte*>(memory), [](std::byte* p) { std::free(p); }};
}

}  // namespace graft
