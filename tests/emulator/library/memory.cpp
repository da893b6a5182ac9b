// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

namespace graft::emulator {
namespace {

constexpr size_t kPage = 4096, kAlignment = 256;
constexpr size_t kMemory = size_t{4} << 30;
constexpr size_t kGuard = 64 * kPage;  ///< what a wrong stride leads to shall not be the next allocation

struct Allocation {
  char* pages;
  size_t page_bytes, bytes;
};

std::mutex mutex;
size_t used = 0;
thread_local struct {
  const char *begin, *end;
} last_found = {};  ///< where the last bytes lay that were asked for

std::map<uintptr_t, Allocation>& allocations() {
  static auto* all = new std::map<uintptr_t, Allocation>;  // outlives what the process still frees at its end
  return *all;
}

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

}  // namespace

void* allocate(size_t bytes) {
  const std::lock_guard lock(mutex);
  if (bytes == 0 || bytes > kMemory - used) return nullptr;
  const size_t inner = round_up(bytes, kPage), whole = inner + 2 * kGuard;
  void* pages = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  char* first = static_cast<char*>(pages) + kGuard;
  mprotect(first, inner, PROT_READ | PROT_WRITE);
  std::memset(first, 0xff, inner);
  char* memory = first + inner - round_up(bytes, kAlignment);
  allocations()[number(memory)] = {static_cast<char*>(pages), whole, bytes};
  used += bytes;
  return memory;
}

bool release(void* memory) {
  const std::lock_guard lock(mutex);
  const auto it = allocations().find(number(memory));
  if (it == allocations().end()) return false;
  last_found = {};
  used -= it->second.bytes;
  munmap(it->second.pages, it->second.page_bytes);
  allocations().erase(it);
  return true;
}

bool holds(const void* memory, size_t bytes) {
  const char* first = static_cast<const char*>(memory);
  if (first >= last_found.begin && first + bytes <= last_found.end) return true;
  const std::lock_guard lock(mutex);
  auto it = allocations().upper_bound(number(memory));
  if (it == allocations().begin()) return false;
  --it;
  if (number(memory) + bytes > it->first + it->second.bytes) return false;
  last_found.begin = first - (number(memory) - it->first);
  last_found.end = last_found.begin + it->second.bytes;
  return true;
}

size_t memory_free() {
  const std::lock_guard lock(mutex);
  return kMemory - used;
}

size_t memory_size() { return kMemory; }

// Called from a signal handler: the kernel that runs holds no lock.
std::string describe_address(const void* address) {
  auto it = allocations().upper_bound(number(address));
  const auto text = [](size_t bytes) { return std::to_string(bytes); };
  const size_t before = it == allocations().end() ? SIZE_MAX : it->first - number(address);
  if (it != allocations().begin()) {
    const auto& [begin, allocation] = *--it;
    const size_t behind = number(address) - begin;
    if (behind < allocation.bytes + kGuard) {
      return text(behind) + " bytes into an allocation of " + text(allocation.bytes) + " bytes";
    }
  }
  if (before <= kGuard) return text(before) + " bytes before an allocation";
  return "address " + text(number(address)) + ", in no allocation";
}

}  // namespace graft::emulator
