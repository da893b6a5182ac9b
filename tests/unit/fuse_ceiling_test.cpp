// SPDX-License-Identifier: Apache-2.0
// Regions have a ceiling: what is larger runs as several steps, and computes the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "expr/region.h"
#include "fuse/clusters.h"
#include "fuse/rewrite_region.h"
#include "graph/infer.h"
#include "plan/build_engine.h"
#include "support/run_on_engine.h"

namespace graft {
namespace {

Graph inferred(const std::string& statements) {
  Graph graph = parse_graph("graph \"main\" {\n  opset \"\" 28\n" + statements + "}\n");
  infer_types(graph);
  return graph;
}

std::string chain(const std::string& op, int count) {
  std::string text = "input %v0: f32[4]\n";
  for (int i = 0; i < count; ++i) text += fmt::format("%v{}: ? = {} \"n{}\" (%v{})\n", i + 1, op, i, i);
  return text + fmt::format("output %v{}\n", count);
}

/// A node that takes `count` tensors of three elements; `node` holds `{}` for their names.
std::string joining(const std::string& node, int count) {
  std::string text, names;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("input %x{}: f32[3]\n", i);
    names += fmt::format("{}%x{}", i ? ", " : "", i);
  }
  return text + fmt::format(fmt::runtime(node), names) + "\noutput %y\n";
}

/// The results of an engine without generated code, beside what the graph's definitions say one by one.
void expect_right_results(const Graph& graph) {
  const FusedProgram program = fuse(graph);
  BuildOptions build{.target = targets_of({})[0]};
  const auto loaded = load_code(std::make_shared<const Engine>(build_engine(program, build).engine), {}, nullptr);
  expect_results_of(graph, loaded, random_inputs(graph, 5), 1e-5);
}

void expect_below_ceiling(const FusedProgram& program) {
  for (const FusedStep& step : program.steps) {
    EXPECT_LE(step.nodes.size(), static_cast<size_t>(RegionCeiling::kNodes));
    EXPECT_LE(step.region.inputs.size(), 2 * static_cast<size_t>(RegionCeiling::kInputs));
    EXPECT_LE(step.region.forms.size(), static_cast<size_t>(RegionCeiling::kForms));
  }
}

TEST(RegionCeilings, a_short_chain_is_one_step) { EXPECT_EQ(fuse(inferred(chain("Relu", 100))).steps.size(), 1u); }

TEST(RegionCeilings, a_long_chain_is_several_steps_and_says_why) {
  for (const std::string op : {"Relu", "Sigmoid"}) {
    const Graph graph = inferred(chain(op, 500));
    const FusedProgram program = fuse(graph);
    expect_below_ceiling(program);
    EXPECT_GE(program.steps.size(), 4u);
    EXPECT_LE(program.steps.size(), 20u);
    ASSERT_FALSE(program.notes.empty());
    EXPECT_NE(program.notes[0].find("more than one kernel should hold"), std::string::npos) << program.notes[0];
    expect_right_results(graph);
  }
}

TEST(RegionCeilings, a_reduction_takes_no_more_maps_than_fit) {
  std::string text = chain("Sigmoid", 400);
  text = text.substr(0, text.find("output")) + "%y: ? = Softmax \"rows\" (%v400)\noutput %y\n";
  const Graph graph = inferred(text);
  expect_below_ceiling(fuse(graph));
  expect_right_results(graph);
}

TEST(RegionCeilings, views_behind_views_are_computed_now_and_then) {
  std::string text = "input %v0: f32[2, 3, 4]\n";
  for (int i = 0; i < 100; ++i) {
    text += fmt::format("%v{}: ? = Transpose \"t{}\" (%v{}) {{perm = [1, 2, 0]}}\n", i + 1, i, i);
  }
  const Graph graph = inferred(text + "%y: ? = Exp \"e\" (%v100)\noutput %y\n");
  const FusedProgram program = fuse(graph);
  expect_below_ceiling(program);
  EXPECT_EQ(program.steps.size(), 4u);
  expect_right_results(graph);
}

TEST(RegionCeilings, many_operands_are_taken_in_parts) {
  for (const int count : {2, 64, 65, 200, 5000}) {
    for (const std::string node : {"%y: ? = Sum \"all\" ({})", "%y: ? = Mean \"all\" ({})", "%y: ? = Max \"all\" ({})",
                                   "%y: ? = Concat \"all\" ({}) {{axis = 0}}"}) {
      const Graph graph = inferred(joining(node, count));
      expect_below_ceiling(fuse(graph));
      expect_right_results(graph);
    }
  }
}

TEST(RegionCeilings, parts_of_one_tensor_are_read_alone) {
  std::string parts, rest;
  for (int i = 0; i < 300; ++i) {
    parts += fmt::format("{}%p{}: ?", i ? ", " : "", i);
    rest += fmt::format("%r{}: ? = Exp \"e{}\" (%p{})\noutput %r{}\n", i, i, i, i);
  }
  const std::string split = "input %x: f32[300, 2]\n" + parts + " = Split \"split\" (%x) {num_outputs = 300}\n";
  const Graph graph = inferred(split + rest);
  const FusedProgram program = fuse(graph);
  ASSERT_EQ(program.steps.size(), 300u);
  for (const FusedStep& step : program.steps) EXPECT_EQ(step.region.forms.size(), 2u);
  expect_right_results(graph);
  std::string outputs;
  for (int i = 0; i < 300; ++i) outputs += fmt::format("output %p{}\n", i);
  expect_right_results(inferred(split + outputs));
}

TEST(RegionCeilings, shared_operands_are_looked_at_once) {
  std::string text = "input %v0: f32[2, 3]\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("%v{}: ? = Add \"n{}\" (%v{}, %v{})\n", i + 1, i, i, i);
  Region region = fuse(inferred(text + "output %v100\n")).steps[0].region;
  normalise(region);
  EXPECT_EQ(axes_of(region.forms[0]).size(), 1u);
}

