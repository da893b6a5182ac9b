// SPDX-License-Identifier: Apache-2.0
// Branches and loops as engines inside of engines: results as the graph's own, limits, deadlines, plans.
#include <gtest/gtest.h>

#include "base/error.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "graph/infer.h"
#include "plan/repair_checksums.h"
#include "plan/sample_plan.h"
#include "runtime/session.h"
#include "support/control_flow_case.h"

namespace graft {
namespace {

using namespace graft_test;
using graft_test::expect_results;  // beside the one below

CompileOptions quick() {
  CompileOptions options;
  options.interpret = true;
  options.threads = 1;
  return options;
}

/// Runs a graph on all inputs in one session, compiled and again from its plan.
void expect_results(const char* text, const std::vector<TensorsByName>& inputs) {
  const Graph graph = inferred(text);
  const Compiled compiled = compile_from(graph, Stage::kImport, quick());
  Session session(load_code(std::make_shared<const Engine>(compiled.engine)));
  for (const TensorsByName& each : inputs) expect_results(session, graph, each);
  const std::vector<std::byte> bytes = print_plan(to_file(compiled.plan));
  const AlignedCopy copy(bytes);
  const Plan again = from_file(parse_plan(copy.bytes(), copy.owner(), "compiled"), "compiled");
  EXPECT_EQ(print_plan(to_file(again)), bytes);
  Session loaded(load_code(std::make_shared<const Engine>(build(again, host_cpu(1), options_of(again)))));
  for (const TensorsByName& each : inputs) expect_results(loaded, graph, each);
}

TEST(ControlFlow, a_loop_with_a_captured_value_collects_its_rounds) { expect_results(kSums, {sums(3), sums(1)}); }

TEST(ControlFlow, a_loop_of_no_rounds_gives_what_it_starts_from) {
  expect_results(kSums, {sums(0), sums(-4), sums(2), sums(0)});
}

TEST(ControlFlow, a_loop_of_known_length_writes_into_outputs_of_known_size) {
  const Graph graph = inferred(kKnown);
  EXPECT_FALSE(compile_from(graph, Stage::kImport, quick()).engine.has_computed_symbols);
  expect_results(kKnown, {{{"x", floats({1, 3}, {1, 2, 3})}}, {{"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}}});
}

TEST(ControlFlow, a_condition_ends_a_loop_early_and_branches_nest_in_it) {
  const auto given = [](float bound, bool going) {
    return TensorsByName{{"x", floats({2}, {1, 2})}, {"bound", floats({}, {bound})}, {"going", boolean(going)}};
  };
  expect_results(kWhile, {given(100, true), given(1, true), given(100, false), given(1e6f, true)});
}

TEST(ControlFlow, a_carried_shape_may_grow_in_each_round) {
  expect_results(kGrows, {{{"x", floats({2}, {1, 2})}, {"limit", integer(5)}},
                          {{"x", floats({1}, {3})}, {"limit", integer(0)}},
                          {{"x", floats({3}, {1, 2, 3})}, {"limit", integer(40)}}});
}

TEST(ControlFlow, branches_may_give_other_shapes) {
  const TensorData x = floats({2, 2}, {0, 1, 2, 3});
  expect_results(kBranches, {{{"x", x}, {"c", boolean(true)}}, {{"x", x}, {"c", boolean(false)}}});
}

/// All steps of the bodies of an engine.
std::vector<EngineStep> steps_of_bodies(const Engine& engine) {
  std::vector<EngineStep> all;
  for (const EngineStep& step : engine.steps) {
    for (const auto& body : step.bodies) {
      all.insert(all.end(), body->steps.begin(), body->steps.end());
      for (EngineStep& inner : steps_of_bodies(*body)) all.push_back(std::move(inner));
    }
  }
  return all;
}

TEST(ControlFlow, bodies_are_kernels_of_a_gpu_in_a_plan_for_it) {
  const std::string missing = why_no_generator(find_target("sm_90a", 1));
  if (!missing.empty()) GTEST_SKIP() << missing;
  CompileOptions options;
  options.tuning = Tuning::kOff;
  options.targets = {"sm_90a"};
  options.disabled = {"unroll_loops"};
  for (const char* text : {kSums, kKnown, kWhile, kGrows, kBranches}) {
    const Compiled compiled = compile_from(inferred(text), Stage::kImport, options);
    const std::vector<EngineStep> steps = steps_of_bodies(compiled.engine);
    ASSERT_FALSE(steps.empty());
    size_t kernels = 0;
    for (const EngineStep& step : steps) {
      EXPECT_NE(step.kind, StepKind::kInterpreter) << step.name;
      kernels += step.kind == StepKind::kKernel ? 1 : 0;
    }
    EXPECT_GE(kernels, 1U);
    EXPECT_GE(compiled.plan.records.at(0).regions.size(), 1U) << print(compiled.plan.records[0]);
  }
}

TEST(ControlFlow, weights_of_a_body_are_stored_once) {
  if (const std::string missing = why_no_sample_kernels(); !missing.empty()) GTEST_SKIP() << missing;
  TensorData weights = TensorData::zeros(DType::kFloat32, {48, 48});
  for (int64_t i = 0; i < weights.element_count(); ++i) weights.write_double(i, 1e-3 * static_cast<double>(i % 37));
  const std::map<std::string, TensorData, std::less<>> named = {{"w", weights}};
  Graph graph = parse_graph(R"(graph "products" {
  opset "" 28
  input %x: f32[n, 48]
  input %limit: i64[]
  constant %w: f32[48, 48] = weights
  %y: ? = Loop "loop" (%limit, _, %x, %w) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: ?
    input %w: ?
    %next: ? = MatMul "product" (%s, %w)
    output %c
    output %next
  }, captures = [1]}
  output %y
})", &named);
  infer_types(graph);
  CompileOptions options;
  options.tuning = Tuning::kOff;
  options.threads = 1;
  const Compiled compiled = compile_from(graph, Stage::kImport, options);
  const PlanFile file = to_file(compiled.plan);
  ASSERT_EQ(file.constants.size(), 1U);
  EXPECT_NE(file.constants[0].layout, "");
  const std::vector<std::byte> bytes = print_plan(file);
  const AlignedCopy copy(bytes);
  const Plan again = from_file(parse_plan(copy.bytes(), copy.owner(), "compiled"), "compiled");
  EXPECT_EQ(print_plan(to_file(again)), bytes);
  Session loaded(load_code(std::make_shared<const Engine>(build(again, host_cpu(1), options_of(again)))));
  const TensorsByName inputs{{"x", floats({1, 48}, std::vector<float>(48, 1))}, {"limit", integer(3)}};
  expect_results(loaded, graph, inputs, 1e-5);
}

TEST(ControlFlow, a_deadline_ends_an_endless_loop_and_the_session_stays_usable) {
  const std::string text = endless("Neg \"negate\" (%s)");
  const Graph graph = inferred(text);
  const Compiled compiled = compile_from(graph, Stage::kImport, quick());
  Session session(load_code(std::make_shared<const Engine>(compiled.engine)));
  session.set_deadline(0.05);
  for (int i = 0; i < 2; ++i) {
    const Results results = run(session, graph, {{"x", floats({2}, {1, 2})}});
    EXPECT_EQ(results.status.kind(), ErrorKind::kCancelled) << results.status.message();
  }
}

TEST(ControlFlow, the_memory_limit_ends_a_loop_that_grows_for_ever) {
  const std::string text = endless("Concat \"join\" (%s, %s) {axis = 0}");
  const Graph graph = inferred(text);
  const Compiled compiled = compile_from(graph, Stage::kImport, quick());
  Session session(load_code(std::make_shared<const Engine>(compiled.engine)));
  session.set_memory_limit(int64_t{1} << 20);
  const Results results = run(session, graph, {{"x", floats({2}, {1, 2})}});
  EXPECT_EQ(results.status.kind(), ErrorKind::kOutOfMemory) << results.status.message();
}

TEST(ControlFlow, names_the_carried_value_whose_type_a_round_changes) {
  const std::string text = endless("Cast \"cast\" (%s) {to = 7}");
  try {
    compile_from(parse_graph(text), Stage::kImport, quick());
    FAIL() << "it was compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel);
    EXPECT_NE(std::string(error.what()).find("'s' is carried as f32"), std::string::npos) << error.what();
  }
}

TEST(ControlFlow, refuses_graphs_that_are_nested_too_deeply) {
  std::string text = "graph \"deep\" {\n opset \"\" 28\n input %c: bool[]\n input %x: f32[2]\n", end;
  for (int depth = 0; depth < 1000; ++depth) {
    text += "%y: ? = If \"if\" (%c, %x, %c, %x) {else_branch = graph \"e\" { input %x: ?\n output %x }, "
            "then_branch = graph \"t\" { input %c: ?\n input %x: ?\n";
    end += " output %y }, captures = [1, 2]}";
  }
  text += "%y: ? = Neg \"n\" (%x)\n" + end + "\n output %y\n}";
  try {
    parse_graph(text);
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("nested too deeply"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace graft
