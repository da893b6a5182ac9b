// SPDX-License-Identifier: Apache-2.0
// Barriers of blocks and clusters, and mbarriers in shared memory.
#include <cstring>
#include <string>

#include "cluster.h"
#include "device/interface.h"
#include "mbarrier.h"

namespace graft::emulator {
namespace {

constexpr unsigned kBarriers = 16;
constexpr uint16_t kMostArrivals = 0x7fff;  // as much as fits; a GPU allows 2^20 - 1

Barrier& barrier_of_block(unsigned number) {
  if (number >= kBarriers) fail("there is no barrier " + std::to_string(number));
  return cluster().current()->block->barriers[number];
}

/// Counts the current thread in; true when it is the last, and the others go on.
bool arrive(Barrier& barrier, unsigned threads) {
  if (++barrier.arrived < threads) return false;
  for (Thread* thread : barrier.waiting) cluster().wake(thread);
  barrier.waiting.clear(), barrier.arrived = 0;
  return true;
}

unsigned threads_of(const Block& block, unsigned threads) {
  if (threads % 32 != 0) fail("a barrier of a number of threads that is no multiple of 32");
  if (threads > block.threads.size()) fail("a barrier of more threads than the block has");
  return threads ? threads : static_cast<unsigned>(block.threads.size());
}

/// The state of an mbarrier, as its 64 bits hold it.
struct State {
  uint16_t phase, expected, pending, unused;
};

/// An mbarrier in shared memory.
class MBarrier {
 public:
  explicit MBarrier(unsigned address) : word_(graft_shared_pointer(address, 8)) {
    std::memcpy(&state_, word_, sizeof state_);
  }
  MBarrier(unsigned address, unsigned arrivals) : MBarrier(address) {
    if (arrivals == 0 || arrivals > kMostArrivals) fail("an mbarrier of " + std::to_string(arrivals) + " arrivals");
    state_ = {0, static_cast<uint16_t>(arrivals), static_cast<uint16_t>(arrivals), 0};
    bytes_to_come(word_) = 0;
    store();
  }

  bool has_ended(unsigned parity) const {
    check();
    return state_.phase != (parity & 1);
  }
  void arrive() {
    check();
    if (state_.pending == 0) fail("more threads arrive at an mbarrier than it was made for");
    --state_.pending;
    store();
  }
  void expect(int64_t bytes) {
    check();
    bytes_to_come(word_) += bytes;
    store();
  }

 private:
  /// Bytes that copies have yet to bring, by barrier: a number of 21 bits in a GPU's own state.
  static int64_t& bytes_to_come(const void* word) { return cluster().bytes_to_come()[word]; }
  void check() const {
    if (state_.expected == 0 || state_.expected > kMostArrivals) fail("an mbarrier is used that was not initialised");
  }
  void store() {
    if (state_.pending == 0 && bytes_to_come(word_) == 0) {
      state_.phase ^= 1, state_.pending = state_.expected;
      cluster().notify();
    }
    std::memcpy(word_, &state_, sizeof state_);
  }

  void* word_;
  State state_{};
};

}  // namespace

void bring_bytes(unsigned barrier, int64_t bytes) { MBarrier(barrier).expect(-bytes); }

}  // namespace graft::emulator

using namespace graft::emulator;

void graft_barrier_wait(unsigned number, unsigned threads) {
  Block& block = *cluster().current()->block;
  Barrier& barrier = barrier_of_block(number);
  barrier.waiting.push_back(cluster().current());
  const bool last = arrive(barrier, threads_of(block, threads));
  if (!last) cluster().wait();
}

bool graft_barrier_any(bool value) {
  Block& block = *cluster().current()->block;
  block.any |= value;
  graft_barrier_wait(0, 0);
  const bool any = block.any;
  graft_barrier_wait(0, 0);
  block.any = false;
  graft_barrier_wait(0, 0);
  return any;
}

void graft_barrier_arrive(unsigned number, unsigned threads) {
  Block& block = *cluster().current()->block;
  arrive(barrier_of_block(number), threads_of(block, threads));
}

void graft_have_registers(unsigned count) {
  constexpr unsigned kStep = 8, kLeast = 24, kMost = 256;
  if (count % kStep != 0 || count < kLeast || count > kMost) fail("so many registers cannot be had");
  meet("a change of its registers", nullptr, [](Warp&) {});
  Thread& thread = *cluster().current();
  if (thread.lane == 0) {
    Block& block = *thread.block;
    Warp& warp = *thread.warp;
    while (warp.registers + block.registers < count) cluster().poll();
    block.registers += warp.registers - count;  // modulo 2^32 where it takes
    warp.registers = count;
    cluster().notify();
  }
  meet("a change of its registers", nullptr, [](Warp&) {});
}

void graft_cluster_arrive() {
  Thread& thread = *cluster().current();
  thread.cluster_phase = cluster().phase();
  cluster().arrive();
}

void graft_cluster_wait() {
  while (cluster().phase() == cluster().current()->cluster_phase) cluster().poll();
}

void graft_mbarrier_init(unsigned address, unsigned arrivals) { MBarrier(address, arrivals); }

void graft_mbarrier_arrive(unsigned address, unsigned bytes_to_come) {
  MBarrier barrier(address);
  if (bytes_to_come > 0) barrier.expect(bytes_to_come);
  barrier.arrive();
}

bool graft_mbarrier_try(unsigned address, unsigned parity) {
  if (MBarrier(address).has_ended(parity)) return true;
  cluster().poll();
  return false;
}
