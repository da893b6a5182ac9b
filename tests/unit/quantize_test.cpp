// SPDX-License-Identifier: Apache-2.0
// Post-training quantisation: distributions, ranges, weights, and where Q/DQ stand. What whole networks lose is in
// tests/cli/test_quantize.py.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "quantize/calibration_file.h"
#include "quantize/histogram.h"
#include "quantize/insert.h"
#include "quantize/places.h"
#include "quantize/ranges.h"
#include "quantize/stated_ranges.h"

namespace graft::quantize {
namespace {

std::vector<float> normal(size_t count, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(random);
  return values;
}

Histogram histogram_of(const std::vector<float>& values) {
  Histogram histogram;
  histogram.add(values);
  return histogram;
}

void expect_same(const Histogram& a, const Histogram& b) {
  EXPECT_EQ(a.bins(), b.bins());
  EXPECT_EQ(a.first(), b.first());
  EXPECT_EQ(a.width(), b.width());
  EXPECT_EQ(a.low(), b.low());
  EXPECT_EQ(a.high(), b.high());
}

TEST(Histogram, does_not_depend_on_how_elements_come) {
  std::vector<float> values = normal(5000, 1);
  values[4000] = 300;  // widens it late
  const Histogram whole = histogram_of(values);
  for (const size_t step : {1u, 7u, 1024u}) {
    Histogram parts;
    for (size_t first = 0; first < values.size(); first += step) {
      parts.add(std::span(values).subspan(first, std::min(step, values.size() - first)));
    }
    expect_same(whole, parts);
  }
  std::reverse(values.begin(), values.end());
  expect_same(whole, histogram_of(values));
}

TEST(Histogram, counts_many_elements_as_it_does_few) {
  std::vector<float> values = normal(300000, 2);
  for (size_t n = 0; n < values.size(); n += 3) values[n] = 0;
  values[150000] = -70, values[250000] = 1e4f, values[299999] = -0.0f, values[200001] = NAN;
  const Histogram whole = histogram_of(values);
  EXPECT_EQ(whole.not_finite(), 1);
  EXPECT_EQ(whole.count(), 299999);
  for (const size_t step : {1000u, 100001u}) {  // the first: each call is of too few for tables
    Histogram parts;
    for (size_t first = 0; first < values.size(); first += step) {
      parts.add(std::span(values).subspan(first, std::min(step, values.size() - first)));
    }
    expect_same(whole, parts);
    EXPECT_EQ(parts.not_finite(), 1);
  }
  int64_t sum = 0;
  for (const int64_t bin : whole.bins()) sum += bin;
  EXPECT_EQ(sum, whole.count());
}

TEST(Histogram, counts_each_element_in_its_bin) {
  const Histogram histogram = histogram_of({-1.5f, 0.0f, 0.25f, 0.25f, 3.0f});
  EXPECT_EQ(histogram.count(), 5);
  for (const auto& [value, count] : std::vector<std::pair<double, int64_t>>{{-1.5, 1}, {0, 1}, {0.25, 2}, {3, 1}}) {
    const auto bin = static_cast<int64_t>(std::floor(value / histogram.width())) - histogram.first();
    EXPECT_EQ(histogram.bins().at(static_cast<size_t>(bin)), count) << value;
  }
  EXPECT_LE(static_cast<int64_t>(histogram.bins().size()), Histogram::kMostBins);
}

TEST(Histogram, counts_what_is_not_finite_apart) {
  const Histogram histogram = histogram_of({1.0f, NAN, INFINITY, -INFINITY});
  EXPECT_EQ(histogram.count(), 1);
  EXPECT_EQ(histogram.not_finite(), 3);
  EXPECT_EQ(histogram.high(), 1);
}

TEST(Histogram, takes_the_largest_and_the_smallest_floats) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const Histogram histogram = histogram_of({kLargest, -kLargest, std::numeric_limits<float>::denorm_min()});
  EXPECT_EQ(histogram.count(), 3);
  EXPECT_EQ(histogram.low(), -kLargest);
}

TEST(Ranges, all_methods_hold_zero_and_stay_inside) {
  for (const Method method : {Method::kMinMax, Method::kPercentile, Method::kEntropy, Method::kMse}) {
    for (const float shift : {-10.0f, 0.0f, 10.0f}) {
      std::vector<float> values = normal(20000, 2);
      for (float& value : values) value += shift;
      const Histogram histogram = histogram_of(values);
      const Range range = choose_range(histogram, method);
      EXPECT_LE(range.low, 0) << name_of(method);
      EXPECT_GE(range.high, 0) << name_of(method);
      EXPECT_GE(range.low, histogram.low()) << name_of(method);
      EXPECT_LE(range.high, histogram.high()) << name_of(method);
    }
    EXPECT_EQ(choose_range(Histogram(), method), Range()) << "of no elements";
    EXPECT_EQ(choose_range(histogram_of({0, 0}), method), Range()) << "of zeros";
    EXPECT_EQ(parse_method(name_of(method)), method);
  }
}

TEST(Ranges, an_outlier_is_clipped_by_all_but_minmax) {
  std::vector<float> values = normal(400000, 3);
  values[7] = 1000;
  const Histogram histogram = histogram_of(values);
  EXPECT_EQ(choose_range(histogram, Method::kMinMax).high, 1000);
  EXPECT_LT(choose_range(histogram, Method::kPercentile).high, 10);
  EXPECT_LT(choose_range(histogram, Method::kEntropy).high, 100);
}

TEST(Ranges, zeros_of_relu_do_not_clip_the_rest) {
  std::vector<float> values = normal(100000, 4);
  for (float& value : values) value = std::max(value, 0.0f);
  const Range range = choose_range(histogram_of(values), Method::kEntropy);
  EXPECT_GT(range.high, 2);
  EXPECT_EQ(range.low, 0);
}

/// The error of each pair of bounds, from the elements themselves.
double slow_error(const std::vector<float>& values, const Affine& quantiser) {
  double sum = 0;
  for (const float value : values) {
    const double code = std::clamp<double>(std::nearbyint(value / quantiser.scale) + quantiser.zero, 0, 255);
    sum += std::pow((code - quantiser.zero) * quantiser.scale - value, 2);
  }
  return sum / static_cast<double>(values.size());
}

TEST(Ranges, the_error_of_a_histogram_is_that_of_its_elements) {
  const std::vector<float> values = normal(50000, 5);
  const Histogram histogram = histogram_of(values);
  for (const Range& range : {Range{-4, 4}, Range{-2, 2}, Range{-1, 5}}) {
    const double slow = slow_error(values, quantiser_of(range));
    EXPECT_NEAR(mean_square_error(histogram, quantiser_of(range)), slow, 0.02 * slow);
  }
}

TEST(Ranges, mse_is_no_worse_than_any_other_method) {
  for (const unsigned seed : {6u, 7u, 8u}) {
    std::vector<float> values = normal(20000, seed);
    for (float& value : values) value = value * value * value;  // long tails
    const Histogram histogram = histogram_of(values);
    const double least = mean_square_error(histogram, quantiser_of(choose_range(histogram, Method::kMse)));
    EXPECT_LE(least, mean_square_error(histogram, quantiser_of(choose_range(histogram, Method::kMinMax))));
    EXPECT_LE(least, 1.1 * mean_square_error(histogram, quantiser_of(choose_range(histogram, Method::kPercentile))));
  }
}

TEST(Ranges, floats_of_8_bits_have_the_smallest_power_of_two_that_reaches_the_largest) {
  EXPECT_EQ(float8_scale(448), 1);
  EXPECT_EQ(float8_scale(448.5), 2);
  EXPECT_EQ(float8_scale(224), 0.5F);
  EXPECT_EQ(float8_scale(0), 1);
  EXPECT_EQ(quantiser_of({-3.5, 1}, Codes::kFloat8).scale, 1.0F / 128);
  EXPECT_EQ(nearest_float8(17), 16);  // a tie, to even
  EXPECT_EQ(nearest_float8(1e6), 448);
}

TEST(Weights, of_floats_of_8_bits_keep_three_bits_of_what_is_small) {
  const std::vector<float> values = {448, 0.0625F, 1, 0.001F, -3.5F, 0};
  const QuantisedWeights made = float8_weights(TensorData::from_values(DType::kFloat32, {3, 2}, values), 1);
  EXPECT_EQ(made.scales.read_double(0), 1);
  EXPECT_EQ(made.scales.read_double(1), std::ldexp(1.0, -12));  // 0.0625 is 256 of these
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = made.codes.read_double(static_cast<int64_t>(i)) * made.scales.read_double(i % 2);
    EXPECT_NEAR(value, values[i], std::fabs(values[i]) / 16) << i;
  }
}

