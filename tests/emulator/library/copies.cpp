// SPDX-License-Identifier: Apache-2.0
// Copies into shared memory that kernels start and wait for. The bytes come as late as they may, so that what reads
// them without waiting reads something else; boxes come early as often as late, drawn by the seed.
#include <cstring>
#include <string>

#include "cluster.h"
#include "device/interface.h"
#include "elements.h"
#include "mbarrier.h"
#include "memory.h"
#include "tensor_map.h"

namespace graft::emulator {
namespace {

void require_aligned(const void* address, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0) {
    fail("a copy of " + std::to_string(bytes) + " bytes from a misaligned address");
  }
}

struct BoxCopy {
  TensorMap map;
  unsigned to, barrier;
  int at[5];
};
static_assert(sizeof(BoxCopy) <= sizeof EngineTask::data);

/// The place of a line of the box (its coordinates but the first) in the tensor; null where it lies beyond a border.
const char* line_of(const BoxCopy& copy, int64_t line) {
  const TensorMap& map = copy.map;
  const char* from = map.address;
  for (int axis = 1; axis < map.rank; ++axis) {
    const int64_t at = copy.at[axis] + line % map.boxes[axis];
    line /= map.boxes[axis];
    if (at < 0 || at >= map.extents[axis]) return nullptr;
    from += at * static_cast<int64_t>(map.strides[axis]);
  }
  return from;
}

/// One element to where the line's swizzle puts it.
void put(const BoxCopy& copy, int64_t offset, const char* from) {
  const unsigned address = swizzled(copy.to + static_cast<unsigned>(offset), copy.map.swizzle_bytes);
  void* to = graft_shared_pointer(address, copy.map.element_bytes);
  if (from) {
    std::memcpy(to, from, copy.map.element_bytes);
  } else {
    std::memset(to, 0, copy.map.element_bytes);
  }
}

void tma_copy_tile(const void* data) {
  BoxCopy copy;
  std::memcpy(&copy, data, sizeof copy);
  const TensorMap& map = copy.map;
  int64_t lines = 1, bytes = 0;
  for (int axis = 1; axis < map.rank; ++axis) lines *= map.boxes[axis];
  for (int64_t line = 0; line < lines; ++line) {
    const char* from = line_of(copy, line);
    for (unsigned i = 0; i < map.boxes[0]; ++i, bytes += map.element_bytes) {
      const int64_t at = copy.at[0] + static_cast<int64_t>(i);
      const bool inside = from && at >= 0 && at < map.extents[0];
      put(copy, bytes, inside ? from + at * map.element_bytes : nullptr);
    }
  }
  bring_bytes(copy.barrier, bytes);
}

struct ByteCopy {
  const void* from;
  unsigned to, bytes, barrier;
};

void copy_bytes(const void* data) {
  ByteCopy copy;
  std::memcpy(&copy, data, sizeof copy);
  for (unsigned at = 0; at < copy.bytes; at += 16) {
    std::memcpy(graft_shared_pointer(copy.to + at, 16), static_cast<const char*>(copy.from) + at, 16);
  }
  bring_bytes(copy.barrier, copy.bytes);
}

/// Now or when nothing else can go on.
void give_engine(void (*run)(const void*), const void* data, size_t bytes) {
  if (cluster().draw() % 2) return run(data);
  EngineTask task{run, {}};
  std::memcpy(task.data, data, bytes);
  cluster().post(task);
}

void perform(const std::vector<PendingCopy>& copies) {
  for (const PendingCopy& copy : copies) {
    std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
    std::memset(static_cast<char*>(copy.to) + copy.bytes, 0, static_cast<size_t>(copy.zeros));
  }
}

}  // namespace
}  // namespace graft::emulator

using namespace graft::emulator;

void graft_copy_start(unsigned to, const void* from, int bytes, int valid) {
  if (valid < 0 || valid > bytes) fail("a copy of more bytes than its piece has");
  require_aligned(from, static_cast<size_t>(bytes));
  void* place = graft_shared_pointer(to, static_cast<unsigned>(bytes));
  cluster().current()->open_copies.push_back({place, from, valid, bytes - valid});
}

void graft_copy_commit() {
  Thread& thread = *cluster().current();
  thread.copies.push_back(std::move(thread.open_copies));
  thread.open_copies.clear();
}

void graft_copy_wait(int pending) {
  Thread& thread = *cluster().current();
  while (thread.copies.size() > static_cast<size_t>(pending)) {
    perform(thread.copies.front());
    thread.copies.pop_front();
  }
}

void graft_copy_box(unsigned to, const void* map, unsigned barrier, int rank, const int* at) {
  constexpr unsigned kAlignment = 128;
  BoxCopy copy{};
  std::memcpy(&copy.map, map, sizeof copy.map);
  if (copy.map.magic != TensorMap::kMagic) fail("a copy of a box of a tensor that the driver has not described");
  if (copy.map.rank != rank) fail("a box of " + std::to_string(rank) + " axes of a tensor that has another number");
  if (to % kAlignment != 0) fail("a box goes to a misaligned address of shared memory");
  copy.to = to, copy.barrier = barrier;
  std::memcpy(copy.at, at, static_cast<size_t>(rank) * sizeof(int));
  give_engine(&tma_copy_tile, &copy, sizeof copy);
}

void graft_copy_bytes(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  if (bytes % 16 != 0) fail("a copy of a number of bytes that is no multiple of 16");
  require_aligned(from, 16);
  const ByteCopy copy{from, to, bytes, barrier};
  give_engine(&copy_bytes, &copy, sizeof copy);
}
