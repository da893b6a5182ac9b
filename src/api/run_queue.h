// SPDX-License-Identifier: Apache-2.0
// The thread of a session for its asynchronous runs.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace graft::api_detail {

/// How many forks lie between this process and the one that loaded the library: a lock of a process before may be held
/// by a thread that is not here. Also from a signal handler.
uint64_t forks() noexcept;

/// Asynchronous runs of one session, one after another in the order of their calls, on a thread that the first one
/// starts and that sleeps between them. Safe from any thread.
class RunQueue {
 public:
  /// Runs, and tells the caller; never throws. Called once, on the queue's thread.
  using Work = std::function<void()>;

  /// Throws Error{device} where the system gives no thread.
  RunQueue();
  RunQueue(const RunQueue&) = delete;
  RunQueue& operator=(const RunQueue&) = delete;
  /// Cancels what waits and what runs (`stop` ends that), and returns when all of it was told.
  void finish(const std::function<void()>& stop);
  /// The same from inside of a run: the thread ends after what waits, which finds itself cancelled, and then calls
  /// `last`.
  void finish_inside(std::function<void()> last);

  /// `run`: takes the number of the run, from 1 on, before that begins; or null. Throws Error{cancelled} once the queue
  /// finishes.
  void add(Work work, uint64_t* run);
  /// Returns when nothing waits or runs; at once on the queue's own thread.
  void settle() const;
  /// Whether the caller is the queue's thread.
  bool inside() const;
  /// Whether its thread is in this process: false in a child after fork.
  bool is_here() const;
  /// Cancels all runs that were added so far; the one that goes on has to be ended as well. Also from a signal handler.
  void cancel_all() noexcept;
  /// Cancels one run, and calls `stop` while it is the one that goes on. Nothing for one that has ended.
  void cancel(uint64_t run, const std::function<void()>& stop);
  /// Whether the run that goes on was cancelled, perhaps before it began. On the queue's thread.
  bool is_cancelled() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread's too
};

}  // namespace graft::api_detail
