// SPDX-License-Identifier: Apache-2.0
// The allocator of this program: glibc's, with a count. A program's own definitions come before those of its libraries.
// Sanitizers bring allocators of their own, so this program is not for them.
#include "memory/count_allocations.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};

void count() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

namespace graft_test {

AllocationCount::AllocationCount() {
  allocations = 0;
  counting = true;
}
AllocationCount::~AllocationCount() { counting = false; }
int64_t AllocationCount::count() const { return allocations; }

}  // namespace graft_test

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  count();
  return __libc_malloc(bytes);
}

void* calloc(size_t items, size_t bytes) {
  count();
  return __libc_calloc(items, bytes);
}

void* realloc(void* memory, size_t bytes) {
  count();
  return __libc_realloc(memory, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  count();
  *memory = __libc_memalign(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}

void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  count();
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

}  // extern "C"
