// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/graph.h"

namespace graft {
namespace {

/// x -> Relu a -> y -> Neg b -> z
Graph chain() {
  return parse_graph(R"(graph "g" {
    input %x: f32[2]
    %y: f32[2] = Relu "a" (%x)
    %z: f32[2] = Neg "b" (%y)
    output %z
  })");
}

TEST(GraphEdit, makes_names_unique) {
  Graph graph;
  for (int i = 0; i < 2000; ++i) graph.add_value("v", DType::kFloat32);
  EXPECT_EQ(graph.value(0).name, "v");
  EXPECT_EQ(graph.value(1).name, "v_1");
  EXPECT_EQ(graph.value(1999).name, "v_1999");
  EXPECT_NO_THROW(verify(graph));
  graph.rename_value(5, "other");
  EXPECT_EQ(graph.find_value("other"), 5);
  EXPECT_EQ(graph.find_value("v_5"), kNoValue);
}

TEST(GraphEdit, erasing_a_node_moves_producers) {
  Graph graph = chain();
  graph.replace_uses(graph.find_value("y"), graph.find_value("x"));
  graph.erase_nodes({true, false});
  graph.remove_unused_values();
  EXPECT_NO_THROW(verify(graph));
  EXPECT_EQ(graph.values.size(), 2u);
  EXPECT_EQ(graph.value(graph.find_value("z")).producer, 0);
  EXPECT_EQ(graph.find_value("y"), kNoValue);
}

TEST(GraphEdit, sorts_nodes_appended_out_of_order) {
  Graph graph = chain();
  const ValueId fresh = graph.add_value("fresh", DType::kFloat32, Shape{2});
  graph.nodes[1].inputs[0] = fresh;
  graph.add_node({.name = "c", .op = "Abs", .inputs = {graph.find_value("y")}, .outputs = {fresh}});
  EXPECT_THROW(verify(graph), Error);
  graph.sort_nodes();
  EXPECT_NO_THROW(verify(graph));
  EXPECT_EQ(graph.nodes[1].name, "c");
  EXPECT_EQ(graph.nodes[2].name, "b");
}

TEST(GraphEdit, names_the_nodes_of_a_cycle) {
  Graph graph = chain();
  graph.nodes[0].inputs[0] = graph.find_value("z");
  try {
    graph.sort_nodes();
    FAIL() << "a cycle was sorted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel);
    EXPECT_NE(std::string(error.what()).find("'a', 'b'"), std::string::npos) << error.what();
  }
}

TEST(GraphEdit, lists_each_consumer_once) {
  Graph graph = parse_graph(R"(graph "g" {
    input %x: f32[2]
    %y: f32[2] = Add "a" (%x, %x)
    %z: f32[2] = Mul "b" (%x, %y)
    output %z
  })");
  EXPECT_EQ(graph.consumers()[graph.find_value("x")], (std::vector<int>{0, 1}));
}

TEST(GraphEdit, attributes_compare_by_value) {
  const auto body = [] { return std::make_shared<const Graph>(chain()); };
  EXPECT_TRUE(equal(Attribute(body()), Attribute(body())));
  EXPECT_TRUE(equal(Attribute(0.0 / 0.0), Attribute(0.0 / 0.0)));
  EXPECT_FALSE(equal(Attribute(int64_t{1}), Attribute(1.0)));
  EXPECT_FALSE(equal(Attribute(0.0), Attribute(-0.0)));
}

}  // namespace
}  // namespace graft