TEST(RegionCeilings, clusters_that_wait_for_each_other_do_not_deepen_the_stack) {
  std::string text = "input %x: f32[3, 3]\n";
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    text += fmt::format("input %w{}: f32[3, 3]\n%m{}: ? = MatMul \"m{}\" (%x, %w{})\n", i, i, i, i);
  }
  text += fmt::format("%s{}: ? = Exp \"e\" (%x)\n", kCount);
  for (int i = kCount; i-- > 0;) text += fmt::format("%s{}: ? = Add \"a{}\" (%m{}, %s{})\n", i, i, i, i + 1);
  const FusedProgram program = fuse(inferred(text + "output %s0\n"));
  EXPECT_EQ(program.steps.size(), static_cast<size_t>(kCount) + 1);
  std::set<int> made(program.inputs.begin(), program.inputs.end());
  for (const FusedStep& step : program.steps) {
    for (const int input : step.inputs) EXPECT_TRUE(made.contains(input));
    made.insert(step.outputs.begin(), step.outputs.end());
  }
}

/// The warnings that building an engine gives.
std::string warnings_of(const std::string& statements, const CompileKernels& compile_kernels,
                        Tuning tuning = Tuning::kOff) {
  std::string seen;
  set_log_callback([&](LogLevel level, std::string_view message) {
    if (level == LogLevel::kWarning) seen += message;
  });
  BuildOptions build{.target = targets_of({})[0]};
  build.tuning = tuning;
  build.compile_kernels = compile_kernels;
  build_engine(fuse(inferred(statements)), build);
  set_log_callback({});
  return seen;
}

