// SPDX-License-Identifier: Apache-2.0
#include "base/thread_team.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace graft {
namespace {

/// Sums 0 .. count-1 on `threads` threads; every index must be visited exactly once.
int64_t parallel_sum(int threads, int64_t count) {
  std::atomic<int64_t> sum{0};
  const auto piece = [&](int64_t begin, int64_t end, int) {
    int64_t part = 0;
    for (int64_t i = begin; i < end; ++i) part += i;
    sum += part;
  };
  parallel_for(threads, count, piece);
  return sum;
}

TEST(ThreadTeam, visits_every_index_once) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const int64_t count : {0, 1, 2, 7, 1000, 100000}) {
      EXPECT_EQ(parallel_sum(threads, count), count * (count - 1) / 2) << threads << " threads, " << count;
    }
  }
}

TEST(ThreadTeam, divides_loops_that_are_longer_than_a_share_counts) {
  const int64_t count = (int64_t{1} << 34) + 3;
  std::atomic<int64_t> covered{0}, last{0};
  const auto piece = [&](int64_t begin, int64_t end, int) {
    covered += end - begin;
    if (end == count) last += 1;
  };
  parallel_for(3, count, piece);
  EXPECT_EQ(covered, count);
  EXPECT_EQ(last, 1);
}

TEST(ThreadTeam, begins_with_the_same_part_in_each_thread) {
  const int64_t count = 1000;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::atomic<int64_t>> first(2);
    for (auto& each : first) each = -1;
    const auto piece = [&](int64_t begin, int64_t, int thread) {
      int64_t none = -1;
      first[static_cast<size_t>(thread)].compare_exchange_strong(none, begin);
      const auto start = std::chrono::steady_clock::now();
      while ((first[0] < 0 || first[1] < 0) && std::chrono::steady_clock::now() - start < std::chrono::seconds(10)) {
        std::this_thread::yield();
      }
    };
    parallel_for(2, count, piece);
    EXPECT_EQ(first[0], 0);
    EXPECT_EQ(first[1], 500);
  }
}

TEST(ThreadTeam, gives_each_piece_a_thread_number_below_the_team_size) {
  std::atomic<bool> good{true};
  const auto piece = [&](int64_t, int64_t, int thread) { good = good && thread >= 0 && thread < 3; };
  for (int i = 0; i < 200; ++i) parallel_for(3, 64, piece);
  EXPECT_TRUE(good);
}

TEST(ThreadTeam, runs_a_loop_inside_a_loop_inline) {
  std::atomic<int64_t> sum{0};
  const auto outer = [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) sum += parallel_sum(2, 100);
  };
  parallel_for(2, 10, outer);
  EXPECT_EQ(sum, 10 * 4950);
}

TEST(ThreadTeam, keeps_a_thread_that_it_wakes_off_the_processor_of_the_caller) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "there is one processor";
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &before)) continue;
    parallel_sum(2, 100);  // the worker exists, with a mask of its own
    cpu_set_t here, seen;
    CPU_ZERO(&here);
    CPU_ZERO(&seen);
    CPU_SET(processor, &here);
    ASSERT_EQ(sched_setaffinity(0, sizeof here, &here), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it falls asleep
    std::atomic<bool> came{false};
    const auto piece = [&](int64_t, int64_t, int thread) {
      const auto start = std::chrono::steady_clock::now();
      if (thread == 1) came = sched_getaffinity(0, sizeof seen, &seen) == 0;
      while (!came && std::chrono::steady_clock::now() - start < std::chrono::seconds(10)) continue;
    };
    parallel_for(2, 2, piece);
    ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
    ASSERT_TRUE(came) << "from processor " << processor;
    EXPECT_FALSE(CPU_ISSET(processor, &seen)) << "from processor " << processor;
    EXPECT_GT(CPU_COUNT(&seen), 0);
  }
}

TEST(ThreadTeam, serves_several_callers_at_once) {
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int c = 0; c < 6; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 300; ++i) wrong += parallel_sum(2, 1000) != 499500;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadTeam, wakes_threads_that_went_to_sleep) {
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(parallel_sum(2, 1000), 499500);
  }
}

TEST(ThreadTeam, works_in_a_child_after_fork) {
  parallel_sum(2, 1000);
  const pid_t child = fork();
  if (child == 0) _exit(parallel_sum(2, 1000) == 499500 ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace graft
