// SPDX-License-Identifier: Apache-2.0
// Addresses of shared memory: 24 bits of a byte, above them the block of the cluster.
#include <string>

#include "cluster.h"
#include "device/interface.h"

namespace {

using namespace graft::emulator;

constexpr unsigned kBlockShift = 24, kFirst = 1024;  // as on a GPU, the first bytes are the system's

}  // namespace

void graft_fail(const char* what) { fail(what); }

void* graft_dynamic_shared() { return cluster().current()->block->shared; }

bool graft_is_shared(const void* pointer) {
  const Block& block = *cluster().current()->block;
  const auto offset = static_cast<const char*>(pointer) - block.shared;
  return offset >= 0 && static_cast<size_t>(offset) < block.shared_bytes;
}

unsigned graft_shared_address(const void* pointer) {
  const Block& block = *cluster().current()->block;
  const auto offset = static_cast<const char*>(pointer) - block.shared;
  if (offset < 0 || static_cast<size_t>(offset) > block.shared_bytes) fail("an address that is not of shared memory");
  return (block.rank << kBlockShift) + kFirst + static_cast<unsigned>(offset);
}

unsigned graft_shared_of_block(unsigned address, unsigned block) {
  if (block >= cluster().blocks()) fail("a cluster has no block " + std::to_string(block));
  return (address & ((1u << kBlockShift) - 1)) | block << kBlockShift;
}

void* graft_shared_pointer(unsigned address, unsigned bytes) {
  const unsigned rank = address >> kBlockShift;
  if (rank >= cluster().blocks()) fail("an address of shared memory of a block that is not there");
  const Block& block = cluster().block(rank);
  const unsigned offset = (address & ((1u << kBlockShift) - 1)) - kFirst;
  if (offset % bytes != 0) fail("a misaligned address of shared memory");
  if (offset + size_t{bytes} > block.shared_bytes) {
    fail("byte " + std::to_string(offset) + " of shared memory of " + std::to_string(block.shared_bytes));
  }
  if (block.ended == block.threads.size()) fail("shared memory of a block that has ended");
  return block.shared + offset;
}
