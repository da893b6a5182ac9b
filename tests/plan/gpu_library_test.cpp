// SPDX-License-Identifier: Apache-2.0
// How a plan for a GPU chooses between libraries and generated kernels. The libraries are asked through functions, so
// that no GPU is needed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"
#include "graph/infer.h"
#include "library/split_region.h"
#include "plan/build_engine.h"
#include "support/library_case.h"
#include "support/library_graphs.h"

namespace graft {
namespace {

/// Libraries that do whatever `refuses` does not refuse; kernels count as compiled.
BuildOptions options_with(std::function<std::string(const LibrarySchedule&, const LibraryCall&)> refuses) {
  BuildOptions options{.target = find_target("sm_90a")};
  options.compile_kernels = [](const std::string&, const Target&) { return std::vector<std::byte>(1); };
  options.libraries.source = [](const Engine&, const EngineStep&, const Bindings&,
                                const LibraryPlace&) -> std::shared_ptr<const ReadyLibraryCall> { return nullptr; };
  options.libraries.why_not = [](const std::string&) { return std::string(); };
  options.libraries.refuses = std::move(refuses);
  return options;
}

/// The libraries' steps and their kinds, with what was recorded of others.
std::string plan_of(const std::string& text, const BuildOptions& options) {
  Graph graph = parse_graph(text);
  infer_types(graph);
  const BuiltEngine built = build_engine(fuse(graph), options);
  std::string lines;
  for (const EngineStep& step : built.engine.steps) {
    lines += step.library.empty() ? "generated\n" : step.schedule + "\n";
    for (const Candidate& lost : step.candidates) {
      if (lost.name.rfind("generated", 0) != 0) lines += "  " + lost.name + ": " + lost.reason + "\n";
    }
  }
  return lines;
}

std::string refuse_nothing(const LibrarySchedule&, const LibraryCall&) { return ""; }

BuiltEngine build(const std::string& text, const BuildOptions& options) {
  Graph graph = parse_graph(text);
  infer_types(graph);
  return build_engine(fuse(graph), options);
}

TEST(GpuLibraries, a_large_product_is_a_librarys_without_being_measured) {
  EXPECT_EQ(plan_of(product_graph("512", 512, 512, {}, {"%y: ? = Relu \"r\" (%p)"}), options_with(refuse_nothing)),
            "cublaslt choice=0 panel=0\n");
}

TEST(GpuLibraries, one_whose_rows_are_open_has_a_kernel_beside_it) {
  for (const char* type : {"f32", "f16"}) {
    const BuiltEngine built = build(product_graph("length", 4096, 2048, {}, {}, type), options_with(refuse_nothing));
    ASSERT_EQ(built.engine.steps.size(), 1u) << type;
    EXPECT_EQ(built.engine.steps[0].library, "cublaslt") << type;
    EXPECT_EQ(built.engine.steps[0].kind, StepKind::kLibrary) << type;
    EXPECT_GE(built.engine.steps[0].kernel, 0) << type;
  }
}

TEST(GpuLibraries, a_small_product_is_generated) {
  EXPECT_EQ(plan_of(product_graph("8", 64, 64, {}, {}), options_with(refuse_nothing)), "generated\n");
}

TEST(GpuLibraries, a_convolution_of_single_channels_is_generated_and_one_of_groups_is_a_librarys) {
  const auto graph = [](int group) {
    return fmt::format(R"(graph "main" {{
  opset "" 28
  input %x: f32[8, 128, 56, 56]
  input %w: f32[128, {}, 3, 3]
  %y: ? = Conv "c" (%x, %w) {{group = {}, pads = [1, 1, 1, 1]}}
  output %y
}})",
                       128 / group, group);
  };
  EXPECT_EQ(plan_of(graph(128), options_with(refuse_nothing)).substr(0, 10), "generated\n");
  EXPECT_NE(plan_of(graph(4), options_with(refuse_nothing)).substr(0, 10), "generated\n");
}

TEST(GpuLibraries, a_refusal_is_a_reason_on_record) {
  const auto refuse = [](const LibrarySchedule& schedule, const LibraryCall&) {
    return "not today: " + schedule.library;
  };
  EXPECT_EQ(plan_of(product_graph("512", 512, 512, {}, {}), options_with(refuse)),
            "generated\n  cublaslt: not today: cublaslt\n  cudnn: not today: cudnn\n");
}

