// SPDX-License-Identifier: Apache-2.0
// A cluster of blocks (mostly one) while it runs: its threads take turns on one processor and change only where they
// wait for each other. Which warp goes first is drawn anew each round, and some are left behind for long, so that what
// misses a barrier reads too early or waits for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fiber.h"

namespace graft::emulator {

struct Block;
struct Warp;

/// A kernel did what a GPU would not do, or would do something else with each time. Ends the launch.
[[noreturn]] void fail(const std::string& what);

/// A copy that a thread started and has not waited for.
struct PendingCopy {
  void* to;
  const void* from;
  int bytes, zeros;  ///< how many of the bytes are read, and how many zeros follow
};

/// A thread of a block.
struct Thread {
  enum class State { kReady, kWaits, kPolls, kEnded };

  Fiber fiber;
  Block* block = nullptr;
  Warp* warp = nullptr;
  int number = 0;  ///< in its block
  int lane = 0;
  State state = State::kEnded;
  unsigned cluster_phase = 0;                   ///< in which it arrived at the cluster's barrier
  uint64_t seen = 0;                            ///< of kPolls: what had happened when it last looked
  std::vector<PendingCopy> open_copies;         ///< not in a group yet
  std::deque<std::vector<PendingCopy>> copies;  ///< groups, the oldest first
};

/// A product of a warpgroup that was started: what one warp of it does.
struct PendingProduct;

/// Threads that work in lock-step.
struct Warp {
  std::vector<Thread*> lanes;
  const char* operation = nullptr;  ///< that the lanes are meeting for
  size_t arrived = 0;
  unsigned registers = 0;  ///< of each thread
  unsigned resting = 0;    ///< rounds in which it is left behind
  void* own[32] = {};      ///< what each lane brought
  unsigned started = 0;  ///< products of its warpgroup
  std::vector<std::shared_ptr<PendingProduct>> open_products;
  std::deque<std::vector<std::shared_ptr<PendingProduct>>> products;
};

/// One of a block's 16 barriers.
struct Barrier {
  std::vector<Thread*> waiting;
  size_t arrived = 0;
};

/// Memory that goes back where it came from.
struct Release {
  void operator()(char* memory) const;
};

/// A block, its threads and its shared memory: in pages of its own, behind bytes that nothing may write.
struct Block {
  unsigned rank = 0;  ///< in its cluster
  unsigned index = 0;
  std::vector<Thread*> threads;
  std::vector<Warp> warps;
  Barrier barriers[16];
  bool any = false;  ///< of what threads gave to a barrier that tells whether one gave true
  size_t ended = 0;
  unsigned registers = 0;  ///< that warps gave up, for each of their threads
  std::unique_ptr<char, Release> memory;
  size_t memory_bytes = 0;
  char* shared = nullptr;
  size_t shared_bytes = 0;
};

/// What a launch asks for.
struct Launch {
  void (*entry)(void**) = nullptr;
  void** arguments = nullptr;
  std::string name;
  unsigned grid = 1, threads = 1, cluster = 1;
  unsigned registers = 0;  ///< of each thread at its start
  size_t shared_bytes = 0;
};

/// Work that the copy engine has been given: it is done when nothing else can go on.
struct EngineTask {
  void (*run)(const void*);
  alignas(16) char data[160];
};

/// The blocks of one cluster, and the stacks that all launches use one after the other.
class Cluster {
 public:
  /// Runs all blocks of a launch. Returns what went wrong, or an empty text.
  std::string run(const Launch& launch);

  Thread* current() const { return current_; }
  const Launch* launch() const { return launch_; }
  Block& block(unsigned rank) { return blocks_[rank]; }
  size_t blocks() const { return blocks_.size(); }

  /// The current thread stops until wake().
  void wait();
  void wake(Thread* thread) { thread->state = Thread::State::kReady, ++happened_; }
  /// The current thread stops until anything has happened.
  void poll();
  /// Tells pollers to look again.
  void notify() { ++happened_; }
  /// Gives the copy engine something to do.
  void post(const EngineTask& task) { tasks_.push_back(task); }
  /// The barrier of all threads of the cluster: how often it was passed, and one more at it.
  unsigned phase() const { return phase_; }
  void arrive();
  /// What copies have yet to bring, by the mbarrier that waits for it.
  std::map<const void*, int64_t>& bytes_to_come() { return bytes_to_come_; }
  /// A number drawn by the seed (GRAFT_EMULATOR_SEED).
  uint32_t draw();
  /// Whether the warps of a warpgroup wait for each other where they start a product: a GPU may do either.
  bool warpgroups_meet() const { return warpgroups_meet_; }
  /// `kernel NAME, block 3, thread 5`, of the current thread.
  std::string place() const;
  /// Ends the launch with this reason; from the inside of a thread.
  [[noreturn]] void abandon(const std::string& reason);

 private:
  void prepare(unsigned first_block);
  void prepare_block(Block& block, unsigned rank, unsigned first_block);
  void run_blocks();
  bool run_round();
  bool rests(Warp& warp);
  bool run_warp(Warp& warp);
  bool is_ready(const Thread& thread) const;
  void resume(Thread& thread);
  void pass_barrier();
  void check_ends();
  std::string who_waits() const;

  const Launch* launch_ = nullptr;
  std::vector<Block> blocks_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::deque<EngineTask> tasks_;
  std::map<const void*, int64_t> bytes_to_come_;
  Thread* current_ = nullptr;
  unsigned phase_ = 0;
  size_t at_barrier_ = 0;
  size_t unfinished_ = 0;
  uint64_t happened_ = 0;
  uint32_t random_ = 1, launches_ = 0;
  bool warpgroups_meet_ = false;
  std::string reason_;
};

/// The one that runs: launches come one after the other.
Cluster& cluster();

/// Waits until all lanes of the current thread's warp are here for the same operation; `own` is what this lane brings
/// and takes. The last one does `combine(own of all lanes, their number)` for all of them.
void meet(const char* operation, void* own, void (*combine)(Warp& warp));

}  // namespace graft::emulator
