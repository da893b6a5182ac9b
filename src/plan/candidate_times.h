// SPDX-License-Identifier: Apache-2.0
// Times of one way of doing a region, as the tuner takes them: other work of the machine makes runs longer, never
// shorter.
#pragma once

#include <cstddef>
#include <vector>

namespace graft {

/// A way that is this much slower than the best is not run again: when two runs say so, as one may have had to wait, or
/// when its median does.
inline constexpr double kFarTooSlow = 2.5, kTooSlow = 1.3;

/// Milliseconds of runs.
struct CandidateTimes {
  std::vector<double> milliseconds;

  /// The lower one of two in the middle; 0 without runs.
  double median() const;
  double fastest() const;
  /// Whether it need not be run again, where the best way so far takes this; 0: there is none yet.
  bool is_too_slow(double best) const;
  /// Whether other work made about half of the runs much longer than the fastest.
  bool was_disturbed() const;
};

/// Runs of each way before its median decides.
inline constexpr size_t kFirstRounds = 5;
/// Where the median is this much above the fastest run, other work disturbed the runs.
inline constexpr double kDisturbed = 1.25;

}  // namespace graft
