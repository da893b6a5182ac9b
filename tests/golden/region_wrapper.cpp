// SPDX-License-Identifier: Apache-2.0
// The wrapper that runs the rewrites of regions.
#include <gtest/gtest.h>

#include "base/error.h"
#include "fuse/rewrite_region.h"

namespace graft {
namespace {

constexpr const char* kText = R"(region chain
tensor x: f32[2, 4]
tensor t: f32[2, 4]
tensor y: f32[2, 4]
input x
output y
compute t over [i0 < 2, i1 < 4] {
  value exp(x[i0, i1])
}
compute y over [i0 < 2, i1 < 4] {
  value add(t[i0, i1], 1:f32)
}
)";

Environment environment_with(Variable variable, const std::string& value) {
  std::vector<std::string> values;
  for (const VariableInfo& row : all_variables()) {
    values.emplace_back(row.variable == variable ? value : row.default_value);
  }
  return parse_environment(values);
}

/// Forgets an axis, as a rewrite with a bug would.
void break_region(Region& region) { axes_of(region.forms[0]).pop_back(); }

TEST(RegionWrapper, counts_forms_and_says_what_changed) {
  Region region = parse_region(kText);
  const Environment plain;
  std::vector<RewriteStatistics> statistics;
  normalise(region, {.statistics = &statistics, .environment = &plain});
  ASSERT_EQ(statistics.size(), region_rewrites().size());
  EXPECT_EQ(region.forms.size(), 1u);
  for (const RewriteStatistics& entry : statistics) {
    const bool changes =
        entry.rewrite == "inline_computes" || entry.rewrite == "remove_dead_forms" || entry.rewrite == "collapse_axes";
    EXPECT_EQ(entry.changed, changes) << entry.rewrite;
    EXPECT_EQ(entry.forms_after, entry.rewrite == "inline_computes" ? 2u : 1u) << entry.rewrite;
  }
}

TEST(RegionWrapper, leaves_out_what_the_environment_or_the_caller_disables) {
  const Environment plain, environment = environment_with(Variable::kDisable, "collapse_axes");
  const std::vector<std::string> disabled = {"collapse_axes"};
  for (const RewriteContext& context :
       {RewriteContext{.environment = &environment}, RewriteContext{.disabled = disabled, .environment = &plain}}) {
    Region region = parse_region(kText);
    normalise(region, context);
    EXPECT_EQ(axes_of(region.forms[0]).size(), 2u);
  }
}

TEST(RegionWrapper, names_the_rewrite_that_breaks_the_region_when_validating) {
  const Environment environment = environment_with(Variable::kValidate, "1");
  Region region = parse_region(kText);
  try {
    run_rewrite(region, {"break_region", break_region, ""}, {.environment = &environment});
    FAIL() << "the fault was not found";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_NE(std::string(error.what()).find("break_region"), std::string::npos) << error.what();
  }
}

TEST(RegionWrapper, has_one_purpose_per_row) {
  for (const RegionRewrite& rewrite : region_rewrites()) {
    EXPECT_FALSE(rewrite.purpose.empty()) << rewrite.name;
    EXPECT_EQ(find_region_rewrite(rewrite.name)->function, rewrite.function);
  }
  EXPECT_EQ(find_region_rewrite("no_such_rewrite"), nullptr);
}

}  // namespace
}  // namespace graft
