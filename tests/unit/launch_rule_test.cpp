// SPDX-License-Identifier: Apache-2.0
// The lines with which the code generator tells how its kernels are launched.
#include "device/cuda/launch_rule.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace graft {
namespace {

constexpr int kMultiprocessors = 132;

TEST(LaunchRule, a_plain_kernel_needs_threads_and_memory) {
  const auto [name, kernel] = parse_launch_line("k_1 threads 256 shared 1024", kMultiprocessors);
  EXPECT_EQ(name, "k_1");
  EXPECT_EQ(kernel.threads, 256);
  EXPECT_EQ(kernel.shared_bytes, 1024);
  EXPECT_EQ(kernel.rule, nullptr);
}

TEST(LaunchRule, boxes_have_sizes_of_the_run) {
  const auto [name, kernel] = parse_launch_line(
      "k_2 threads 384 shared 131136 persistent 2 buffers 5 sizes 2 tma 1 bytes 2 swizzle 128 axis 8*s0+1 1 64 "
      "axis floor_div(s1,2) 8*s0 128",
      kMultiprocessors);
  ASSERT_NE(kernel.rule, nullptr);
  EXPECT_EQ(kernel.rule->most_blocks, 2 * kMultiprocessors);
  EXPECT_EQ(kernel.rule->cluster, 1);
  ASSERT_EQ(kernel.rule->boxes.size(), 1U);
  const BoxRule& box = kernel.rule->boxes[0];
  const Bindings sizes = {{"s0", 3}, {"s1", 9}};
  EXPECT_EQ(box.buffer, 1);
  EXPECT_EQ(box.axes[0].extent.evaluate(sizes), 25);
  EXPECT_EQ(box.axes[1].extent.evaluate(sizes), 4);
  EXPECT_EQ(box.axes[1].stride.evaluate(sizes), 24);
  EXPECT_EQ(box.axes[1].box, 128);
}

TEST(LaunchRule, a_cluster_has_no_limit_of_blocks) {
  const auto [name, kernel] = parse_launch_line("k_3 threads 256 shared 64 cluster 4", kMultiprocessors);
  ASSERT_NE(kernel.rule, nullptr);
  EXPECT_EQ(kernel.rule->cluster, 4);
  EXPECT_EQ(kernel.rule->most_blocks, 0);
}

TEST(LaunchRule, what_a_launch_before_described_is_not_described_again) {
  const auto rule = [] {
    return parse_launch_line("k_4 threads 128 shared 64 buffers 2 sizes 1 tma 1 bytes 2 swizzle 128 axis s0 1 64 "
                             "axis 8 s0 8", kMultiprocessors).second.rule;
  };
  const auto first = rule(), second = rule();
  // Nothing that is not aligned is described by the driver, so that this needs none.
  void* buffers[] = {reinterpret_cast<void*>(0x1000), reinterpret_cast<void*>(0x2008)};
  int64_t size = 64;
  void* arguments[] = {&buffers[0], &buffers[1], &size};
  LaunchedMaps maps;
  const std::span<TensorMap> known = maps.of(first, arguments);
  ASSERT_EQ(known.size(), 1U);
  buffers[0] = reinterpret_cast<void*>(0x3000);  // no box is of this one
  EXPECT_EQ(maps.of(first, arguments).data(), known.data());
  EXPECT_NE(maps.of(second, arguments).data(), known.data());
  size = 65;
  EXPECT_NE(maps.of(first, arguments).data(), known.data());
  size = 64, buffers[1] = reinterpret_cast<void*>(0x2018);
  EXPECT_NE(maps.of(first, arguments).data(), known.data());
  buffers[1] = reinterpret_cast<void*>(0x2008);
  EXPECT_EQ(maps.of(first, arguments).data(), known.data());
}

TEST(LaunchRule, a_damaged_line_is_refused) {
  for (const char* line :
       {"k threads x shared 1", "k threads 1", "k threads 1 shared 2 tma 0", "k threads 1 shared 2 3",
        "k threads 1 shared 2 buffers 1 sizes 0 tma 1 bytes 2 swizzle 128 axis 4 1 4 axis 4 8 4"}) {
    EXPECT_THROW(parse_launch_line(line, kMultiprocessors), Error) << line;
  }
}

}  // namespace
}  // namespace graft