TEST(Weights, each_result_has_a_scale_and_rounds_by_half_of_it) {
  const TensorData weights = TensorData::from_values<float>(DType::kFloat32, {3, 2}, {1, -0.5, 100, 20, 0, 0});
  const QuantisedWeights made = quantise_weights(weights, 0, {}, 1);
  EXPECT_FLOAT_EQ(made.scales.as<float>()[0], 1 / 127.0f);
  EXPECT_FLOAT_EQ(made.scales.as<float>()[1], 100 / 127.0f);
  for (int64_t i = 0; i < 6; ++i) {
    const double scale = made.scales.read_double(i / 2);
    EXPECT_NEAR(made.codes.read_double(i) * scale, weights.read_double(i), 0.5001 * scale);
  }
  const QuantisedWeights columns = quantise_weights(weights, 1, {}, 1);
  EXPECT_FLOAT_EQ(columns.scales.as<float>()[1], 20 / 127.0f);
}

TEST(Weights, a_large_bias_fits_32_bits) {
  const TensorData weights = TensorData::from_values<float>(DType::kFloat32, {1, 1}, {1e-9f});
  const std::vector<float> bias = {50};
  const QuantisedWeights made = quantise_weights(weights, 0, bias, 1e-3);
  EXPECT_LT(50 / (1e-3 * made.scales.read_double(0)), 2147483647.0);
}


