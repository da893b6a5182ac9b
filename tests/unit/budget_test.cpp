// SPDX-License-Identifier: Apache-2.0
// The search for the fastest network within a bound, and the network that tells what each layer adds to the error.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "graph/evaluate_graph.h"
#include "quantize/budget.h"
#include "quantize/gated_network.h"

namespace graft::quantize {
namespace {

/// Layers whose errors are independent and whose times add up, and how many networks were asked for.
struct Made {
  std::vector<LayerCost> layers;
  double base = 0;  ///< milliseconds beside the layers
  int measured = 0;

  Trial trial(const std::vector<bool>& kept, double bound) {
    ++measured;
    double power = 0, time = base;
    for (size_t n = 0; n < kept.size(); ++n) {
      if (!kept[n]) power += layers[n].error * layers[n].error;
      if (kept[n]) time += layers[n].won;
    }
    return {kept, std::sqrt(power), time, std::sqrt(power) <= bound};
  }

  std::vector<Trial> search_for(double bound, bool has_time = true) {
    const Trial all = trial(std::vector<bool>(layers.size(), false), bound);
    const Budget budget{layers, bound, all.milliseconds,
                        [&](const std::vector<bool>& kept) { return trial(kept, bound); }, [=] { return has_time; }};
    return search(budget, all);
  }
};


TEST(Budget, a_layer_that_wins_much_stays_although_it_is_the_noisiest) {
  Made made{.layers = {{.error = 0.5, .won = 10}, {.error = 0.4, .won = 0.1}, {.error = 0.3, .won = 0.1}}, .base = 5};
  const std::vector<Trial> trials = made.search_for(0.6);
  const Trial& best = trials[*fastest(trials)];
  EXPECT_FALSE(best.kept[0]) << "by its error alone it would return first";
  EXPECT_TRUE(best.kept[1]);
  EXPECT_FALSE(best.kept[2]);
}

TEST(Budget, all_layers_stay_quantised_where_the_bound_allows_it) {
  Made made{.layers = {{0.1, 1}, {0.1, 1}}, .base = 1};
  const std::vector<Trial> trials = made.search_for(1);
  EXPECT_EQ(trials.size(), 1u);
  EXPECT_EQ(fastest(trials), 0u);
}

TEST(Budget, layers_that_lose_time_return_also_where_the_bound_holds) {
  Made made{.layers = {{0.1, 1}, {0.1, -3}}, .base = 5};
  const std::vector<Trial> trials = made.search_for(1);
  EXPECT_EQ(trials[*fastest(trials)].kept, (std::vector<bool>{false, true}));
  Made noise{.layers = {{0.1, 1}, {0.1, -0.01}}, .base = 5};
  EXPECT_EQ(noise.search_for(1).size(), 1u) << "so little may be chance";
}

TEST(Budget, a_bound_that_no_network_keeps_gives_none) {
  Made made{.layers = {{0.5, 1}, {0.4, 3}, {0.3, 1}}, .base = 1};
  EXPECT_FALSE(fastest(made.search_for(0.2)));
}

TEST(Budget, the_layer_with_the_smallest_error_is_tried_before_giving_up) {
  Made made{.layers = {{0.5, 100}, {0.1, 0}, {0.4, 50}}, .base = 1};
  const std::vector<Trial> trials = made.search_for(0.15);
  EXPECT_EQ(trials[*fastest(trials)].kept, (std::vector<bool>{true, false, true}));
}

TEST(Budget, keeps_the_bound_with_few_measurements_near_the_best_time) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Made made{.layers = {}, .base = 2};
    const size_t count = 20 + random() % 60;
    for (size_t n = 0; n < count; ++n) {
      const double error = 0.01 + 0.001 * static_cast<double>(random() % 100);
      made.layers.push_back({error, 0.05 + 0.01 * static_cast<double>(random() % 100)});
    }
    double power = 0;
    for (const LayerCost& layer : made.layers) power += layer.error * layer.error;
    const double bound = std::sqrt(power) * (0.2 + 0.07 * static_cast<double>(random() % 10));
    const std::vector<Trial> trials = made.search_for(bound);
    const std::optional<size_t> best = fastest(trials);
    ASSERT_TRUE(best) << round;
    EXPECT_LE(trials[*best].error, bound);
    EXPECT_LT(made.measured, 20) << count << " layers";
    // The continuous relaxation of the knapsack: no assignment is faster. It divides a layer, of at most 1.04 ms.
    double left = power - bound * bound, time = made.base;
    for (const size_t n : order_of_return(made.layers)) {
      const double of_layer = made.layers[n].error * made.layers[n].error;
      if (left <= 0) break;
      time += made.layers[n].won * std::min(1.0, left / of_layer), left -= of_layer;
    }
    EXPECT_LT(trials[*best].milliseconds, 1.05 * time + 0.3) << round;
  }
}

