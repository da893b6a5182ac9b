// SPDX-License-Identifier: Apache-2.0
// Units that split operands of f32: where schedules name them, and what leaves them out.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "driver/stages.h"
#include "fuse/rewrite_region.h"
#include "graph/infer.h"
#include "strategy/choose_schedule.h"

namespace graft {
namespace {

/// The schedules of a product of 4096 rows and 768 weights a row.
std::vector<Choice> schedules_of(const char* type, const char* target, const char* units = "any", int k = 768) {
  Graph graph = parse_graph(fmt::format(R"(graph "main" {{
  opset "" 28
  input %x: {0}[4096, {1}]
  constant %w: {0}[{1}, 768] = all 0.25
  %y: ? = MatMul "product" (%x, %w)
  output %y
}})",
                                        type, k));
  infer_types(graph);
  CompileOptions options;
  set_option(options, {"fp32-units", units});
  const Target machine = find_target(target, 2);
  const FusedProgram program = fuse_for(machine, graph, options, nullptr);
  EXPECT_EQ(program.steps.size(), 1u);
  EXPECT_EQ(program.steps[0].region.fma, !options.splits_operands);
  Region region = program.steps[0].region;
  normalise(region);
  std::vector<bool> constant(region.tensors.size());
  constant[static_cast<size_t>(region.inputs[1])] = true;
  return schedule_candidates(region, constant, {}, machine);
}

std::string unit_of(const std::vector<Choice>& choices) {
  if (choices.empty()) return "no schedule";
  const ContractUnit* unit = choices[0].schedule.unit;
  return unit ? std::string(unit->name) : "";
}

bool any_splits(const std::vector<Choice>& choices) {
  return std::any_of(choices.begin(), choices.end(), [](const Choice& choice) { return choice.schedule.unit; });
}

TEST(SplitProducts, are_what_the_cost_model_favours_for_large_products_of_f32) {
  EXPECT_EQ(unit_of(schedules_of("f32", "sm_90a")), "wgmma_tf32x3");
  EXPECT_EQ(unit_of(schedules_of("f32", "sm_80")), "mma_tf32x3");
}

TEST(SplitProducts, are_not_considered_where_they_gain_nothing) {
  EXPECT_FALSE(any_splits(schedules_of("f32", "sm_86"))) << "its tensor cores are slower than six times FMA";
  EXPECT_FALSE(any_splits(schedules_of("f32", "sm_100"))) << "without wgmma its tensor cores are half as fast";
  EXPECT_FALSE(any_splits(schedules_of("f32", "sm_90a", "any", 32))) << "sums are short";
  EXPECT_FALSE(any_splits(schedules_of("f16", "sm_90a")));
  EXPECT_FALSE(any_splits(schedules_of("f64", "sm_90a")));
}

TEST(SplitProducts, can_be_disabled) {
  EXPECT_FALSE(any_splits(schedules_of("f32", "sm_90a", "fma")));
  EXPECT_FALSE(any_splits(schedules_of("f32", "sm_80", "fma")));
}

TEST(SplitProducts, a_region_that_keeps_multiply_adds_says_so) {
  const Region region = parse_region(R"(region r fma
tensor x: f32[4]
tensor y: f32[4]
input x
output y
compute y over [i0 < 4] {
  value x[i0]
}
)");
  EXPECT_TRUE(region.fma);
  EXPECT_TRUE(parse_region(print(region)).fma);
  EXPECT_FALSE(region.tf32);
}

}  // namespace
}  // namespace graft
