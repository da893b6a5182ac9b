// SPDX-License-Identifier: Apache-2.0
#include "strategy/region_work.h"

#include <gtest/gtest.h>

#include "plan/estimate_ways.h"

namespace graft {
namespace {

/// Sums of 3x3 windows over an image whose elements are squashed as they are read, or before.
Region window_of_squashed(bool before) {
  const std::string read = before ? "s[add(i0, k0), add(i1, k1)]" : "exp(x[add(i0, k0), add(i1, k1)])";
  std::string text = "region r\ntensor x: f32[66, 66]\ntensor y: f32[64, 64]\n";
  if (before) text += "tensor s: f32[66, 66]\n";
  text += "input x\noutput y\n";
  if (before) text += "compute s over [i0 < 66, i1 < 66] {\n  value exp(x[i0, i1])\n}\n";
  text += "reduce y over [i0 < 64, i1 < 64] fold [k0 < 3, k1 < 3] {\n  left l0: f32\n  right r0: f32\n  lift ";
  text += read + "\n  identity 0:f32\n  combine add(l0, r0)\n}\n";
  return parse_region(text);
}

Region product(int64_t rows) {
  const std::string m = std::to_string(rows);
  return parse_region("region r\ntensor a: f32[" + m + ", 64]\ntensor b: f32[64, 256]\n"
                      "tensor c: f32[" + m + ", 256]\ninput a\ninput b\noutput c\nreduce c over [i0 < " + m +
                      ", i1 < 256] fold [k0 < 64] {\n  left l0: f32\n  right r0: f32\n"
                      "  lift mul(a[i0, k0], b[k0, i1])\n  identity 0:f32\n  combine add(l0, r0)\n}\n");
}

TEST(RegionWork, counts_a_value_that_a_window_reads_often_once_at_least) {
  const RegionWork inside = least_work(window_of_squashed(false), {});
  const RegionWork before = least_work(window_of_squashed(true), {});
  EXPECT_EQ(inside.elements, before.elements);
  EXPECT_EQ(inside.elements, 20 * 66 * 66 + 9 * 64 * 64);
  EXPECT_EQ(inside.bytes, 4 * (66 * 66 + 64 * 64));
}

TEST(RegionWork, counts_it_at_every_tap_as_it_is_spelled) {
  EXPECT_EQ(spelled_work(window_of_squashed(false), {}).elements, (20 + 1) * 9 * 64 * 64);
  EXPECT_EQ(spelled_work(window_of_squashed(true), {}).elements, 20 * 66 * 66 + 9 * 64 * 64);
}

TEST(RegionWork, tells_products_of_matrices_from_other_sums) {
  const RegionWork work = least_work(product(128), {});
  EXPECT_EQ(work.products, 2.0 * 128 * 256 * 64);
  EXPECT_EQ(work.elements, 0);
  EXPECT_EQ(least_work(window_of_squashed(true), {}).products, 0);
}

TEST(RegionWork, counts_only_what_is_read_of_an_input) {
  const Region gathered = parse_region(
      "region r\ntensor x: f32[10000, 16]\ntensor y: f32[4, 16]\ninput x\noutput y\n"
      "compute y over [i0 < 4, i1 < 16] {\n  value x[mul(i0, 7), i1]\n}\n");
  EXPECT_EQ(least_work(gathered, {}).bytes, 4 * (22 * 16 < 64 ? 22 * 16 : 64) + 4 * 64);
}

TEST(EstimateWays, a_window_that_computes_what_it_reads_is_slower_than_one_that_does_not) {
  const Way nest{.name = "generated nest", .schedule = "nest chunk=4096 lanes=64"};
  for (const char* target : {"x86-64-v3", "x86-64-v4"}) {
    const Target machine = find_target(target, 2);
    EXPECT_GT(estimated_seconds(window_of_squashed(false), nest, {}, machine),
              2 * estimated_seconds(window_of_squashed(true), nest, {}, machine));
  }
}

TEST(EstimateWays, a_product_in_a_nest_is_far_from_the_peak_and_in_a_micro_kernel_near) {
  const Target machine = find_target("x86-64-v4", 2);
  const double least = least_seconds(product(1400), Bindings(), machine);
  const Way nest{.name = "generated nest", .schedule = "nest chunk=4096 lanes=64"};
  const Way contract{.name = "generated contract",
                     .schedule = "contract m=56 n=64 k=0 m_chunk=0 panel=32 columns_outer=1"};
  EXPECT_GT(least / estimated_seconds(product(1400), contract, {}, machine), 0.4);
  EXPECT_LT(least / estimated_seconds(product(1400), nest, {}, machine), 0.2);
}

TEST(EstimateWays, tiles_of_a_gpu_that_few_rows_fill_are_computed_all_the_same) {
  const Target machine = find_target("sm_90a");
  const Way way{.name = "generated product",
                .schedule = "product m=64 n=64 k=16 threads=128 stages=4 panel=0 producers=0 teams=1 group=1 split=1"};
  const double few = estimated_seconds(product(7), way, {}, machine);
  EXPECT_NEAR(few, estimated_seconds(product(64), way, {}, machine), 0.5 * few);
}

}  // namespace
}  // namespace graft