TEST(Budget, without_time_it_takes_what_it_has) {
  Made made{.layers = std::vector<LayerCost>(64, {0.1, 1}), .base = 1};
  const std::vector<Trial> trials = made.search_for(0.4, false);
  EXPECT_TRUE(fastest(trials));
  EXPECT_LE(made.measured, 5);
}

TEST(Budget, without_times_the_noisiest_return_first) {
  EXPECT_EQ(order_of_return({{0.1, 0}, {0.3, 0}, {0.2, 0}}), (std::vector<size_t>{1, 2, 0}));
  EXPECT_EQ(order_of_return({{0.1, 1}, {0.3, 100}, {0.2, -1}}), (std::vector<size_t>{2, 0, 1}));
}

/// x -> MatMul -> Relu -> MatMul
Graph two_products() {
  Graph graph;
  graph.opsets[""] = kOpset;
  const auto product = [&](const char* name, ValueId x, std::vector<double> weights) {
    const ValueId w = graph.add_constant(std::string(name) + "_w", TensorData::from_values<double>(
        DType::kFloat32, {2, 2}, std::move(weights)));
    const ValueId y = graph.add_value(std::string(name) + "_y", DType::kFloat32, Shape{3, 2});
    graph.add_node({.name = name, .domain = "", .op = "MatMul", .attributes = {}, .inputs = {x, w}, .outputs = {y}});
    return y;
  };
  graph.inputs = {graph.add_value("x", DType::kFloat32, Shape{3, 2})};
  const ValueId first = product("first", graph.inputs[0], {0.5, -1, 2, 0.25});
  const ValueId clipped = graph.add_value("clipped", DType::kFloat32, Shape{3, 2});
  graph.add_node({.name = "clip", .domain = "", .op = "Relu", .attributes = {}, .inputs = {first},
                  .outputs = {clipped}});
  graph.outputs = {product("second", clipped, {1, 0.7, -0.3, 0.9})};
  return graph;
}

TEST(GatedNetwork, gates_choose_what_is_quantised) {
  const Graph graph = two_products();
  const Places places = find_places(graph);
  Quantisers quantisers;
  for (const auto& [value, root] : places.ranges) quantisers[graph.value(root).name] = quantiser_of({-4, 4});
  GatedNetwork gated = gate(graph, places, quantisers, {});
  verify(gated.graph);
  EXPECT_EQ(gated.layers, (std::vector<std::string>{"first", "second"}));
  ASSERT_EQ(gated.graph.inputs.size(), 3u);
  Graph quantised = graph;
  insert(quantised, places, quantisers);
  const TensorData x = TensorData::from_values<double>(DType::kFloat32, {3, 2}, {1.01, -0.33, 0.52, 0.77, -1.5, 1.9});
  const auto with = [&](bool first, bool second) {
    const auto bit = [](bool on) { return TensorData::from_values<int>(DType::kBool, {}, {on ? 1 : 0}); };
    return evaluate_ordered(gated.graph, std::vector<TensorData>{x, bit(first), bit(second)})[0];
  };
  const auto same = [](const TensorData& a, const TensorData& b) { return !first_difference(a, b, 1e-6); };
  const TensorData floats = evaluate_ordered(graph, std::vector<TensorData>{x})[0];
  EXPECT_TRUE(same(floats, with(false, false)));
  EXPECT_TRUE(same(evaluate_ordered(quantised, std::vector<TensorData>{x})[0], with(true, true)));
  EXPECT_FALSE(same(floats, with(true, false)));
  EXPECT_FALSE(same(floats, with(false, true)));
  EXPECT_FALSE(same(with(true, false), with(false, true)));
}

}  // namespace
}  // namespace graft::quantize
