// SPDX-License-Identifier: Apache-2.0
// Which way a region is done where nothing was measured, or not all: the best guess over kernels and libraries.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "fuse/fused_program.h"
#include "graph/infer.h"
#include "modules/kernel_source.h"
#include "modules/library_source.h"
#include "plan/build_engine.h"

namespace graft {
namespace {

/// The middle of a network for small devices: pointwise convolutions with depthwise ones between, which are equal but
/// for their names and weights.
constexpr const char* kMobile = R"(graph "mobile" {
  opset "" 20
  input %x: f32[1, 96, 28, 28]
  constant %p0: f32[96, 96, 1, 1] = all 0.01
  constant %d1: f32[96, 1, 3, 3] = all 0.1
  constant %p1: f32[96, 96, 1, 1] = all 0.02
  constant %d2: f32[96, 1, 3, 3] = all 0.2
  constant %p2: f32[96, 96, 1, 1] = all 0.03
  constant %p3: f32[48, 96, 1, 1] = all 0.04
  %a: ? = Conv "widen" (%x, %p0)
  %b: ? = Conv "depthwise1" (%a, %d1) {group = 96, pads = [1, 1, 1, 1]}
  %c: ? = Conv "project1" (%b, %p1)
  %d: ? = Conv "depthwise2" (%c, %d2) {group = 96, pads = [1, 1, 1, 1]}
  %e: ? = Conv "project2" (%d, %p2)
  %f: ? = Conv "narrow" (%e, %p3)
  output %f
})";

class Choices : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& missing : {why_no_generator(options_.target), why_no_library("onednn")}) {
      if (!missing.empty()) GTEST_SKIP() << missing;
    }
    options_.compile_kernels = kernel_code;
    options_.libraries = {library_source(), why_no_library, library_refusal(nullptr)};
    options_.progress = [this](const std::string& step, int, int) {
      if (step.starts_with("measure ")) measured_.push_back(step.substr(std::string("measure ").size()));
    };
  }
  BuiltEngine build(Tuning tuning) {
    Graph graph = parse_graph(kMobile);
    infer_types(graph);
    options_.tuning = tuning;
    measured_.clear();
    return build_engine(fuse(graph), options_);
  }
  static std::map<std::string, std::string> ways(const Record& record) {
    std::map<std::string, std::string> chosen;
    for (const auto& [key, choice] : record.regions) chosen[choice.step] = choice.way;
    return chosen;
  }

  BuildOptions options_{.target = host_cpu(2)};
  std::vector<std::string> measured_;
};

TEST_F(Choices, a_library_is_the_best_guess_where_there_is_no_micro_kernel) {
  const BuiltEngine built = build(Tuning::kOff);
  for (const auto& [step, way] : ways(built.record)) {
    const bool is_depthwise = step.starts_with("depthwise");
    EXPECT_EQ(way.starts_with("onednn "), is_depthwise) << step << ": " << way;
  }
  for (const EngineStep& step : built.engine.steps) {
    if (!step.name.starts_with("depthwise")) continue;
    EXPECT_EQ(step.kind, StepKind::kLibrary) << step.name;
  }
}

TEST_F(Choices, a_depthwise_convolution_is_cut_off_what_the_library_does_not_do_behind_it) {
  Graph graph = parse_graph(R"(graph "gated" {
  opset "" 20
  input %x: f32[1, 96, 28, 28]
  constant %p: f32[96, 96, 1, 1] = all 0.01
  constant %d: f32[96, 1, 3, 3] = all 0.1
  constant %b: f32[96] = all 0.2
  constant %q: f32[96, 96, 1, 1] = all 0.02
  %a: ? = Conv "widen" (%x, %p)
  %c: ? = Conv "depthwise" (%a, %d, %b) {group = 96, pads = [1, 1, 1, 1]}
  %s: ? = Sigmoid "sigmoid" (%c)
  %m: ? = Mul "silu" (%c, %s)
  %y: ? = Conv "narrow" (%m, %q)
  output %y
})");
  infer_types(graph);
  options_.tuning = Tuning::kOff;
  const BuiltEngine built = build_engine(fuse(graph), options_);
  ASSERT_EQ(built.engine.steps.size(), 4u);
  EXPECT_EQ(built.engine.steps[1].kind, StepKind::kLibrary);
  EXPECT_EQ(built.engine.steps[2].kind, StepKind::kKernel);
  // What was chosen is taken again, without asking the library for it.
  const Record record = parse_record(print(built.record));
  options_.record = &record;
  options_.libraries.refuses = library_refusal(nullptr);
  const BuiltEngine again = build_engine(fuse(graph), options_);
  EXPECT_EQ(again.engine.steps.size(), 4u);
  EXPECT_EQ(print(again.record), print(record));
  // Where there is no library, the whole is one kernel.
  options_.record = nullptr;
  options_.libraries = {};
  EXPECT_EQ(build_engine(fuse(graph), options_).engine.steps.size(), 3u);
}

