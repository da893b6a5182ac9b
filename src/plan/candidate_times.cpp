// SPDX-License-Identifier: Apache-2.0
#include "plan/candidate_times.h"

#include <algorithm>

namespace graft {

double CandidateTimes::median() const {
  std::vector<double> sorted = milliseconds;
  std::sort(sorted.begin(), sorted.end());
  return sorted.empty() ? 0 : sorted[(sorted.size() - 1) / 2];
}

double CandidateTimes::fastest() const {
  return milliseconds.empty() ? 0 : *std::min_element(milliseconds.begin(), milliseconds.end());
}

bool CandidateTimes::is_too_slow(double best) const {
  constexpr size_t kRunsOfSlow = 2;
  if (milliseconds.size() < kRunsOfSlow || best == 0) return false;
  return milliseconds.size() < kFirstRounds ? fastest() > kFarTooSlow * best : median() > kTooSlow * best;
}

bool CandidateTimes::was_disturbed() const {
  return milliseconds.size() >= kFirstRounds && median() > kDisturbed * fastest();
}

}  // namespace graft
