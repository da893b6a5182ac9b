// SPDX-License-Identifier: Apache-2.0
#include "engine/memory_plan.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"

namespace graft {
namespace {

/// The most bytes that live at one step: no plan can be smaller.
int64_t lower_bound(const std::vector<Lifetime>& lifetimes) {
  int64_t most = 0;
  for (const Lifetime& at : lifetimes) {
    int64_t live = 0;
    for (const Lifetime& other : lifetimes) {
      const bool together = other.first_step <= at.first_step && at.first_step <= other.last_step;
      if (together) live += (other.bytes + 63) / 64 * 64;
    }
    most = std::max(most, live);
  }
  return most;
}

TEST(MemoryPlan, random_lifetimes_never_overlap) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> lifetimes(static_cast<size_t>(random.integer(0, 60)));
    for (Lifetime& lifetime : lifetimes) {
      lifetime.bytes = random.chance(0.1) ? 0 : random.integer(1, 5000);
      lifetime.first_step = static_cast<int>(random.integer(0, 30));
      lifetime.last_step = lifetime.first_step + static_cast<int>(random.integer(0, 8));
    }
    const MemoryPlan plan = plan_memory(lifetimes);
    ASSERT_TRUE(is_sound(plan, lifetimes)) << "round " << round;
    ASSERT_GE(plan.bytes, lower_bound(lifetimes));
    ASSERT_LE(plan.bytes, 2 * lower_bound(lifetimes)) << "round " << round;
  }
}

TEST(MemoryPlan, a_chain_takes_its_two_largest_neighbours) {
  Random random(2);
  for (int round = 0; round < 100; ++round) {
    std::vector<Lifetime> chain;
    const auto steps = static_cast<int>(random.integer(2, 40));
    for (int s = 0; s < steps; ++s) chain.push_back({random.integer(1, 10'000), s, s + 1});
    const MemoryPlan plan = plan_memory(chain);
    ASSERT_TRUE(is_sound(plan, chain));
    ASSERT_LE(static_cast<double>(plan.bytes), 1.1 * static_cast<double>(lower_bound(chain))) << "round " << round;
  }
}

TEST(MemoryPlan, tensors_of_equal_size_in_a_chain_take_two_places) {
  std::vector<Lifetime> chain;
  for (int s = 0; s < 10; ++s) chain.push_back({640, s, s + 1});
  EXPECT_EQ(plan_memory(chain).bytes, 2 * 640);
}

TEST(MemoryPlan, an_unsound_plan_is_seen) {
  const std::vector<Lifetime> lifetimes = {{100, 0, 2}, {100, 1, 3}, {100, 3, 4}};
  EXPECT_TRUE(is_sound({{0, 128, 0}, 256}, lifetimes));
  EXPECT_FALSE(is_sound({{0, 64, 0}, 256}, lifetimes)) << "0 and 1 overlap in steps 1 and 2";
  EXPECT_FALSE(is_sound({{0, 128, 128}, 256}, lifetimes)) << "1 and 2 overlap in step 3";
  EXPECT_FALSE(is_sound({{0, 128, 0}, 200}, lifetimes)) << "beyond the arena";
  EXPECT_FALSE(is_sound({{0, 100, 0}, 256}, lifetimes)) << "not aligned";
  EXPECT_FALSE(is_sound({{0, 128}, 256}, lifetimes)) << "a tensor without a place";
}

TEST(MemoryPlan, sizes_that_no_machine_has_are_an_error) {
  EXPECT_THROW(plan_memory(std::vector<Lifetime>{{INT64_MAX, 0, 1}, {INT64_MAX, 0, 1}}), Error);
  EXPECT_THROW(plan_memory(std::vector<Lifetime>{{-64, 0, 1}}), Error);
}

}  // namespace
}  // namespace graft
