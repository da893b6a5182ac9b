// SPDX-License-Identifier: Apache-2.0
// Time that a run may take.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace graft {

/// Calls `late` from a thread of its own when it still lives after so many seconds. The thread is made for each run
/// that has a deadline (some ten microseconds), so that none is left over in a child after fork.
class Deadline {
 public:
  /// Throws a device error when there can be no more threads.
  Deadline(double seconds, std::function<void()> late);
  /// Afterwards `late` is not called any more.
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread watcher_;
};

}  // namespace graft
