// SPDX-License-Identifier: Apache-2.0
// Which layers the time of an engine's steps belongs to.
#include <gtest/gtest.h>

#include "driver/layer_costs.h"

namespace graft {
namespace {

/// x -> {q, k: MatMul} -> Add -> last: MatMul of weights of another size
Graph network() {
  Graph graph;
  graph.opsets[""] = kOpset;
  const auto product = [&](const std::string& name, ValueId x, int64_t columns) {
    const ValueId w = graph.add_constant(name + "_w", TensorData::zeros(DType::kFloat32, {4, columns}));
    const ValueId y = graph.add_value(name + "_y", DType::kFloat32, Shape{2, columns});
    graph.add_node({.name = name, .domain = "", .op = "MatMul", .attributes = {}, .inputs = {x, w}, .outputs = {y}});
    return y;
  };
  graph.inputs = {graph.add_value("x", DType::kFloat32, Shape{2, 4})};
  const ValueId q = product("q", graph.inputs[0], 4), k = product("k", graph.inputs[0], 4);
  const ValueId sum = graph.add_value("sum", DType::kFloat32, Shape{2, 4});
  graph.add_node({.name = "add", .domain = "", .op = "Add", .attributes = {}, .inputs = {q, k}, .outputs = {sum}});
  graph.outputs = {product("last", sum, 8)};
  return graph;
}

std::vector<double> times(const std::vector<std::pair<std::vector<std::string>, double>>& steps) {
  const Graph graph = network();
  Engine engine;
  std::vector<double> milliseconds;
  for (const auto& [nodes, time] : steps) {
    engine.steps.push_back({.name = nodes[0], .nodes = nodes});
    milliseconds.push_back(time);
  }
  return times_of(Layers(graph, quantize::find_places(graph)), graph, engine, milliseconds);
}

TEST(LayerCosts, a_step_belongs_to_the_layers_that_it_fuses) {
  EXPECT_EQ(times({{{"q"}, 2}, {{"k", "add"}, 4}, {{"last"}, 5}}), (std::vector<double>{3, 3, 5}))
      << "products of one input share, as they may be merged";
  EXPECT_EQ(times({{{"q", "k", "add"}, 6}, {{"last"}, 5}}), (std::vector<double>{3, 3, 5}));
  EXPECT_EQ(times({{{"q", "q/merged"}, 6}, {{"add"}, 7}, {{"last"}, 5}}), (std::vector<double>{3, 3, 5}));
}

TEST(LayerCosts, what_quantising_adds_belongs_to_the_layers_that_need_it) {
  EXPECT_EQ(times({{{"x/QuantizeLinear"}, 1}, {{"q/MatMulInteger"}, 2}, {{"k/weights/DequantizeLinear"}, 3},
                   {{"sum/codes", "sum/magnitudes"}, 4}, {{"last/of_row"}, 5}}),
            (std::vector<double>{3, 3, 9}));
}

}  // namespace
}  // namespace graft
