// SPDX-License-Identifier: Apache-2.0
#include "plan/tuning_budget.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include <pthread.h>

namespace graft {
namespace {

/// On a machine that is so loaded that a thread gets less than this share of a processor, tuning ends early.
constexpr double kLeastShare = 0.2;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

TuningClock clock_of_this_thread() {
  clockid_t clock = 0;
  if (pthread_getcpuclockid(pthread_self(), &clock) != 0) return {wall_seconds, wall_seconds};
  const auto processor = [clock] {
    timespec time = {};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  return {processor, wall_seconds};
}

TuningBudget::TuningBudget(TuningClock clock)
    : clock_(std::move(clock)), processor_begin_(clock_.processor()), wall_begin_(clock_.wall()) {}

double TuningBudget::spent_seconds() const {
  const double wall = clock_.wall() - wall_begin_;
  if (counts_wall_) return before_ + wall;
  return before_ + std::max(clock_.processor() - processor_begin_, kLeastShare * wall);
}

void TuningBudget::count_wall() {
  before_ = spent_seconds();
  wall_begin_ = clock_.wall();
  counts_wall_ = true;
}

}  // namespace graft