/// x -> Conv -> Relu -> {Conv, skip} -> Add -> Relu -> MaxPool -> Conv
Graph residual_block() {
  Graph graph;
  graph.opsets[""] = kOpset;
  const auto value = [&](const char* name, int64_t channels, int64_t size) {
    return graph.add_value(name, DType::kFloat32, Shape{1, channels, size, size});
  };
  const auto conv = [&](const char* name, ValueId x, ValueId y) {
    const ValueId w = graph.add_constant(std::string(name) + "_w", TensorData::from_values<float>(
        DType::kFloat32, {2, 2, 1, 1}, {0.5, -1, 2, 0.25}));
    graph.add_node({.name = name, .domain = "", .op = "Conv", .attributes = {}, .inputs = {x, w}, .outputs = {y}});
  };
  const auto node = [&](const char* op, std::vector<ValueId> inputs, ValueId y, Attributes attributes = {}) {
    graph.add_node({.name = graph.value(y).name, .domain = "", .op = op, .attributes = std::move(attributes),
                    .inputs = std::move(inputs), .outputs = {y}});
  };
  const ValueId x = value("x", 2, 4), a = value("a", 2, 4), r = value("r", 2, 4), b = value("b", 2, 4);
  const ValueId s = value("s", 2, 4), t = value("t", 2, 4), p = value("p", 2, 2), y = value("y", 2, 2);
  graph.inputs = {x};
  conv("first", x, a);
  node("Relu", {a}, r);
  conv("second", r, b);
  node("Add", {b, r}, s);
  node("Relu", {s}, t);
  node("MaxPool", {t}, p, {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
  conv("third", p, y);
  graph.outputs = {y};
  return graph;
}

std::set<std::string> names_of(const Graph& graph, const Places& places) {
  std::set<std::string> names;
  for (const auto& [value, root] : places.ranges) {
    names.insert(graph.value(value).name + ":" + graph.value(root).name);
  }
  return names;
}

TEST(Places, values_stay_8_bits_from_product_to_product) {
  const Graph graph = residual_block();
  const Places places = find_places(graph);
  EXPECT_EQ(places.nodes.size(), 5u);  // three Conv, the Add and the MaxPool
  EXPECT_EQ(names_of(graph, places), (std::set<std::string>{"x:x", "r:r", "b:b", "t:t", "p:t"}));
}

TEST(Places, what_is_left_out_stays_f32_with_its_reason) {
  const Graph graph = residual_block();
  const Places places = find_places(graph, {{"third", "left out"}});
  ASSERT_EQ(places.kept.size(), 1u);
  EXPECT_EQ(places.kept[0].node, "third");
  EXPECT_EQ(names_of(graph, places), (std::set<std::string>{"x:x", "r:r"}));
}

TEST(Insert, each_activation_is_quantised_once) {
  Graph graph = residual_block();
  const Places places = find_places(graph);
  Quantisers quantisers;
  for (const auto& [value, root] : places.ranges) quantisers[graph.value(root).name] = quantiser_of({-1, 1});
  const auto noise = insert(graph, places, quantisers);
  verify(graph);
  EXPECT_EQ(noise.size(), 3u);
  int quantizers = 0, dequantizers = 0;
  for (const Node& node : graph.nodes) {
    quantizers += node.op == "QuantizeLinear" ? 1 : 0;
    dequantizers += node.op == "DequantizeLinear" ? 1 : 0;
  }
  EXPECT_EQ(quantizers, 5);
  EXPECT_EQ(dequantizers, 5 + 3);  // and one for the weights of each Conv
}

}  // namespace
/// x -> Relu -> rounding of `steps` steps of 0.5 from `low` on -> MaxPool -> Conv, as FakeQuant nodes are converted.
Graph rounded_network(float low, int steps) {
  Graph graph;
  graph.opsets[""] = kOpset;
  const auto value = [&](const char* name) {
    return graph.add_value(name, DType::kFloat32, Shape{1, 1, 4, 4});
  };
  const auto number = [&](float element) {
    return graph.add_constant(fmt::format("c{}", graph.values.size()),
                              TensorData::from_values<float>(DType::kFloat32, {}, {element}));
  };
  const auto node = [&](const char* op, std::vector<ValueId> inputs, const char* result, Attributes attributes = {}) {
    const ValueId made = value(result);
    graph.add_node({.name = result, .domain = "", .op = op, .attributes = std::move(attributes),
                    .inputs = std::move(inputs), .outputs = {made}});
    return made;
  };
  graph.inputs = {value("x")};
  const ValueId r = node("Relu", {graph.inputs[0]}, "r");
  const ValueId clipped = node("Clip", {r, number(low), number(low + 0.5F * static_cast<float>(steps))}, "clipped");
  const ValueId scaled = node("Mul", {node("Sub", {clipped, number(low)}, "shifted"), number(2)}, "scaled");
  const ValueId floor = node("Floor", {node("Add", {scaled, number(0.5)}, "half")}, "floor");
  const ValueId rounded = node("Add", {node("Mul", {floor, number(0.5)}, "back"), number(low)}, "rounded");
  const ValueId p = node("MaxPool", {rounded}, "p", {{"kernel_shape", std::vector<int64_t>{1, 1}}});
  const ValueId w = graph.add_constant("w", TensorData::from_values<float>(DType::kFloat32, {1, 1, 1, 1}, {2}));
  graph.outputs = {node("Conv", {p, w}, "y")};
  return graph;
}

TEST(StatedRanges, a_rounding_becomes_the_range_of_what_it_rounds) {
  Graph graph = rounded_network(0, 255);
  auto ranges = take_stated_ranges(graph);
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges.at("r").range, (Range{0, 127.5}));
  EXPECT_EQ(graph.nodes.size(), 3u);  // Relu, MaxPool and Conv
  spread_ranges(graph, ranges);
  EXPECT_EQ(ranges.at("p").range, (Range{0, 127.5}));
  EXPECT_FALSE(ranges.contains("x"));
}

TEST(StatedRanges, more_steps_than_8_bits_have_stay_operators) {
  Graph graph = rounded_network(-1, 1000);
  const size_t nodes = graph.nodes.size();
  EXPECT_TRUE(take_stated_ranges(graph).empty());
  EXPECT_EQ(graph.nodes.size(), nodes);
}

TEST(CalibrationFile, has_a_network_or_several) {
  const Calibration first{.method = Method::kMse, .samples = 3, .network = "a", .data = "d",
                          .tensors = {{"x", {{-1, 2}, 0.5}}}};
  Calibration second = first;
  second.network = "b";
  for (const std::vector<Calibration>& all : {std::vector{first}, {first, second}}) {
    const std::vector<Calibration> read = parse_calibrations(print(all), "file");
    ASSERT_EQ(read.size(), all.size());
    EXPECT_EQ(read.back().network, all.back().network);
    EXPECT_EQ(read.back().tensors, first.tensors);
  }
  for (const char* text : {R"({"format": "graft calibration 1", "networks": []})",
                           R"({"format": "graft calibration 1", "networks": [3]})"}) {
    EXPECT_THROW(parse_calibrations(text, "file"), Error) << text;
  }
}

}  // namespace
