// SPDX-License-Identifier: Apache-2.0
#include "base/thread_team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>

namespace graft {
namespace {

/// Leaves the processor to others for a moment, in a loop that waits.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // as long as x86's pause; `yield` does nothing on processors without hardware threads
#endif
}

/// Keeps a thread off the processor of the one that wakes it. Kernels of virtual machines take an idle processor for
/// one that the host has taken away, and queue the woken thread behind its waker until the next balancing, for
/// milliseconds: longer than most loops.
class Placement {
 public:
  /// Nothing changes where the thread has no other processor. A mask that someone else set in between is respected.
  void keep_off(pthread_t thread, int processor) {
    cpu_set_t now;
    if (pthread_getaffinity_np(thread, sizeof now, &now) != 0) return;
    if (!steered_ || !CPU_EQUAL(&now, &steered_to_)) allowed_ = now;
    cpu_set_t wanted = allowed_;
    CPU_CLR(processor, &wanted);
    if (CPU_COUNT(&wanted) == 0 || CPU_EQUAL(&now, &wanted)) return;
    steered_ = pthread_setaffinity_np(thread, sizeof wanted, &wanted) == 0;
    steered_to_ = wanted;
  }

 private:
  cpu_set_t allowed_ = {}, steered_to_ = {};
  bool steered_ = false;
};

/// How long a thread spins before it sleeps: longer where it was woken soon after, as by a caller that runs a network
/// again and again. Waking a thread takes tens of microseconds, and milliseconds where others use its processor.
class Patience {
 public:
  using Duration = std::chrono::steady_clock::duration;
  Duration spin() const { return spin_; }
  void learn(Duration waited) { spin_ = waited < kMost ? kMost : kLeast; }

 private:
  static constexpr Duration kLeast = std::chrono::microseconds(200), kMost = std::chrono::milliseconds(1);
  Duration spin_ = kLeast;
};

/// What is left of the part of a loop that one thread begins with: it takes pieces from the front, and others that
/// have nothing left take theirs from the back. Pieces are half of what is left, so that a thread that is held up does
/// not hold up the others.
class alignas(64) Share {
 public:
  void set(uint32_t begin, uint32_t end) { left_.store(packed(begin, end), std::memory_order_relaxed); }

  /// False when nothing is left.
  bool take(bool front, uint32_t& begin, uint32_t& end) {
    uint64_t left = left_.load(std::memory_order_relaxed);
    while (true) {
      const auto first = static_cast<uint32_t>(left >> 32), last = static_cast<uint32_t>(left);
      if (first >= last) return false;
      const uint32_t piece = std::max<uint32_t>(1, (last - first) / 2);
      begin = front ? first : last - piece;
      end = begin + piece;
      const uint64_t rest = front ? packed(end, last) : packed(first, begin);
      if (left_.compare_exchange_weak(left, rest, std::memory_order_relaxed)) return true;
    }
  }

 private:
  static uint64_t packed(uint32_t begin, uint32_t end) { return uint64_t{begin} << 32 | end; }
  std::atomic<uint64_t> left_{0};
};

/// A loop being shared out. Each thread begins with the same part of every loop of as many turns, whose weights and
/// results may still lie in its caches. The caller waits only for those who have come, so a worker that the operating
/// system does not run costs nothing.
class Team {
 public:
  ~Team() {
    stopping_ = true;
    generation_.fetch_add(1);
    generation_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  /// False when another caller has the team: then the loop should run inline.
  bool run(int threads, int64_t count, const RangeFunction& f) {
    const std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    grow(threads - 1);
    count_ = count;
    unit_ = (count - 1) / kMostUnits + 1;
    threads_ = threads;
    function_ = &f;
    divide();
    open_.store(true, std::memory_order_release);
    // Either this thread sees who goes to sleep, or that one sees the new generation: all accesses are in one order.
    generation_.fetch_add(1, std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst) > 0) wake();
    work(0);
    open_.store(false, std::memory_order_seq_cst);
    while (inside_.load(std::memory_order_seq_cst) > 0) relax();
    return true;
  }

