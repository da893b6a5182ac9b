// SPDX-License-Identifier: Apache-2.0
#include "support/division_case.h"

#include <gtest/gtest.h>

#include "support/control_flow_case.h"
#include "support/run_generated.h"

namespace graft_test {
namespace {

using graft::DType;
using graft::TensorData;

/// Sizes are such that vectors, warps and tiles have ends that no element fills.
struct Case {
  const char* name;
  const char* statements;
};

constexpr Case kCases[] = {
    {"elements",
     "  input %x: i64[37, 11]\n  input %by: i64[37, 11]\n  %y: ? = Div \"divide\" (%x, %by)\n  output %y\n"},
    {"one divisor", "  input %x: i32[1003]\n  input %by: i32[1]\n  %y: ? = Div \"divide\" (%x, %by)\n  output %y\n"},
    {"bytes", "  input %x: u8[77]\n  input %by: u8[77]\n  %y: ? = Mod \"divide\" (%x, %by)\n  output %y\n"},
    {"signed bytes",
     "  input %x: i8[3, 5]\n  input %by: i8[5]\n  %y: ? = Mod \"divide\" (%x, %by) {fmod = 1}\n"
     "  output %y\n"},
    {"rows that are summed",
     "  input %x: i64[13, 301]\n  input %by: i64[301]\n  constant %axes: i64[1] = {1}\n"
     "  %z: ? = Div \"divide\" (%x, %by)\n"
     "  %y: ? = ReduceSum \"sum\" (%z, %axes) {keepdims = 0}\n  output %y\n"},
    {"columns that are summed",
     "  input %x: i32[301, 13]\n  input %by: i32[301, 1]\n  constant %axes: i64[1] = {0}\n"
     "  %z: ? = Mod \"divide\" (%x, %by)\n"
     "  %y: ? = ReduceMax \"most\" (%z, %axes) {keepdims = 0}\n  output %y\n"},
    {"a factor of a product",
     "  input %x: i32[19, 33]\n  input %by: i32[19, 33]\n  input %w: i32[33, 21]\n"
     "  %z: ? = Div \"divide\" (%x, %by)\n  %y: ? = MatMul \"product\" (%z, %w)\n"
     "  output %y\n"},
    {"floats that are multiplied",
     "  input %x: i32[19, 33]\n  input %by: i32[19, 33]\n  input %w: f32[33, 21]\n"
     "  %z: ? = Div \"divide\" (%x, %by)\n  %f: ? = Cast \"to_float\" (%z) {to = 1}\n"
     "  %y: ? = MatMul \"product\" (%f, %w)\n  output %y\n"},
};

/// Whole numbers of both signs, none of them zero.
TensorData numbers(DType type, const std::vector<int64_t>& shape) {
  TensorData data = TensorData::zeros(type, shape);
  for (int64_t i = 0; i < data.element_count(); ++i) {
    const int64_t size = 1 + i * 7 % 9;
    data.write_double(i, static_cast<double>(i % 3 == 0 && !is_unsigned(type) ? -size : size));
  }
  return data;
}

std::map<std::string, TensorData> by_name(const graft::TensorsByName& tensors) {
  return {tensors.begin(), tensors.end()};
}

void expect_told(const graft::Status& status) {
  EXPECT_EQ(status.kind(), graft::ErrorKind::kInvalidArgument) << status.message();
  EXPECT_NE(status.message().find("divided by zero"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("divide"), std::string::npos) << status.message();
}

}  // namespace

void expect_division_by_zero_told(const std::vector<std::string>& targets) {
  for (const Case& each : kCases) {
    SCOPED_TRACE(each.name);
    const graft::Graph graph =
        inferred(std::string("graph \"divisions\" {\n  opset \"\" 28\n") + each.statements + "}\n");
    graft::TensorsByName inputs;
    for (const graft::ValueId id : graph.inputs) {
      const graft::Value& input = graph.value(id);
      std::vector<int64_t> shape;
      for (const graft::Size& size : *input.shape) shape.push_back(size.constant());
      inputs[input.name] = numbers(input.type, shape);
    }
    const std::vector<TensorData> expected = evaluate(graph, inputs);
    graft::TensorsByName with_zero = inputs;
    TensorData& divisors = with_zero.at("by");
    divisors.write_double(divisors.element_count() - 1, 0);
    EXPECT_THROW(evaluate(graph, with_zero), graft::Error);
    for (const std::string& target : targets) {
      SCOPED_TRACE(target);
      for (const graft::EngineStep& step : graft::engine_for(graph, target).steps) {
        EXPECT_NE(step.kind, graft::StepKind::kInterpreter) << step.name;
      }
      std::vector<TensorData> outputs;
      const graft::Status status = run_engine(graft::engine_for(graph, target), by_name(inputs), outputs);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_FALSE(graft::first_difference(expected[0], outputs[0], 0));
      expect_told(run_engine(graft::engine_for(graph, target), by_name(with_zero), outputs));
    }
  }
}

}  // namespace graft_test
