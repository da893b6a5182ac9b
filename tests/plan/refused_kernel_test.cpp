// SPDX-License-Identifier: Apache-2.0
// A kernel that the code generator refuses costs a way, not the region.
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "fuse/fused_program.h"
#include "graph/infer.h"
#include "plan/build_engine.h"
#include "support/library_graphs.h"

namespace graft {
namespace {

BuiltEngine build(const std::string& text, const BuildOptions& options) {
  Graph graph = parse_graph(text);
  infer_types(graph);
  return build_engine(fuse(graph), options);
}

/// A code generator that refuses the first kernels that it sees, each time that it sees them.
CompileKernels refusing(size_t count, std::set<std::string>& refused) {
  return [count, &refused](const std::string& programs, const Target&) {
    const std::string text = programs.substr(0, programs.find_last_not_of('\n') + 1);  // alone and in a unit
    if (refused.contains(text) || refused.size() < count) {
      refused.insert(text);
      throw Error(ErrorKind::kDevice, "too many registers", "code generator");
    }
    return std::vector<std::byte>(1);
  };
}

TEST(RefusedKernels, the_next_schedule_takes_their_place) {
  for (const char* target : {"x86-64-v4", "x86-64-v3", "sm_90a", "sm_80"}) {
    std::set<std::string> refused;
    BuildOptions options{.target = find_target(target, 1)};
    options.compile_kernels = refusing(2, refused);
    const BuiltEngine built = build(product_graph("96", 64, 48, {}, {"%y: ? = Relu \"r\" (%p)"}), options);
    ASSERT_EQ(built.engine.steps.size(), 1u) << target;
    const EngineStep& step = built.engine.steps[0];
    EXPECT_EQ(step.kind, StepKind::kKernel) << target;
    EXPECT_GE(built.engine.kernels[static_cast<size_t>(step.kernel)].object, 0) << target;
    ASSERT_GE(step.candidates.size(), 2u) << target;
    const RegionChoice& choice = built.record.regions.begin()->second;
    EXPECT_EQ(choice.way, "generated " + step.schedule) << target;
    for (const Candidate& lost : choice.lost) {
      EXPECT_NE(lost.name, choice.way) << target;
      if (lost.name.starts_with("generated")) EXPECT_EQ(lost.reason, "too many registers") << target;
    }
  }
}

TEST(RefusedKernels, equal_steps_change_together) {
  std::set<std::string> refused;
  BuildOptions options{.target = find_target("sm_90a")};
  options.compile_kernels = refusing(3, refused);  // the unit of all kernels, then two of one kernel
  const std::string twice = R"(graph "main" {
  opset "" 28
  input %x: f32[64, 64]
  input %w: f32[64, 64]
  input %v: f32[64, 64]
  %p: ? = MatMul "first" (%x, %w)
  %q: ? = Softmax "between" (%p) {axis = 0}
  %y: ? = MatMul "second" (%q, %v)
  output %y
})";
  const BuiltEngine built = build(twice, options);
  ASSERT_EQ(built.engine.steps.size(), 3u);
  for (const EngineStep& step : built.engine.steps) {
    EXPECT_EQ(step.kind, StepKind::kKernel) << step.name;
    EXPECT_GE(built.engine.kernels[static_cast<size_t>(step.kernel)].object, 0) << step.name;
  }
  EXPECT_EQ(built.engine.steps[0].schedule, built.engine.steps[2].schedule);
  EXPECT_FALSE(built.engine.steps[0].candidates.empty() && built.engine.steps[1].candidates.empty());
}

TEST(RefusedKernels, one_that_a_library_needs_for_dynamic_sizes_costs_its_way) {
  std::set<std::string> refused;
  BuildOptions options{.target = find_target("sm_90a")};
  options.libraries.source = [](const Engine&, const EngineStep&, const Bindings&,
                                const LibraryPlace&) -> std::shared_ptr<const ReadyLibraryCall> { return nullptr; };
  options.libraries.why_not = [](const std::string&) { return std::string(); };
  options.libraries.refuses = [](const LibrarySchedule&, const LibraryCall&) { return std::string(); };
  options.compile_kernels = refusing(1, refused);
  const BuiltEngine built = build(product_graph("length", 4096, 2048, {}, {}, "f16"), options);
  const EngineStep& step = built.engine.steps[0];
  ASSERT_GE(step.kernel, 0);
  EXPECT_GE(built.engine.kernels[static_cast<size_t>(step.kernel)].object, 0) << step.schedule;
}

TEST(RefusedKernels, a_region_of_which_every_kernel_is_refused_is_interpreted) {
  BuildOptions options{.target = host_cpu(1)};
  int asked = 0;
  options.compile_kernels = [&asked](const std::string&, const Target&) -> std::vector<std::byte> {
    ++asked;
    throw Error(ErrorKind::kDevice, "none at all", "code generator");
  };
  const BuiltEngine built = build(product_graph("96", 64, 48, {}, {}), options);
  EXPECT_EQ(built.engine.steps[0].kind, StepKind::kInterpreter);
  EXPECT_EQ(built.record.regions.begin()->second.way, "interpreter");
  EXPECT_LE(asked, 40);
  EXPECT_EQ(built.engine.steps[0].candidates.back().reason, "none at all");
}

TEST(RefusedKernels, a_candidate_that_is_measured_keeps_its_way) {
  std::set<std::string> refused;
  BuildOptions options{.target = host_cpu(1)};
  options.compile_kernels = refusing(1, refused);
  Graph graph = parse_graph(product_graph("96", 64, 48, {}, {}));
  infer_types(graph);
  const BuiltEngine built = build_candidate(fuse(graph), options);
  EXPECT_EQ(built.engine.steps[0].kind, StepKind::kInterpreter);
  EXPECT_EQ(built.engine.steps[0].candidates.back().reason, "too many registers");
}

}  // namespace
}  // namespace graft