TEST(GpuLibraries, one_that_was_disabled_is_not_asked) {
  BuildOptions options = options_with(refuse_nothing);
  options.disabled = {"cublaslt", "cudnn"};
  EXPECT_EQ(plan_of(product_graph("512", 512, 512, {}, {}), options),
            "generated\n  cublaslt: it was disabled\n  cudnn: it was disabled\n");
}

TEST(GpuLibraries, what_the_library_does_not_know_becomes_a_map_behind_it) {
  const std::string graph =
      product_graph("512", 512, 512, {"%b: f32[512]"}, {"%q: ? = Add \"a\" (%p, %b)", "%y: ? = Gelu \"g\" (%q)"});
  EXPECT_EQ(plan_of(graph, options_with(refuse_nothing)).substr(0, 36), "cublaslt choice=0 panel=0\ngenerated\n");
}

/// Times that were measured before: of libraries, of generated products and of generated maps.
TimingCache times_of(double library, double product, double map) {
  TimingCache times;
  times.find = [=](const std::string& key) -> std::optional<double> {
    if (key.find("generated") == std::string::npos) return library;
    return key.find("generated product") == std::string::npos ? map : product;
  };
  return times;
}

TEST(GpuLibraries, a_whole_kernel_is_taken_when_it_is_faster_than_its_parts) {
  const std::string graph =
      product_graph("512", 512, 512, {"%b: f32[512]"}, {"%q: ? = Add \"a\" (%p, %b)", "%y: ? = Gelu \"g\" (%q)"});
  for (const auto& [product, steps] : {std::pair<double, size_t>{1.4, 1}, {1.6, 2}}) {
    BuildOptions options = options_with(refuse_nothing);
    options.tuning = Tuning::kFast;
    options.timings = times_of(1.0, product, 0.5);
    const BuiltEngine tuned = build(graph, options);
    ASSERT_EQ(tuned.engine.steps.size(), steps) << product;
    EXPECT_EQ(tuned.engine.steps[0].library.empty(), steps == 1);
    // A plan that was made so stays so.
    options.tuning = Tuning::kOff;
    const Record record = parse_record(print(tuned.record));
    options.record = &record;
    const BuiltEngine again = build(graph, options);
    ASSERT_EQ(again.engine.steps.size(), steps);
    EXPECT_EQ(again.engine.steps[0].schedule, tuned.engine.steps[0].schedule);
    EXPECT_EQ(print(again.record), print(record));
  }
}

TEST(GpuLibraries, what_moves_more_than_it_computes_is_not_cut) {
  // 2 * 16 operations for each of 17 elements.
  const std::string graph = product_graph("100000", 16, 16, {}, {"%y: ? = Gelu \"g\" (%p)"});
  EXPECT_EQ(build(graph, options_with(refuse_nothing)).engine.steps.size(), 1u);
}

TEST(SplitRegion, the_product_keeps_the_first_operations) {
  const Region region =
      region_of(product_graph("7", 64, 32, {"%b: f32[64]", "%r: f32[7, 64]"},
                              {"%q: ? = Add \"a\" (%p, %b)", "%g: ? = Gelu \"g\" (%q)", "%y: ? = Add \"m\" (%g, %r)"}),
                "product");
  ASSERT_EQ(count_cuts(region), 3u);
  auto parts = split_region(region, 1);
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->product_inputs, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(parts->rest_inputs, (std::vector<size_t>{3}));
  normalise(parts->product);
  EXPECT_EQ(call_text(parts->product, "cublaslt choice=0 panel=0"),
            "product f32 batch [], rows 7, columns 64, depth 32\n"
            "source 0 offset 0, strides [32, 1]\n"
            "weights 1 offset 0, strides [64, 1]\n"
            "result 3 offset 0, strides [64, 1]\n"
            "post add 2 offset 0, strides [0, 1]\n");
  EXPECT_EQ(parts->rest.inputs.size(), 2u);
  EXPECT_EQ(parts->rest.forms.size(), 1u);
  EXPECT_FALSE(split_region(region, 3));
}

}  // namespace
}  // namespace graft
