// SPDX-License-Identifier: Apache-2.0
#include "cluster.h"

#include <setjmp.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "device/interface.h"
#include "memory.h"
#include "trap.h"

graft_index graft_thread_index, graft_block_index, graft_block_size, graft_grid_size;

namespace graft::emulator {
namespace {

constexpr size_t kRedZone = 1024;     ///< before the shared memory of a block; swizzles want whole multiples of it
constexpr unsigned char kRed = 0xff;  ///< all bits set is a NaN of every type of float

constexpr uint32_t kOneInRests = 16;  ///< of the warps that could go on,
constexpr uint32_t kMostRounds = 64;  ///< for so long at most

sigjmp_buf launch_end;  // where abandon() leads

uint32_t seed() {
  const char* text = std::getenv("GRAFT_EMULATOR_SEED");
  return text ? static_cast<uint32_t>(std::strtoul(text, nullptr, 10)) * 2654435761u + 1 : 1;
}

void run_thread(void*) {
  Cluster& all = cluster();
  all.launch()->entry(all.launch()->arguments);
  Thread& thread = *all.current();
  if (thread.warp->arrived > 0)
    fail("a thread ends while others of its warp wait for it in " + std::string(thread.warp->operation));
  thread.state = Thread::State::kEnded;
  ++thread.block->ended;
  all.notify();
}

std::string number(size_t value) { return std::to_string(value); }

}  // namespace

void Release::operator()(char* memory) const { release(memory); }

void fail(const std::string& what) { cluster().abandon(what); }

Cluster& cluster() {
  static auto* instance = new Cluster;  // outlives what the process still launches at its end
  return *instance;
}

std::string Cluster::run(const Launch& launch) {
  launch_ = &launch;
  random_ = seed() + launches_++ * 747796405u;
  if (random_ == 0) random_ = 1;
  draw();
  warpgroups_meet_ = draw() % 2 == 0;
  blocks_.resize(launch.cluster);
  while (threads_.size() < size_t{launch.cluster} * launch.threads) threads_.push_back(std::make_unique<Thread>());
  graft_block_size = {launch.threads, 1, 1}, graft_grid_size = {launch.grid, 1, 1};
  const TrapScope traps;
  reason_.clear();
  if (sigsetjmp(launch_end, 1) == 0) {
    for (unsigned first = 0; first < launch.grid; first += launch.cluster) {
      prepare(first);
      run_blocks();
      check_ends();
    }
  }
  current_ = nullptr;
  tasks_.clear();
  return reason_;
}

void Cluster::abandon(const std::string& reason) {
  reason_ = reason + " (" + place() + ")";
  siglongjmp(launch_end, 1);
}

std::string Cluster::place() const {
  const std::string kernel = "kernel " + launch_->name;
  if (!current_) return kernel;
  return kernel + ", block " + number(current_->block->index) + ", thread " + number(current_->number);
}

uint32_t Cluster::draw() {
  random_ ^= random_ << 13, random_ ^= random_ >> 17, random_ ^= random_ << 5;
  return random_;
}

void Cluster::prepare(unsigned first_block) {
  happened_ = 0, phase_ = 0, at_barrier_ = 0;
  bytes_to_come_.clear(), tasks_.clear();
  for (unsigned rank = 0; rank < blocks_.size(); ++rank) prepare_block(blocks_[rank], rank, first_block);
  unfinished_ = blocks_.size() * launch_->threads;
}

void Cluster::prepare_block(Block& block, unsigned rank, unsigned first_block) {
  block.rank = rank, block.index = first_block + rank, block.ended = 0, block.registers = 0;
  block.shared_bytes = launch_->shared_bytes;
  const size_t bytes = kRedZone + (block.shared_bytes + kRedZone - 1) / kRedZone * kRedZone;
  if (bytes != block.memory_bytes) {
    block.memory.reset(static_cast<char*>(allocate(bytes)));
    if (!block.memory) throw std::bad_alloc();
    block.memory_bytes = bytes, block.shared = block.memory.get() + kRedZone;
  }
  std::memset(block.memory.get(), kRed, bytes);
  for (Barrier& barrier : block.barriers) barrier.waiting.clear(), barrier.arrived = 0;
  block.threads.clear();
  block.warps.assign((launch_->threads + 31) / 32, {});
  for (Warp& warp : block.warps) warp.registers = launch_->registers;
  for (unsigned i = 0; i < launch_->threads; ++i) {
    Thread& thread = *threads_[rank * launch_->threads + i];
    thread.block = &block, thread.warp = &block.warps[i / 32];
    thread.number = static_cast<int>(i), thread.lane = static_cast<int>(i % 32);
    thread.state = Thread::State::kReady;
    thread.open_copies.clear(), thread.copies.clear();
    thread.fiber.start(&run_thread, nullptr);
    thread.warp->lanes.push_back(&thread);
    block.threads.push_back(&thread);
  }
}

void Cluster::run_blocks() {
  while (unfinished_ > 0) {
    if (run_round()) continue;
    if (tasks_.empty()) {
      reason_ = "all threads wait for each other: " + who_waits() + " (" + place() + ")";
      siglongjmp(launch_end, 1);
    }
    const EngineTask task = tasks_.front();
    tasks_.pop_front();
    task.run(task.data);
    notify();
  }
}

/// Whether a warp is left behind in this round.
bool Cluster::rests(Warp& warp) {
  if (warp.resting == 0 && draw() % kOneInRests == 0) warp.resting = draw() % kMostRounds;
  if (warp.resting == 0) return false;
  --warp.resting;
  return true;
}

/// Lets each warp go as far as it can, but for those that rest; false when none could do anything.
bool Cluster::run_round() {
  std::vector<Warp*> order;
  for (Block& block : blocks_) {
    for (Warp& warp : block.warps) order.push_back(&warp);
  }
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw() % i]);
  bool any = false;
  std::vector<Warp*> left;
  for (Warp* warp : order) {
    if (rests(*warp)) {
      left.push_back(warp);
    } else {
      any |= run_warp(*warp);
    }
  }
  for (Warp* warp : left) {
    if (!any) any = run_warp(*warp);
  }
  return any;
}

