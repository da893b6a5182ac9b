// SPDX-License-Identifier: Apache-2.0
// An index into an axis that turns out to be empty: told, and nothing is read or written for it. The emulated GPU ends
// a launch that leaves its tensors.
#include <gtest/gtest.h>

#include "emulator/gpu_run.h"
#include "graph/infer.h"
#include "support/run_generated.h"

namespace graft {
namespace {

/// Runs a graph whose input %data has no rows, by zeros, and expects to be told of the index.
void expect_told(const std::string& statements) {
  Graph graph = parse_graph("graph \"empty\" {\n  opset \"\" 28\n" + statements + "}\n");
  infer_types(graph);
  std::map<std::string, TensorData> inputs;
  for (const ValueId id : graph.inputs) {
    const Value& input = graph.value(id);
    std::vector<int64_t> shape;
    for (const Size& size : *input.shape) shape.push_back(size.as_constant().value_or(0));
    inputs[input.name] = TensorData::zeros(input.type, shape);
  }
  for (const char* target : {"sm_90a", "sm_80"}) {
    Engine engine = engine_for(graph, target);
    for (const EngineStep& step : engine.steps) EXPECT_NE(step.kind, StepKind::kInterpreter) << step.name;
    std::vector<TensorData> outputs;
    const Status status = run_engine(std::move(engine), inputs, outputs);
    EXPECT_EQ(status.kind(), ErrorKind::kInvalidArgument) << status.message();
    EXPECT_NE(status.message().find("out of range"), std::string::npos) << status.message();
  }
}

TEST(EmptyAxes, are_not_gathered_from) {
  expect_told("  input %data: f32[n, 3000]\n  input %index: i64[2]\n"
              "  %y: ? = Gather \"look\" (%data, %index) {axis = 0}\n  output %y\n");
}

TEST(EmptyAxes, are_not_scattered_to) {
  expect_told("  input %data: f32[n, 3000]\n  input %index: i64[2, 1]\n  input %updates: f32[2, 3000]\n"
              "  %y: ? = ScatterND \"put\" (%data, %index, %updates)\n  output %y\n");
}

TEST(EmptyAxes, are_not_added_to) {
  expect_told("  input %data: f32[n, 3000]\n  input %index: i64[2, 3000]\n  input %updates: f32[2, 3000]\n"
              "  %y: ? = ScatterElements \"add\" (%data, %index, %updates) {axis = 0, reduction = \"add\"}\n"
              "  output %y\n");
}

TEST(EmptyAxes, feed_no_product) {
  expect_told("  input %data: f32[n, 64]\n  input %index: i64[32]\n  input %w: f32[64, 64]\n"
              "  %rows: ? = Gather \"look\" (%data, %index) {axis = 0}\n"
              "  %y: ? = MatMul \"product\" (%rows, %w)\n  output %y\n");
}

}  // namespace
}  // namespace graft
