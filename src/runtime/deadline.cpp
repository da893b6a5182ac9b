// SPDX-License-Identifier: Apache-2.0
#include "runtime/deadline.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/error.h"

namespace graft {

Deadline::Deadline(double seconds, std::function<void()> late) {
  constexpr double kLongest = 1e9;  // thirty years; the clock counts nanoseconds in 63 bits
  const std::chrono::duration<double> most(std::min(seconds, kLongest));
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(most);
  try {
    watcher_ = std::thread([this, end, late = std::move(late)] {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_until(lock, end, [this] { return over_; })) late();
    });
  } catch (const std::system_error&) {
    throw Error(ErrorKind::kDevice,
                "the system gives no thread to watch the deadline; raise its limit, or run without a deadline", "run");
  }
}

Deadline::~Deadline() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  watcher_.join();
}

}  // namespace graft