 private:
  /// Adds what is missing, or as many as the system gives; then it is not asked again for a while.
  void grow(int workers) {
    if (static_cast<int>(workers_.size()) >= workers || std::chrono::steady_clock::now() < refused_until_) return;
    try {
      workers_.reserve(static_cast<size_t>(workers));
      placements_.resize(static_cast<size_t>(workers));
      while (static_cast<int>(workers_.size()) < workers) {
        const int index = static_cast<int>(workers_.size()) + 1;
        workers_.emplace_back([this, index] { serve(index); });
      }
    } catch (const std::system_error&) {
      refused_until_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    } catch (const std::bad_alloc&) {
      refused_until_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    }
  }

  void wake() {
    const int processor = sched_getcpu();
    for (size_t w = 0; w < workers_.size() && processor >= 0; ++w) {
      placements_[w].keep_off(workers_[w].native_handle(), processor);
    }
    generation_.notify_all();
  }

  /// Even parts of whole units, of which shares can count that many.
  void divide() {
    if (static_cast<int>(shares_.size()) < threads_) shares_ = std::vector<Share>(static_cast<size_t>(threads_));
    const int64_t units = (count_ - 1) / unit_ + 1;
    for (int64_t t = 0; t < threads_; ++t) {
      shares_[static_cast<size_t>(t)].set(static_cast<uint32_t>(units * t / threads_),
                                          static_cast<uint32_t>(units * (t + 1) / threads_));
    }
  }

  void work(int thread) {
    for (int t = 0; t < threads_; ++t) {
      Share& share = shares_[static_cast<size_t>((thread + t) % threads_)];
      uint32_t begin = 0, end = 0;
      while (share.take(t == 0, begin, end)) {
        (*function_)(begin * unit_, std::min(end * unit_, count_), thread);
      }
    }
  }

  void serve(int index) {
    uint64_t seen = 0;
    Patience patience;
    while (!stopping_) {
      seen = wait_for_work(seen, patience);
      // Announced before looking: the caller closes first and then waits for those inside.
      inside_.fetch_add(1, std::memory_order_seq_cst);
      if (open_.load(std::memory_order_seq_cst) && index < threads_) work(index);
      inside_.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  /// Spins for the time between two kernels of a network, or between two runs that follow each other, then sleeps.
  uint64_t wait_for_work(uint64_t seen, Patience& patience) {
    const auto start = std::chrono::steady_clock::now();
    const auto waited = [&] { return std::chrono::steady_clock::now() - start; };
    uint64_t now = generation_.load(std::memory_order_acquire);
    for (int i = 0; now == seen; now = generation_.load(std::memory_order_acquire), ++i) {
      relax();
      if (i % 64 == 63 && waited() > patience.spin()) break;
    }
    if (now == seen) {
      sleeping_.fetch_add(1, std::memory_order_seq_cst);
      generation_.wait(seen, std::memory_order_seq_cst);
      sleeping_.fetch_sub(1, std::memory_order_seq_cst);
      patience.learn(waited());
      now = generation_.load(std::memory_order_acquire);
    }
    return now;
  }

  std::mutex busy_;
  std::vector<std::thread> workers_;
  std::vector<Placement> placements_;  // of the workers
  std::chrono::steady_clock::time_point refused_until_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> sleeping_{0}, inside_{0};
  std::atomic<bool> open_{false}, stopping_{false};
  // Written by the caller before `open_`, read by workers after it.
  static constexpr int64_t kMostUnits = int64_t{1} << 31;
  std::vector<Share> shares_;
  int64_t count_ = 0, unit_ = 1;
  int threads_ = 1;
  const RangeFunction* function_ = nullptr;
};

/// The process's team. A child after fork has none of its parent's threads: it leaves that team alone and starts its
/// own.
std::atomic<Team*> current_team{nullptr};

Team& team() {
  static const bool watching = [] {
    pthread_atfork(nullptr, nullptr, [] { current_team = nullptr; });
    static const struct Owner {
      ~Owner() { delete current_team.exchange(nullptr); }
    } owner;
    return true;
  }();
  (void)watching;
  Team* existing = current_team.load();
  if (existing) return *existing;
  auto fresh = std::make_unique<Team>();
  if (current_team.compare_exchange_strong(existing, fresh.get())) return *fresh.release();
  return *existing;
}

}  // namespace

void parallel_for(int threads, int64_t count, RangeFunction f) {
  if (count <= 0) return;
  const int wanted = static_cast<int>(std::min<int64_t>(threads, count));
  if (wanted <= 1 || !team().run(wanted, count, f)) f(0, count, 0);
}

}  // namespace graft
