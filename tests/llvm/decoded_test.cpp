// SPDX-License-Identifier: Apache-2.0
// Products of weights that are stored as codes, in panels: few rows, many rows, and rows that only a run counts.
#include "llvm/schedule_sample.h"
#include "strategy/choose_schedule.h"
#include "strategy/decode.h"

namespace graft::codegen {
namespace {

/// All inputs but the first of the region are weights.
std::vector<bool> weights_of(const Region& region) {
  std::vector<bool> constant(region.tensors.size());
  for (size_t i = 1; i < region.inputs.size(); ++i) constant[static_cast<size_t>(region.inputs[i])] = true;
  return constant;
}

constexpr tile::DecodeSchedule kSchedules[] = {
    {.rows = 1, .m = 4, .n = 32, .k = 1, .m_chunk = 12},
    {.rows = 3, .m = 6, .n = 16, .k = 3, .m_chunk = 6},
    {.rows = 16, .m = 16, .n = 128, .k = 2, .m_chunk = 16},
};

void check_decoded(const Sample& sample, double tolerance = 2e-5) {
  const std::vector<bool> constant = weights_of(sample.region);
  ASSERT_EQ(tile::why_not_decoded(sample.region, constant), "") << print(sample.region);
  for (const Target& target : runnable_targets()) {
    for (const tile::DecodeSchedule& schedule : kSchedules) {
      if (schedule.n % std::max<int64_t>(1, target.vector_bits / 32) != 0) continue;
      const Choice choice = choice_of(sample.region, constant, schedule);
      check(sample, schedule, target, choice.layouts, tolerance);
    }
    const std::vector<Choice> candidates = schedule_candidates(sample.region, constant, sample.sizes, target);
    ASSERT_TRUE(candidates[0].schedule.is<tile::DecodeSchedule>());
    check(sample, candidates[0].schedule, target, candidates[0].layouts, tolerance);
  }
}

/// A graph of one product, with whatever stands behind it.
std::string product(const std::string& x, const std::string& codes, const std::string& parameters, int bits,
                    const std::string& zeros = "", const std::string& behind = "    output %y\n") {
  const std::string given = zeros.empty() ? "" : "    input %z: " + zeros + "[" + parameters + "]\n";
  return "    input %x: " + x + "\n    input %q: u8[" + codes + "]\n    input %s: f32[" + parameters + "]\n" + given +
         "    %y: ? = graft::PackedMatMul \"product\" (%x, %q, %s" + (zeros.empty() ? "" : ", %z") +
         ") {bits = " + std::to_string(bits) + "}\n" + behind;
}

Sample sample_of(const std::string& lines) { return make_sample("  opset \"graft\" 1\n" + lines); }

TEST(Decoded, products_of_one_row) {
  check_decoded(sample_of(product("f32[96]", "70, 6, 8", "70, 6", 4)));
  check_decoded(sample_of(product("f32[1, 96]", "70, 6, 8", "70, 6", 4, "u8")));
}

TEST(Decoded, products_of_few_and_of_many_rows) {
  for (const char* x : {"f32[2, 64]", "f32[7, 64]", "f32[3, 13, 64]"}) {
    check_decoded(sample_of(product(x, "40, 4, 8", "40, 4", 4, "u8")));
  }
}

TEST(Decoded, codes_of_all_widths_and_zero_points_between_them) {
  check_decoded(sample_of(product("f32[3, 64]", "33, 4, 4", "33, 4", 2)));
  check_decoded(sample_of(product("f32[3, 64]", "33, 4, 16", "33, 4", 8, "u8")), 1e-4);
  check_decoded(sample_of(product("f32[3, 64]", "33, 4, 8", "33, 4", 4, "f32")));
}

TEST(Decoded, a_last_block_that_reaches_beyond_the_sums) {
  check_decoded(sample_of(product("f32[1, 60]", "33, 4, 8", "33, 4", 4)));
  check_decoded(sample_of(product("f32[9, 60]", "33, 4, 8", "33, 4", 4, "u8")));
}

TEST(Decoded, rows_of_f16) { check_decoded(sample_of(product("f16[9, 64]", "33, 4, 8", "33, 4", 4)), 2e-2); }

TEST(Decoded, rows_that_a_run_counts) {
  const std::string lines = product("f32[rows, 64]", "70, 4, 8", "70, 4", 4, "u8", R"(
    input %b: f32[70]
    %sum: ? = Add "bias" (%y, %b)
    %act: ? = Relu "relu" (%sum)
    output %act
)");
  for (const char* range : {"1 1 99", "1 3 99", "1 99 99"}) {
    check_decoded(sample_of(std::string("    range rows ") + range + "\n" + lines));
  }
}

TEST(Decoded, weights_that_are_not_known_are_no_candidates) {
  const Sample sample = sample_of(product("f32[3, 64]", "33, 4, 8", "33, 4", 4));
  const std::vector<bool> none(sample.region.tensors.size());
  EXPECT_EQ(tile::why_not_decoded(sample.region, none), "the right operand is not constant");
  const tile::Lowered lowered =
      tile::lower(sample.region, tile::Layouts(sample.region.tensors.size()), tile::DecodeSchedule{}, host_cpu(1));
  ASSERT_TRUE(std::holds_alternative<std::string>(lowered));
  EXPECT_EQ(std::get<std::string>(lowered), "the right operand does not lie in panels");
}

}  // namespace
}  // namespace graft::codegen
