// SPDX-License-Identifier: Apache-2.0
// How long the tuner has been at work.
#pragma once

#include "plan/build_options.h"

namespace graft {

/// The clock of the calling thread, for any thread to read.
TuningClock clock_of_this_thread();

/// Counts processor time of the thread that tunes, which takes part in everything, so that other work on the machine
/// does not change what is measured; but no less than a part of the wall's time, so that it ends. Safe from any thread.
class TuningBudget {
 public:
  explicit TuningBudget(TuningClock clock);

  double spent_seconds() const;
  /// From now on the wall's time counts: that of a device, which the thread only waits for.
  void count_wall();

 private:
  TuningClock clock_;
  double processor_begin_, wall_begin_;
  double before_ = 0;
  bool counts_wall_ = false;
};

}  // namespace graft
