// SPDX-License-Identifier: Apache-2.0
#include "device/activity.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(DeviceActivity, pauses_are_where_nothing_runs) {
  const DeviceActivity activities[] = {{"a", 10, 14}, {"b", 12, 13}, {"c", 15, 20}, {"d", 23, 24}, {"e", 24, 25}};
  const ActivitySummary summary = summarize(activities);
  EXPECT_DOUBLE_EQ(summary.whole_us, 15);
  EXPECT_DOUBLE_EQ(summary.idle_us, 4);  // 14 to 15 and 20 to 23; b lies inside of a
  EXPECT_DOUBLE_EQ(summary.longest_idle_us, 3);
  EXPECT_EQ(summary.after_longest, "d");
}

TEST(DeviceActivity, nothing_takes_no_time) {
  const ActivitySummary summary = summarize({});
  EXPECT_EQ(summary.whole_us, 0);
  EXPECT_EQ(summary.idle_us, 0);
  EXPECT_EQ(summary.after_longest, "");
}

}  // namespace
}  // namespace graft
