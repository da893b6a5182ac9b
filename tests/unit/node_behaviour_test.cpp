// SPDX-License-Identifier: Apache-2.0
// What definitions say of a node's elements.
#include <gtest/gtest.h>

#include <string>

#include "graph/graph.h"
#include "passes/node_behaviour.h"

namespace graft::passes {
namespace {

/// The node in a graph where x is f32[n, 4], y f32[4], index i64[2], and k the constants 4 and n's place.
Graph graph_of(const std::string& node) {
  return parse_graph(R"(graph "main" {
  opset "" 28
  input %x: f32[n, 4]
  input %y: f32[4]
  input %truth: bool[n, 1]
  input %index: i64[2]
  constant %same: i64[2] = {0, 4}
  constant %wanted: i64[2] = {4, -1}
  constant %repeats: i64[2] = {1, 2}
  )" + node + "\n  output %z\n}\n");
}

bool elementwise(const std::string& node) {
  const Graph graph = graph_of(node);
  return is_elementwise(graph, graph.nodes[0]);
}

bool moves(const std::string& node, DType type = DType::kFloat32) {
  const Graph graph = graph_of(node);
  return moves_elements(graph, graph.nodes[0], type);
}

TEST(NodeBehaviour, elements_at_the_same_place_alone) {
  EXPECT_TRUE(elementwise(R"(%z: f32[n, 4] = Relu "op" (%x))"));
  EXPECT_TRUE(elementwise(R"(%z: f32[n, 4] = Add "op" (%x, %y))"));
  EXPECT_TRUE(elementwise(R"(%z: f32[n, 4] = Where "op" (%truth, %x, %y))"));
  EXPECT_TRUE(elementwise(R"(%z: bool[n, 4] = Less "op" (%x, %y))"));
  EXPECT_FALSE(elementwise(R"(%z: f32[n, 4] = Softmax "op" (%x))"));
  EXPECT_FALSE(elementwise(R"(%z: f32[4, n] = Transpose "op" (%x))"));
  EXPECT_FALSE(elementwise(R"(%z: f32[n, 4] = Trilu "op" (%x))"));
  EXPECT_FALSE(elementwise(R"(%z: f32[n, 4] = Reshape "op" (%x, %same))"));  // its second input has no such places
}

TEST(NodeBehaviour, elements_that_stay_as_they_are) {
  EXPECT_TRUE(moves(R"(%z: f32[4, n] = Transpose "op" (%x))"));
  EXPECT_TRUE(moves(R"(%z: f32[4, n] = Reshape "op" (%x, %wanted))", DType::kFloat16));
  EXPECT_TRUE(moves(R"(%z: f32[n, 8] = Tile "op" (%x, %repeats))", DType::kBool));
  EXPECT_TRUE(moves(R"(%z: f32[2, 4] = Gather "op" (%x, %index))"));
  EXPECT_FALSE(moves(R"(%z: f32[n, 4] = Relu "op" (%x))"));
  EXPECT_FALSE(moves(R"(%z: f32[n, 4] = Trilu "op" (%x))"));
  EXPECT_TRUE(moves(R"(%z: f32[n, 4] = Dropout "op" (%x))"));
  EXPECT_FALSE(moves(R"(%z: f32[n, 4] = Dropout "op" (%x))", DType::kBool));  // which takes floats alone
}

}  // namespace
}  // namespace graft::passes