TEST_F(Choices, what_the_library_refuses_is_generated) {
  options_.libraries.refuses = [](const LibrarySchedule&, const LibraryCall&) { return "it does not want to"; };
  const BuiltEngine built = build(Tuning::kOff);
  for (const auto& [key, choice] : built.record.regions) {
    EXPECT_TRUE(choice.way.starts_with("generated ")) << choice.way;
    if (!choice.step.starts_with("depthwise")) continue;
    const bool noted = std::any_of(choice.lost.begin(), choice.lost.end(), [](const Candidate& lost) {
      return lost.name.starts_with("onednn") && lost.reason == "it does not want to";
    });
    EXPECT_TRUE(noted) << choice.step;
  }
}

TEST_F(Choices, without_time_every_region_is_done_by_the_best_guess) {
  const BuiltEngine guessed = build(Tuning::kOff);
  double now = 0;
  options_.clock.processor = options_.clock.wall = [&now] { return now += 1e6; };
  const BuiltEngine starved = build(Tuning::kFull);
  EXPECT_EQ(ways(starved.record), ways(guessed.record));
  for (const auto& [key, choice] : starved.record.regions) {
    EXPECT_EQ(choice.milliseconds, 0) << choice.step;
    const bool noted = std::any_of(choice.lost.begin(), choice.lost.end(), [](const Candidate& lost) {
      return lost.reason == "not measured: the time for tuning was over";
    });
    EXPECT_TRUE(noted) << choice.step;
  }
}

TEST_F(Choices, a_guess_that_nobody_measures_is_one_that_the_library_does) {
  options_.libraries.refuses = [](const LibrarySchedule&, const LibraryCall&) { return "it does not want to"; };
  double now = 0;
  options_.clock.processor = options_.clock.wall = [&now] { return now += 1e6; };
  for (const auto& [step, way] : ways(build(Tuning::kFull).record)) {
    EXPECT_TRUE(way.starts_with("generated ")) << step << ": " << way;
  }
}

TEST_F(Choices, equal_regions_are_measured_once_and_the_largest_gains_first) {
  std::map<std::string, int> stored;
  options_.timings.store = [&](const std::string& key, double) { ++stored[key]; };
  // Time does not pass, however loaded the machine is.
  options_.clock.processor = options_.clock.wall = [] { return 0.0; };
  const BuiltEngine built = build(Tuning::kFast);
  std::vector<std::string> depthwise, products;
  for (const std::string& step : measured_) {
    (step.starts_with("depthwise") ? depthwise : products).push_back(step);
  }
  EXPECT_EQ(depthwise, std::vector<std::string>{"depthwise1"});
  ASSERT_FALSE(products.empty());
  // Two products of one region have more to win than the depthwise convolutions, which a library does as fast as memory
  // lets it.
  EXPECT_NE(measured_.front(), "depthwise1");
  EXPECT_EQ(std::count(products.begin(), products.end(), "project2"), 0) << "it is as project1";
  EXPECT_FALSE(stored.empty());
  for (const auto& [key, times] : stored) EXPECT_EQ(times, 1) << key;
}

}  // namespace
}  // namespace graft
