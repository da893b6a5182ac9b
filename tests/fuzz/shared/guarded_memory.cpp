// SPDX-License-Identifier: Apache-2.0
#include "shared/guarded_memory.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

extern "C" {
void* __real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void* memory);
}

namespace graft::fuzz {
namespace {

constexpr uintptr_t kPage = 4096;
/// Addresses to hand out. They come round again late, so that what is used after its release is found too.
constexpr uintptr_t kRegionBytes = uintptr_t{1} << 40;

// Known without a constructor: free() is called before those run.
uintptr_t region_begin = 0;

/// Hands out pieces of the region one behind the other, with a page between them that stays closed.
class Region {
 public:
  Region() {
    void* region = mmap(nullptr, kRegionBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) std::abort();
    next_ = region_begin = reinterpret_cast<uintptr_t>(region);
  }

  /// Null when the system gives none.
  void* allocate(size_t bytes, GuardedEnd end) {
    const uintptr_t opened = (bytes + kPage - 1) / kPage * kPage;
    if (opened > kRegionBytes / 4) return nullptr;
    const std::lock_guard lock(mutex_);
    const uintptr_t begin = find_room(opened + kPage);
    if (begin == 0 || (opened > 0 && !map(begin, opened, PROT_READ | PROT_WRITE))) return nullptr;
    next_ = begin + opened + kPage;
    pieces_[begin] = opened;
    return reinterpret_cast<void*>(end == GuardedEnd::kFirst ? begin : begin + opened - bytes);
  }

  void release(void* memory) {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const std::lock_guard lock(mutex_);
    // The end of a piece of no bytes is the page behind it.
    auto piece = pieces_.upper_bound(address);
    if (piece == pieces_.begin() || (--piece, address > piece->first + piece->second)) {
      std::fputs("what was never allocated, or released before, is released\n", stderr);
      std::abort();
    }
    if (piece->second > 0 && !map(piece->first, piece->second, PROT_NONE)) std::abort();
    pieces_.erase(piece);
  }

 private:
  static bool map(uintptr_t begin, uintptr_t bytes, int access) {
    // A new mapping each time: it is zeros, and joins its neighbours, of which a process may have 65530.
    return mmap(reinterpret_cast<void*>(begin), bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                -1, 0) != MAP_FAILED;
  }

  /// The next addresses that no piece is at, or 0.
  uintptr_t find_room(uintptr_t bytes) const {
    constexpr size_t kMostPieces = 20'000;
    if (pieces_.size() >= kMostPieces) return 0;
    uintptr_t at = next_;
    for (int round = 0; round < 2; ++round) {
      if (at + bytes > region_begin + kRegionBytes) at = region_begin;
      for (auto piece = pieces_.lower_bound(at); piece != pieces_.end() && piece->first < at + bytes; ++piece) {
        at = piece->first + piece->second + kPage;
      }
      if (at + bytes <= region_begin + kRegionBytes) return at;
    }
    return 0;
  }

  std::mutex mutex_;
  std::map<uintptr_t, uintptr_t> pieces_;  // bytes that are open, by their begin
  uintptr_t next_ = 0;
};

Region& region() {
  static Region* const instance = new Region;
  return *instance;
}

}  // namespace

GuardedMemory::GuardedMemory(size_t bytes, GuardedEnd end)
    : data_(static_cast<std::byte*>(region().allocate(bytes, end))), bytes_(bytes) {
  if (!data_) std::abort();
  if (bytes > 0) std::memset(data_, 0xa5, bytes);
}

GuardedMemory::~GuardedMemory() {
  if (data_) region().release(data_);
}

}  // namespace graft::fuzz

// The linker puts these in the place of the functions that they are named after (cmake/fuzz.cmake).
extern "C" void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  using graft::fuzz::GuardedEnd;
  const bool fits = alignment <= graft::fuzz::kPage && bytes % alignment == 0;
  void* memory = fits ? graft::fuzz::region().allocate(bytes, GuardedEnd::kLast) : nullptr;
  return memory ? memory : __real_aligned_alloc(alignment, bytes);
}

extern "C" __attribute__((no_sanitize("address", "undefined"))) void __wrap_free(void* memory) {
  const uintptr_t begin = graft::fuzz::region_begin;
  const bool guarded = begin != 0 && reinterpret_cast<uintptr_t>(memory) - begin < graft::fuzz::kRegionBytes;
  guarded ? graft::fuzz::region().release(memory) : __real_free(memory);
}
