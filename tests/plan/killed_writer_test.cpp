// SPDX-License-Identifier: Apache-2.0
// Processes that are killed while they save a plan or fill the cache leave every file whole.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "plan/sample_plan.h"
#include "plan/temporary_directory.h"
#include "runtime/kernel_cache.h"

namespace graft {
namespace {

/// How long a process lives at most, in microseconds: 20 ms, and longer where `rounds` have written nothing, as on a
/// machine whose processors are busy.
int64_t longest_life(int rounds, int written) {
  return int64_t{20'000} << (written > 0 ? 0 : std::min(rounds / 10, 7));
}

/// Runs `work` in a process of its own and kills it at a random moment of its life.
template <class Work>
void run_and_kill(Random& random, int64_t longest, const Work& work) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    work();
    ::_exit(0);
  }
  ::usleep(static_cast<useconds_t>(random.integer(0, longest)));
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
}

TEST(KilledWriter, a_plan_is_the_old_or_the_new_one) {
  const TemporaryDirectory folder;
  const std::string path = folder / "model.graft";
  const PlanFile small = sample_plan(64), large = sample_plan(20'000);
  save_plan(small, path);
  Random random(3);
  int replaced = 0;
  for (int round = 0; round < 100; ++round) {
    run_and_kill(random, longest_life(round, replaced), [&] {
      for (;;) {
        save_plan(large, path);
        save_plan(small, path);
      }
    });
    const Plan plan = open_plan(path);
    const int64_t columns = plan.graph.value(plan.graph.find_value("b1")).constant->element_count();
    ASSERT_TRUE(columns == 64 || columns == 20'000) << columns;
    replaced += columns == 20'000;
  }
  EXPECT_GT(replaced, 0);
}

TEST(KilledWriter, a_cache_entry_is_whole_or_not_there) {
  const TemporaryDirectory folder;
  const std::vector<std::byte> code(200'000, std::byte{0x5a});
  Random random(4);
  int found = 0;
  for (int round = 0; round < 100; ++round) {
    const std::string key = "key" + std::to_string(round);
    run_and_kill(random, longest_life(round, found), [&] {
      KernelCache cache(folder.path());
      for (;;) cache.store(key, code);
    });
    std::vector<std::string> damaged;
    set_log_level(LogLevel::kReason);
    set_log_callback([&](LogLevel, std::string_view text) { damaged.emplace_back(text); });
    const auto stored = KernelCache(folder.path()).find(key);
    set_log_callback({});
    ASSERT_TRUE(damaged.empty()) << damaged[0];
    if (stored) {
      ASSERT_EQ(*stored, code);
      ++found;
    }
  }
  EXPECT_GT(found, 0);
  KernelCache cache(folder.path());
  cache.clear();
  EXPECT_EQ(folder.file_count(), 0u) << "what killed processes left is cleared too";
}

}  // namespace
}  // namespace graft
