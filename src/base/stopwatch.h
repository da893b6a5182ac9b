// SPDX-License-Identifier: Apache-2.0
// Time that has passed.
#pragma once

#include <chrono>

namespace graft {

/// Starts when it is made.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace graft
