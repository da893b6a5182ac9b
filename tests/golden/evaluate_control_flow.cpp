// SPDX-License-Identifier: Apache-2.0
// The reference for whole graphs: bodies with captures, and inputs that do not fit.
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/evaluate_graph.h"
#include "graph/infer.h"

namespace graft {
namespace {

TensorData floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  return TensorData::from_values<float>(DType::kFloat32, std::move(shape), values);
}

/// `s` starts at zero and grows by the captured `x` each round; the values before each round are collected.
constexpr const char* kLoop = R"(graph "main" {
  opset "" 28
  input %x: f32[2]
  input %limit: i64[]
  constant %going: bool[] = {1}
  constant %start: f32[2] = {0, 0}
  %sum: f32[2], %seen: f32[n, 2] = Loop "loop" (%limit, %going, %start, %x) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: f32[2]
    input %x: f32[2]
    %next: f32[2] = Add "add" (%s, %x)
    output %c
    output %next
    output %s
  }, captures = [1]}
  output %sum
  output %seen
})";

TEST(EvaluateGraph, runs_a_loop_with_a_captured_value_and_collects_its_rounds) {
  const Graph graph = parse_graph(kLoop);
  const TensorData limit = TensorData::from_values<int64_t>(DType::kInt64, {}, {3});
  const auto outputs = evaluate(graph, {{"x", floats({2}, {1, 2})}, {"limit", limit}});
  EXPECT_EQ(outputs[0], floats({2}, {3, 6}));
  EXPECT_EQ(outputs[1], floats({3, 2}, {0, 0, 1, 2, 2, 4}));
}

TEST(EvaluateGraph, gives_no_rounds_for_a_limit_of_zero) {
  const Graph graph = parse_graph(kLoop);
  const TensorData limit = TensorData::from_values<int64_t>(DType::kInt64, {}, {0});
  const auto outputs = evaluate(graph, {{"x", floats({2}, {1, 2})}, {"limit", limit}});
  EXPECT_EQ(outputs[0], floats({2}, {0, 0}));
  EXPECT_EQ(outputs[1].shape(), (std::vector<int64_t>{0, 2}));
}

TEST(EvaluateGraph, names_the_input_that_is_missing_or_does_not_fit) {
  Graph graph = parse_graph(R"(graph "main" {
    opset "" 28
    input %x: f32[n, 2]
    %y: f32[n, 2] = Neg "neg" (%x)
    output %y
  })");
  const auto fault = [&](const TensorsByName& inputs) -> std::string {
    try {
      evaluate(graph, inputs);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(fault({}).find("'x'"), std::string::npos) << fault({});
  const TensorsByName wrong_type = {{"x", TensorData::zeros(DType::kInt64, {1, 2})}};
  EXPECT_NE(fault(wrong_type).find("'x'"), std::string::npos) << fault(wrong_type);
  const TensorsByName wrong_size = {{"x", TensorData::zeros(DType::kFloat32, {1, 3})}};
  EXPECT_NE(fault(wrong_size).find("x"), std::string::npos) << fault(wrong_size);
  EXPECT_EQ(fault({{"x", TensorData::zeros(DType::kFloat32, {5, 2})}}), "no error");
}

TEST(FirstDifference, finds_the_element_beyond_the_tolerance_and_takes_equal_nans) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(first_difference(floats({2}, {100, nan}), floats({2}, {100.0005f, nan}), 1e-5));
  const auto difference = first_difference(floats({2}, {100, 1}), floats({2}, {100, 1.1f}), 1e-5);
  ASSERT_TRUE(difference);
  EXPECT_NE(difference->find("element 1"), std::string::npos) << *difference;
  EXPECT_TRUE(first_difference(floats({2}, {1, 2}), floats({2}, {1, nan}), 1e-5));
  EXPECT_TRUE(first_difference(floats({2}, {1, 2}), floats({1, 2}, {1, 2}), 1e-5));
}

}  // namespace
}  // namespace graft