bool Cluster::run_warp(Warp& warp) {
  bool any = false;
  for (bool again = true; again;) {
    again = false;
    for (Thread* thread : warp.lanes) {
      if (!is_ready(*thread)) continue;
      resume(*thread);
      again = true;
    }
    any |= again;
  }
  return any;
}

bool Cluster::is_ready(const Thread& thread) const {
  return thread.state == Thread::State::kReady || (thread.state == Thread::State::kPolls && thread.seen != happened_);
}

void Cluster::resume(Thread& thread) {
  current_ = &thread;
  thread.state = Thread::State::kReady;
  graft_thread_index.x = static_cast<unsigned>(thread.number);
  graft_block_index.x = thread.block->index;
  thread.fiber.resume();
  current_ = nullptr;
  if (thread.state != Thread::State::kEnded) return;
  --unfinished_;
  pass_barrier();
}

void Cluster::wait() {
  current_->state = Thread::State::kWaits;
  current_->fiber.pause();
}

void Cluster::poll() {
  current_->state = Thread::State::kPolls;
  current_->seen = happened_;
  current_->fiber.pause();
}

void Cluster::arrive() {
  ++at_barrier_;
  pass_barrier();
}

/// Threads that have ended are not waited for.
void Cluster::pass_barrier() {
  if (at_barrier_ == 0 || at_barrier_ < unfinished_) return;
  at_barrier_ = 0, ++phase_, ++happened_;
}

/// At the end of a block nothing may be left half done.
void Cluster::check_ends() {
  for (const Block& block : blocks_) {
    for (const Barrier& barrier : block.barriers) {
      if (barrier.arrived > 0) fail("a block ends while threads wait at a barrier");
    }
    const char *begin = block.memory.get(), *end = begin + block.memory_bytes, *shared = block.shared;
    const auto red = [](char c) { return static_cast<unsigned char>(c) == kRed; };
    if (!std::all_of(begin, shared, red) || !std::all_of(shared + block.shared_bytes, end, red)) {
      fail("block " + number(block.index) + " wrote outside of its " + number(block.shared_bytes) +
           " bytes of shared memory");
    }
  }
}

std::string Cluster::who_waits() const {
  std::string text;
  for (const Block& block : blocks_) {
    for (const Warp& warp : block.warps) {
      for (const Thread* thread : warp.lanes) {
        if (thread->state == Thread::State::kEnded) continue;
        const bool polls = thread->state == Thread::State::kPolls;
        const bool meets = warp.operation && warp.arrived > 0;
        const char* what = polls ? "an mbarrier or the cluster's barrier" : meets ? warp.operation : "a barrier";
        text += (text.empty() ? "" : ", ") + ("block " + number(block.index)) + " thread " + number(thread->number) +
                " at " + what;
        break;
      }
    }
  }
  return text;
}

void meet(const char* operation, void* own, void (*combine)(Warp&)) {
  Thread& thread = *cluster().current();
  Warp& warp = *thread.warp;
  if (warp.arrived == 0) warp.operation = operation;
  if (std::strcmp(warp.operation, operation) != 0) {
    fail(std::string("lanes of a warp meet for different things: ") + warp.operation + " and " + operation);
  }
  warp.own[thread.lane] = own;
  if (++warp.arrived < warp.lanes.size()) return cluster().wait();
  combine(warp);
  warp.arrived = 0;
  for (Thread* lane : warp.lanes) {
    if (lane != &thread) cluster().wake(lane);
  }
}

}  // namespace graft::emulator
