// SPDX-License-Identifier: Apache-2.0
// SmoothQuant: which activations can be divided, and that the network stays the same.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/evaluate_graph.h"
#include "quantize/smooth.h"

namespace graft::quantize {
namespace {

constexpr int64_t kWidth = 6;

class Builder {
 public:
  Builder() {
    graph.opsets[""] = kOpset;
    graph.inputs = {value("x")};
  }

  ValueId value(const std::string& name) { return graph.add_value(name, DType::kFloat32, Shape{3, kWidth}); }

  ValueId constant(const std::vector<int64_t>& shape) {
    TensorData data = TensorData::zeros(DType::kFloat32, shape);
    std::normal_distribution<float> normal(0, 1);
    for (float& element : data.mutable_as<float>()) element = normal(random_);
    return graph.add_constant("c", std::move(data));
  }

  ValueId node(const char* op, std::vector<ValueId> inputs, const std::string& result, Attributes attributes = {}) {
    const ValueId made = value(result);
    graph.add_node({.name = result, .domain = "", .op = op, .attributes = std::move(attributes),
                    .inputs = std::move(inputs), .outputs = {made}});
    return made;
  }

  ValueId product(ValueId x, const std::string& result) {
    return node("MatMul", {x, constant({kWidth, kWidth})}, result);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const ValueId id : smoothable(graph, find_places(graph))) found.push_back(graph.value(id).name);
    return found;
  }

  Graph graph;

 private:
  std::mt19937 random_{3};
};

/// Normalisation, two products of it, a Gemm with bias and Relu, and a product with a spelled-out scale and shift.
Builder transformer() {
  Builder made;
  const ValueId norm = made.node("LayerNormalization",
                                 {made.graph.inputs[0], made.constant({kWidth}), made.constant({kWidth})}, "norm");
  const ValueId sum = made.node("Add", {made.product(norm, "q"), made.product(norm, "k")}, "sum");
  const ValueId scaled = made.node("Mul", {sum, made.constant({kWidth})}, "scaled");
  const ValueId shifted = made.node("Add", {scaled, made.constant({1, kWidth})}, "shifted");
  const ValueId wide = made.node("Gemm", {shifted, made.constant({kWidth, kWidth}), made.constant({kWidth})}, "wide",
                                 {{"transB", int64_t{1}}});
  const ValueId clipped = made.node("Relu", {wide}, "clipped");
  made.graph.outputs = {made.product(clipped, "y")};
  return made;
}

TEST(Smooth, the_network_stays_the_same_bit_by_bit) {
  Builder made = transformer();
  EXPECT_EQ(made.names(), (std::vector<std::string>{"norm", "shifted", "clipped"}));
  Graph moved = made.graph;
  smooth(moved, {{"norm", {1, -2, 0, 5, 0, 3}}, {"shifted", {0, 0, 4, -1, 2, 0}}, {"clipped", {-3, 2, 1, 0, 7, 0}}},
         "test");
  verify(moved);
  const TensorsByName x = random_inputs(made.graph, 5);
  const TensorData expected = evaluate(made.graph, x)[0], found = evaluate(moved, x)[0];
  EXPECT_EQ(std::vector<float>(expected.as<float>().begin(), expected.as<float>().end()),
            std::vector<float>(found.as<float>().begin(), found.as<float>().end()));
}

TEST(Smooth, what_is_read_by_others_stays) {
  Builder made = transformer();
  made.graph.outputs.push_back(made.graph.find_value("norm"));
  EXPECT_EQ(made.names(), (std::vector<std::string>{"shifted", "clipped"}));
  made.node("Exp", {made.graph.find_value("wide")}, "exp");  // Relu would take its scales from there
  EXPECT_EQ(made.names(), (std::vector<std::string>{"shifted"}));
  const Graph before = made.graph;
  EXPECT_THROW(smooth(made.graph, {{"norm", std::vector<int>(kWidth, 1)}}, "file"), Error);
  EXPECT_THROW(smooth(made.graph, {{"shifted", {1, 2}}}, "file"), Error);
  EXPECT_THROW(smooth(made.graph, {{"none", std::vector<int>(kWidth, 1)}}, "file"), Error);
  EXPECT_THROW(smooth(made.graph, {{"shifted", std::vector<int>(kWidth, 60)}}, "file"), Error);
  EXPECT_EQ(print(before), print(made.graph));
}

TEST(Smooth, only_channels_that_stand_out_move) {
  Builder made = transformer();
  const ValueId norm = made.graph.find_value("norm");
  EXPECT_TRUE(smoothing_of(made.graph, norm, std::vector<float>{1, 2, 1, 3, 1, 1}).empty());
  EXPECT_TRUE(smoothing_of(made.graph, norm, std::vector<float>(kWidth, 0)).empty());
  const std::vector<int> found = smoothing_of(made.graph, norm, std::vector<float>{1, 1, 256, 1, 0, 1});
  ASSERT_EQ(found.size(), 6u);
  EXPECT_GE(found[2], 3);
  EXPECT_EQ(found[4], 0) << "a channel of zeros";
  for (const size_t n : {0u, 1u, 3u, 5u}) EXPECT_LE(std::abs(found[n]), 1);
}

}  // namespace
}  // namespace graft::quantize
