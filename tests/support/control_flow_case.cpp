// SPDX-License-Identifier: Apache-2.0
#include "support/control_flow_case.h"

#include <cmath>

#include <gtest/gtest.h>

#include "graph/infer.h"

namespace graft_test {

using namespace graft;

TensorData floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  return TensorData::from_values<float>(DType::kFloat32, std::move(shape), values);
}
TensorData integer(int64_t value) { return TensorData::from_values<int64_t>(DType::kInt64, {}, {value}); }
TensorData boolean(bool value) { return TensorData::from_values<int64_t>(DType::kBool, {}, {value}); }

Graph inferred(const std::string& text) {
  Graph graph = parse_graph(text);
  infer_types(graph);
  return graph;
}

Results run(Session& session, const Graph& graph, const TensorsByName& inputs) {
  std::vector<BufferView> given;
  for (const ValueId id : graph.inputs) {
    const TensorData& data = inputs.at(graph.value(id).name);
    given.push_back({const_cast<std::byte*>(data.bytes().data()), data.type(), data.shape(), {}});
  }
  Results results;
  results.views.resize(graph.outputs.size());
  results.memory.resize(graph.outputs.size());
  const auto allocate = [](void* context, int output, DType, std::span<const int64_t>, size_t bytes) -> void* {
    auto& into = static_cast<Results*>(context)->memory[static_cast<size_t>(output)];
    into.resize(bytes + 64);
    return into.data();
  };
  results.status = session.run(given, results.views, allocate, &results);
  return results;
}

void expect_results(Session& session, const Graph& graph, const TensorsByName& inputs, double tolerance) {
  const std::vector<TensorData> expected = evaluate(graph, inputs);
  const Results actual = run(session, graph, inputs);
  ASSERT_TRUE(actual.status.ok()) << actual.status.message();
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(actual.views[i].shape, expected[i].shape()) << "output " << i;
    ASSERT_EQ(actual.views[i].type, expected[i].type()) << "output " << i;
    const auto begin = static_cast<std::byte*>(actual.views[i].data);
    const TensorData got = TensorData::borrow(expected[i].type(), expected[i].shape(),
                                              {begin, static_cast<size_t>(expected[i].byte_count())}, nullptr);
    for (int64_t e = 0; e < expected[i].element_count(); ++e) {
      const double wanted = expected[i].read_double(e);
      ASSERT_NEAR(got.read_double(e), wanted, tolerance * (1 + std::abs(wanted))) << "element " << e << " of " << i;
    }
  }
}

const char* const kSums = R"(graph "sums" {
  opset "" 28
  input %x: f32[n]
  input %limit: i64[]
  input %start: f32[n]
  %sum: ?, %seen: ? = Loop "loop" (%limit, _, %start, %x) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: f32[n]
    input %x: f32[n]
    %next: ? = Add "add" (%s, %x)
    output %c
    output %next
    output %s
  }, captures = [1]}
  output %sum
  output %seen
})";

TensorsByName sums(int64_t limit) {
  return {{"x", floats({2}, {1, 2})}, {"limit", integer(limit)}, {"start", floats({2}, {0, 10})}};
}

const char* const kKnown = R"(graph "known" {
  opset "" 28
  input %x: f32[n, 3]
  constant %limit: i64[] = {4}
  %sum: ?, %seen: ? = Loop "loop" (%limit, _, %x) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: ?
    %f: ? = Cast "number" (%i) {to = 1}
    %next: ? = Add "add" (%s, %f)
    output %c
    output %next
    output %next
  }, captures = [0]}
  output %sum
  output %seen
})";

const char* const kWhile = R"(graph "while" {
  opset "" 28
  input %x: f32[2]
  input %bound: f32[]
  input %going: bool[]
  constant %two: f32[] = {2}
  %y: ?, %rounds: ? = Loop "loop" (_, %going, %x, %bound, %two) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: ?
    input %bound: ?
    input %two: ?
    constant %even: i64[] = {2}
    constant %axes: i64[1] = {0}
    %m: ? = Mod "odd" (%i, %even)
    %odd: ? = Cast "is_odd" (%m) {to = 9}
    %next: ? = If "choose" (%odd, %s, %s, %two) {else_branch = graph "else" {
      input %s: ?
      %e: ? = Add "add" (%s, %s)
      output %e
    }, then_branch = graph "then" {
      input %s: ?
      input %two: ?
      %t: ? = Add "by_two" (%s, %two)
      output %t
    }, captures = [1, 2]}
    %sum: ? = ReduceSum "sum" (%next, %axes) {keepdims = 0}
    %more: ? = Less "less" (%sum, %bound)
    output %more
    output %next
    output %i
  }, captures = [2]}
  output %y
  output %rounds
})";

const char* const kGrows = R"(graph "grows" {
  opset "" 28
  input %x: f32[n]
  input %limit: i64[]
  %y: ? = Loop "loop" (%limit, _, %x, %x) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: ?
    input %x: ?
    %next: ? = Concat "join" (%s, %x) {axis = 0}
    output %c
    output %next
  }, captures = [1]}
  %z: ? = Neg "negate" (%y)
  output %z
})";

const char* const kBranches = R"(graph "branches" {
  opset "" 28
  input %x: f32[n, 2]
  input %c: bool[]
  %y: ?, %k: ? = If "if" (%c, %x, %x) {else_branch = graph "else" {
    input %x: ?
    %e: ? = Concat "twice" (%x, %x) {axis = 0}
    %f: ? = Neg "negate" (%x)
    output %e
    output %f
  }, then_branch = graph "then" {
    input %x: ?
    %t: ? = Exp "exponential" (%x)
    output %t
    output %x
  }, captures = [1, 1]}
  %z: ? = Neg "behind" (%y)
  output %z
  output %k
})";

std::string endless(const char* round) {
  return std::string(R"(graph "endless" {
  opset "" 28
  input %x: f32[n]
  %y: ? = Loop "loop" (_, _, %x) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: ?
    %next: ? = )") + round + R"(
    output %c
    output %next
  }, captures = [0]}
  output %y
})";
}

}  // namespace graft_test
