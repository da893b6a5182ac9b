// SPDX-License-Identifier: Apache-2.0
// A normalisation of few and long rows, in steps that each fill a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expr/interpreter.h"
#include "fuse/fused_program.h"
#include "graph/evaluate_graph.h"
#include "graph/infer.h"
#include "plan/spread_reduction.h"
#include "target/target.h"

namespace graft {
namespace {

Graph normalisation(int64_t rows, int64_t columns) {
  Graph graph = parse_graph(fmt::format(R"(graph "main" {{
  opset "" 28
  input %x: f32[1, {0}, {1}]
  input %scale: f32[{0}]
  input %bias: f32[{0}]
  %n: f32[1, {0}, {1}] = InstanceNormalization "norm" (%x, %scale, %bias)
  %y: f32[1, {0}, {1}] = Relu "relu" (%n)
  output %y
}}
)", rows, columns));
  infer_types(graph);
  return graph;
}

/// The steps that a GPU gets; `program` keeps the tensors.
std::vector<FusedStep> spread(FusedProgram& program) {
  std::vector<FusedStep> steps;
  for (FusedStep& step : program.steps) {
    for (FusedStep& part : spread_reduction(step, program.tensors, {}, find_target("sm_90a", 2))) {
      steps.push_back(std::move(part));
    }
  }
  return steps;
}

TEST(SpreadNormalisation, of_few_long_rows_computes_the_same_in_four_steps) {
  const Graph graph = normalisation(2, 150'000);
  FusedProgram program = fuse(graph);
  ASSERT_EQ(program.steps.size(), 1u);
  const std::vector<FusedStep> steps = spread(program);
  ASSERT_EQ(steps.size(), 4u) << "sums of parts, sums of parts of squares beside the mean, their sum, and each element";
  const TensorsByName inputs = random_inputs(graph, 5);
  std::vector<TensorData> values(program.tensors.size());
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    values[program.inputs[i]] = inputs.at(program.tensors[program.inputs[i]].name);
  }
  for (const FusedStep& step : steps) {
    verify(step.region);
    std::vector<TensorData> given;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      std::vector<int64_t> shape;  // of the same elements as the step sees them
      for (const Size& size : step.region.tensors[step.region.inputs[i]].shape) shape.push_back(size.evaluate({}));
      given.push_back(values[step.inputs[i]].reshaped(shape));
    }
    Bindings bindings;
    const std::vector<TensorData> made = interpret(step.region, given, bindings);
    for (size_t i = 0; i < made.size(); ++i) values[step.outputs[i]] = made[i];
  }
  const TensorData expected = evaluate(graph, inputs)[0];
  const TensorData actual = values[program.outputs[0]].reshaped(expected.shape());
  const auto difference = first_difference(expected, actual, 1e-5);
  EXPECT_FALSE(difference) << *difference;
}

TEST(SpreadNormalisation, of_many_or_short_rows_stays_one_step) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{400, 20'000}, {64, 8192}, {2, 1000}}) {
    FusedProgram program = fuse(normalisation(rows, columns));
    EXPECT_EQ(spread(program).size(), 1u) << rows << " rows of " << columns;
  }
}

}  // namespace
}  // namespace graft
