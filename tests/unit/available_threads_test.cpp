// SPDX-License-Identifier: Apache-2.0
// How many threads a process can use, by its affinity mask and by the quotas of its control groups.
#include "base/available_threads.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sched.h>

#include "plan/temporary_directory.h"

namespace graft {
namespace {

/// A file system with some files of /proc and /sys.
class Root {
 public:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file(folder_ / path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::optional<int> threads() const { return threads_by_quota(folder_.path()); }

 private:
  TemporaryDirectory folder_;
};

TEST(AvailableThreads, the_least_quota_of_version_2_counts_rounded_up) {
  Root root;
  EXPECT_EQ(root.threads(), std::nullopt);
  root.write("proc/self/cgroup", "0::/user.slice/work\n");
  EXPECT_EQ(root.threads(), std::nullopt);
  root.write("sys/fs/cgroup/user.slice/work/cpu.max", "max 100000\n");
  EXPECT_EQ(root.threads(), std::nullopt);
  root.write("sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n");
  EXPECT_EQ(root.threads(), 3);
  root.write("sys/fs/cgroup/user.slice/work/cpu.max", "50000 100000\n");
  EXPECT_EQ(root.threads(), 1);
}

TEST(AvailableThreads, a_container_sees_its_group_as_the_topmost) {
  Root root;
  root.write("proc/self/cgroup", "0::/docker/0123\n");
  root.write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(root.threads(), 4);
}

TEST(AvailableThreads, quotas_of_version_1_are_of_the_processor_controller) {
  Root root;
  root.write("proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/batch/one\n1:cpuset:/\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/batch/one/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/batch/one/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(root.threads(), std::nullopt);
  root.write("sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us", "150000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(root.threads(), 3);
}

TEST(AvailableThreads, damaged_files_are_no_limit) {
  Root root;
  root.write("proc/self/cgroup", "0::/a\nnonsense\n4:cpu\n");
  for (const char* text : {"", "100000", "x 100000", "100000 0", "-5 100000"}) {
    root.write("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(root.threads(), std::nullopt) << text;
  }
}

TEST(AvailableThreads, the_affinity_mask_counts) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(threads_by_affinity(), CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int processor = 0; processor < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++processor) {
    if (CPU_ISSET(processor, &before)) CPU_SET(processor, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const int threads = available_threads();
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(threads, 1);
}

}  // namespace
}  // namespace graft
