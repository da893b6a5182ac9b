// SPDX-License-Identifier: Apache-2.0
// What kernels call before they read or write memory (-fsanitize=kernel-address, with calls): every byte has to lie in
// an allocation, in the shared memory of the block or on the thread's own stack.
#include <dlfcn.h>

#include <array>
#include <cstdint>

#include "cluster.h"
#include "memory.h"

namespace graft::emulator {
namespace {

constexpr uintptr_t kPage = 4096;

/// Whether the address belongs to a program or library: a table of constants, a counter of the emulator.
bool is_static(const void* address) {
  static std::array<uintptr_t, 64> pages{};  // found before
  const uintptr_t page = reinterpret_cast<uintptr_t>(address) / kPage;
  uintptr_t& kept = pages[page % pages.size()];
  Dl_info info;
  if (kept != page && dladdr(address, &info) != 0) kept = page;
  return kept == page;
}

void check(const void* address, size_t bytes) {
  const Thread* thread = cluster().current();
  if (!thread || thread->fiber.holds(address)) return;
  const Block& block = *thread->block;
  const char* at = static_cast<const char*>(address);
  if (at >= block.memory.get() && at < block.memory.get() + block.memory_bytes) {
    if (at >= block.shared && at + bytes <= block.shared + block.shared_bytes) return;
    fail("byte " + std::to_string(at - block.shared) + " of shared memory of " + std::to_string(block.shared_bytes));
  }
  if (holds(address, bytes) || is_static(address)) return;
  fail("an illegal memory access: " + describe_address(address));
}

}  // namespace
}  // namespace graft::emulator

using graft::emulator::check;

#define GRAFT_CHECK(bytes) \
  void __asan_load##bytes##_noabort(const void* address) { check(address, bytes); } \
  void __asan_store##bytes##_noabort(const void* address) { check(address, bytes); }
#pragma GCC visibility push(default)
extern "C" {
GRAFT_CHECK(1) GRAFT_CHECK(2) GRAFT_CHECK(4) GRAFT_CHECK(8) GRAFT_CHECK(16)
void __asan_loadN_noabort(const void* address, size_t bytes) { check(address, bytes); }
void __asan_storeN_noabort(const void* address, size_t bytes) { check(address, bytes); }
void __asan_handle_no_return() {}
}
#pragma GCC visibility pop
