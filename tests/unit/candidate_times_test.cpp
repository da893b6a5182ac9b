// SPDX-License-Identifier: Apache-2.0
// When the tuner gives a candidate up.
#include "plan/candidate_times.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(CandidateTimes, one_disturbed_run_gives_no_candidate_up) {
  EXPECT_FALSE((CandidateTimes{{2532}}).is_too_slow(1));
  EXPECT_FALSE((CandidateTimes{{2532, 1.1}}).is_too_slow(1));
  EXPECT_DOUBLE_EQ((CandidateTimes{{2532, 1.1}}).median(), 1.1);
}

TEST(CandidateTimes, a_second_slow_run_gives_it_up) {
  EXPECT_TRUE((CandidateTimes{{3, 2.6}}).is_too_slow(1));
  EXPECT_FALSE((CandidateTimes{{3, 2.4}}).is_too_slow(1));
  EXPECT_FALSE((CandidateTimes{{3, 3}}).is_too_slow(0)) << "there is nothing to compare it with";
}

TEST(CandidateTimes, after_some_rounds_the_median_decides) {
  EXPECT_TRUE((CandidateTimes{{1.4, 1.4, 1.4, 1, 1.4}}).is_too_slow(1));
  EXPECT_FALSE((CandidateTimes{{9, 1.2, 1.2, 9, 1.2}}).is_too_slow(1));
}

TEST(CandidateTimes, times_that_vary_are_seen) {
  EXPECT_TRUE((CandidateTimes{{1, 1.3, 1.4, 5, 1}}).was_disturbed());
  EXPECT_FALSE((CandidateTimes{{1, 1.1, 1.2, 5, 1}}).was_disturbed());
  EXPECT_FALSE((CandidateTimes{{1, 9}}).was_disturbed()) << "too few runs to say";
  EXPECT_EQ(CandidateTimes{}.median(), 0);
}

}  // namespace
}  // namespace graft
