// SPDX-License-Identifier: Apache-2.0
// What the tuner counts as spent, by clocks of the test's own.
#include "plan/tuning_budget.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

struct Clocks {
  double processor = 100, wall = 1000;
  TuningClock of() const {
    return {[this] { return processor; }, [this] { return wall; }};
  }
};

TEST(TuningBudget, other_work_on_the_machine_costs_nothing) {
  Clocks clocks;
  const TuningBudget budget(clocks.of());
  EXPECT_EQ(budget.spent_seconds(), 0);
  clocks.processor += 2, clocks.wall += 2;
  EXPECT_DOUBLE_EQ(budget.spent_seconds(), 2);
  clocks.wall += 6;  // others had the processor
  EXPECT_DOUBLE_EQ(budget.spent_seconds(), 2);
}

TEST(TuningBudget, waiting_ends_it_all_the_same) {
  Clocks clocks;
  const TuningBudget budget(clocks.of());
  clocks.processor += 1, clocks.wall += 50;
  EXPECT_DOUBLE_EQ(budget.spent_seconds(), 10);
}

TEST(TuningBudget, the_time_of_a_device_is_the_wall_s) {
  Clocks clocks;
  TuningBudget budget(clocks.of());
  clocks.processor += 1, clocks.wall += 2;
  budget.count_wall();
  EXPECT_DOUBLE_EQ(budget.spent_seconds(), 1);
  clocks.wall += 3;
  EXPECT_DOUBLE_EQ(budget.spent_seconds(), 4);
  budget.count_wall();
  clocks.wall += 1;
  EXPECT_DOUBLE_EQ(budget.spent_seconds(), 5);
}

TEST(TuningBudget, a_thread_that_sleeps_spends_little) {
  const TuningClock clock = clock_of_this_thread();
  const double before = clock.processor(), began = clock.wall();
  while (clock.processor() - before < 0.01) continue;
  EXPECT_GE(clock.wall() - began, 0.009);
}

}  // namespace
}  // namespace graft