TEST(InterpretedSteps, are_named_with_the_reason) {
  const auto refuses = [](const std::string&, const Target&) -> std::vector<std::byte> {
    throw Error(ErrorKind::kDevice, "no code today", "code generator");
  };
  const std::string warning = warnings_of(chain("Sigmoid", 3), refuses);
  EXPECT_NE(warning.find("1 of 1 steps run in the interpreter"), std::string::npos) << warning;
  EXPECT_NE(warning.find("'n0' (Sigmoid) and 2 more: "), std::string::npos) << warning;
  EXPECT_NE(warning.find("no code today"), std::string::npos) << warning;
  // Candidates that are measured are no steps of the network.
  const std::string tuned = warnings_of(chain("Sigmoid", 3), refuses, Tuning::kFast);
  EXPECT_EQ(tuned.find("run in the interpreter"), tuned.rfind("run in the interpreter")) << tuned;
}

TEST(InterpretedSteps, are_not_mentioned_where_there_are_none_or_all_were_asked_for) {
  EXPECT_EQ(
      warnings_of(chain("Sigmoid", 3), [](const std::string&, const Target&) { return std::vector<std::byte>(1); }),
      "");
  EXPECT_EQ(warnings_of(chain("Sigmoid", 3), {}), "");
}

TEST(Deadlines, stop_compiling_and_name_the_stage) {
  CompileOptions options;
  options.tuning = Tuning::kOff;
  set_option(options, {"deadline", "0.000001"});
  try {
    compile_from(inferred(chain("Sigmoid", 3)), Stage::kImport, options);
    FAIL() << "it was not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
    EXPECT_EQ(error.where(), "passes") << error.what();
    EXPECT_NE(std::string(error.what()).find("deadline"), std::string::npos) << error.what();
  }
  set_option(options, {"deadline", "1000"});
  EXPECT_NO_THROW(compile_from(inferred(chain("Sigmoid", 3)), Stage::kImport, options));
}

TEST(Deadlines, stop_in_the_middle_of_planning) {
  CompileOptions options;
  options.tuning = Tuning::kOff;
  options.interpret = true;
  int steps = 0;
  options.deadline = 0.05;
  options.progress = [&](std::string_view stage, std::string_view, int, int) {
    if (stage == "plan" && ++steps == 2) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(60);
      while (std::chrono::steady_clock::now() < end) {
      }
    }
  };
  try {
    compile_from(inferred(chain("Sigmoid", 2000)), Stage::kPasses, options);
    FAIL() << "it was not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  }
  EXPECT_LE(steps, 2);
}

TEST(Deadlines, are_looked_at_before_each_step_in_all_parts_of_a_stage) {
  int asked = 0;
  const auto count = [&] { return ++asked < 0; };
  FusedProgram program = fuse(inferred(chain("Sigmoid", 300)), FusionChoices{.cancelled = count});
  const auto steps = static_cast<int>(program.steps.size());
  EXPECT_GE(asked, steps);
  asked = 0;
  BuildOptions build{.target = targets_of({})[0]};
  build.compile_kernels = [](const std::string&, const Target&) { return std::vector<std::byte>(1); };
  build.cancelled = count;
  build_engine(std::move(program), build);
  EXPECT_GE(asked, 3 * steps);  // dividing, cutting, choosing
  build.cancelled = [] { return true; };
  EXPECT_THROW(build_engine(fuse(inferred(chain("Sigmoid", 3))), build), Error);
}

TEST(Deadlines, are_seconds) {
  CompileOptions options;
  for (const std::string wrong : {"", "-1", "nan", "1s", "1e9", "inf"}) {
    EXPECT_THROW(set_option(options, {"deadline", wrong}), Error) << wrong;
  }
}

TEST(Deadlines, leave_the_callers_own_wish_to_stop_as_it_is) {
  CompileOptions options;
  options.deadline = 1000;
  options.cancelled = [] { return true; };
  try {
    compile_from(inferred(chain("Sigmoid", 3)), Stage::kImport, options);
    FAIL() << "it was not stopped";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("as the caller asked"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace graft
