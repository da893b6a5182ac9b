// SPDX-License-Identifier: Apache-2.0
#include "quantize/smooth.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "passes/edit.h"

namespace graft::quantize {
namespace {

using passes::constant_of;
using passes::input;
using passes::integer;
using passes::is_op;
using passes::rank_of;

/// A channel stands out from this multiple of the mean of all on: below, 8 bits lose less than two bits in the others.
constexpr double kOutlier = 4;
constexpr int kLargestExponent = 24;

bool has_floats(const TensorData* constant) { return constant && constant->type() == DType::kFloat32; }

/// Whether a node multiplies an activation by a constant matrix of `channels` rows.
bool reads_channels(const Graph& graph, const Node& node, ValueId activation, int64_t channels) {
  if (!is_op(node, {"MatMul", "Gemm"}) || node.inputs[0] != activation || node.inputs[1] == activation) return false;
  if (input(node, 2) == activation || integer(node, "transA", 0) != 0) return false;
  const TensorData* weights = constant_of(graph, node.inputs[1]);
  return has_floats(weights) && weights->rank() == 2 &&
         weights->shape()[integer(node, "transB", 0) != 0 ? 1 : 0] == channels;
}

/// The number of channels of an activation, where it is known.
std::optional<int64_t> channels_of(const Graph& graph, ValueId activation) {
  const std::optional<Shape>& shape = graph.value(activation).shape;
  if (!shape || shape->empty()) return std::nullopt;
  return shape->back().as_constant();
}

/// A constant that has an element for each channel, or one for all.
bool is_by_channel(const TensorData* constant, int64_t channels) {
  if (!has_floats(constant) || constant->element_count() == 0) return false;
  const bool is_last = constant->rank() > 0 && constant->shape().back() == channels;
  return constant->element_count() == 1 || (is_last && constant->element_count() == channels);
}

/// Divides the channels of an activation in what makes it, where that can be done. Without a graph to edit it only
/// looks.
class Folding {
 public:
  Folding(const Graph& graph, Graph* edited, const std::vector<std::vector<int>>& readers, int64_t channels)
      : graph_(graph), edited_(edited), readers_(readers), channels_(channels) {}

  bool fold(ValueId value, std::span<const float> scales, bool is_read_by_layers) {
    if (graph_.is_output(value) || graph_.value(value).producer < 0) return false;
    if (!is_read_by_layers && readers_[static_cast<size_t>(value)].size() != 1) return false;
    const int index = graph_.value(value).producer;
    const Node& node = graph_.nodes[static_cast<size_t>(index)];
    if (is_op(node, {"Relu"})) return fold(node.inputs[0], scales, false);
    if (is_op(node, {"LayerNormalization", "RMSNormalization"})) return fold_normalisation(index, scales);
    if (is_op(node, {"MatMul", "Gemm"})) return fold_product(index, scales);
    if (is_op(node, {"Mul", "Add", "Div"})) return fold_constant(index, scales);
    return false;
  }

 private:
  bool fold_normalisation(int index, std::span<const float> scales) {
    const Node& node = graph_.nodes[static_cast<size_t>(index)];
    const int64_t axis = integer(node, "axis", -1);
    const int rank = rank_of(graph_, node.inputs[0]);
    if (axis != -1 && axis != rank - 1) return false;
    const bool has_bias = input(node, 2) != kNoValue;
    if (!is_by_channel(constant_of(graph_, node.inputs[1]), channels_)) return false;
    if (has_bias && !is_by_channel(constant_of(graph_, node.inputs[2]), channels_)) return false;
    if (!edited_) return true;
    divide(index, 1, scales);
    if (has_bias) divide(index, 2, scales);
    return true;
  }

  bool fold_product(int index, std::span<const float> scales) {
    const Node& node = graph_.nodes[static_cast<size_t>(index)];
    const TensorData* weights = constant_of(graph_, node.inputs[1]);
    const size_t axis = integer(node, "transB", 0) != 0 ? 0 : 1;
    if (!has_floats(weights) || weights->rank() != 2 || weights->shape()[axis] != channels_) return false;
    const bool has_bias = input(node, 2) != kNoValue;
    if (has_bias && !is_by_channel(constant_of(graph_, node.inputs[2]), channels_)) return false;
    if (!edited_) return true;
    scale(index, 1, axis, scales, true);
    if (has_bias) divide(index, 2, scales);
    return true;
  }

  /// x * c -> x * (c / s); x / c -> x / (c * s); x + c -> x / s + c / s, where what makes x takes the scales.
  bool fold_constant(int index, std::span<const float> scales) {
    const Node& node = graph_.nodes[static_cast<size_t>(index)];
    const bool divides = is_op(node, {"Div"});
    const size_t place = constant_of(graph_, node.inputs[1]) ? 1 : 0;
    if (!is_by_channel(constant_of(graph_, node.inputs[place]), channels_) || (divides && place == 0)) return false;
    const ValueId other = node.inputs[1 - place];
    if (constant_of(graph_, other) || channels_of(graph_, other) != channels_) return false;
    if (is_op(node, {"Add"}) && !fold(other, scales, false)) return false;
    if (!edited_) return true;
    divides ? multiply(index, place, scales) : divide(index, place, scales);
    return true;
  }

  void divide(int index, size_t place, std::span<const float> scales) { scale_list(index, place, scales, true); }
  void multiply(int index, size_t place, std::span<const float> scales) { scale_list(index, place, scales, false); }

  /// A constant by channel.
  void scale_list(int index, size_t place, std::span<const float> scales, bool divides) {
    const TensorData before = *constant_of(graph_, graph_.nodes[static_cast<size_t>(index)].inputs[place]);
    std::vector<int64_t> shape = before.shape();
    if (before.element_count() == 1) {
      if (shape.empty()) shape.push_back(1);
      shape.back() = channels_;
    }
    TensorData made = TensorData::zeros(DType::kFloat32, shape);
    for (int64_t n = 0; n < channels_; ++n) {
      const double value = before.read_double(before.element_count() == 1 ? 0 : n);
      const float by = scales[static_cast<size_t>(n)];
      made.write_double(n, divides ? value / by : value * by);
    }
    replace(index, place, std::move(made));
  }

  void scale(int index, size_t place, size_t axis, std::span<const float> scales, bool divides) {
    TensorData made = *constant_of(graph_, graph_.nodes[static_cast<size_t>(index)].inputs[place]);
    scale_matrix(made, axis, scales, divides);
    replace(index, place, std::move(made));
  }

 public:
  static void scale_matrix(TensorData& matrix, size_t axis, std::span<const float> scales, bool divides) {
    const int64_t columns = matrix.shape()[1];
    const std::span<float> elements = matrix.mutable_as<float>();
    for (size_t i = 0; i < elements.size(); ++i) {
      const auto row = static_cast<int64_t>(i) / columns, column = static_cast<int64_t>(i) % columns;
      const float by = scales[static_cast<size_t>(axis == 0 ? row : column)];
      elements[i] = divides ? elements[i] / by : elements[i] * by;
    }
  }

  /// Other nodes may read the constant as it was.
  void replace(int index, size_t place, TensorData made) {
    const std::string name = graph_.value(graph_.nodes[static_cast<size_t>(index)].inputs[place]).name + "/smoothed";
    const ValueId value = edited_->add_constant(name, std::move(made));
    edited_->nodes[static_cast<size_t>(index)].inputs[place] = value;
  }

 private:
  const Graph& graph_;
  Graph* const edited_;  ///< the same graph, or null
  const std::vector<std::vector<int>>& readers_;
  const int64_t channels_;
};

/// Whether all that reads an activation multiplies it by constant matrices.
bool is_read_by_layers(const Graph& graph, const std::vector<std::vector<int>>& readers, ValueId activation,
                       int64_t channels) {
  const std::vector<int>& of_activation = readers[static_cast<size_t>(activation)];
  return !of_activation.empty() && std::all_of(of_activation.begin(), of_activation.end(), [&](int reader) {
    return reads_channels(graph, graph.nodes[static_cast<size_t>(reader)], activation, channels);
  });
}

bool can_smooth(const Graph& graph, const std::vector<std::vector<int>>& readers, ValueId activation) {
  const auto channels = channels_of(graph, activation);
  if (!channels || *channels < 2 || !is_read_by_layers(graph, readers, activation, *channels)) return false;
  return Folding(graph, nullptr, readers, *channels).fold(activation, {}, true);
}

}  // namespace

std::vector<ValueId> smoothable(const Graph& graph, const Places& places) {
  const std::vector<std::vector<int>> readers = graph.consumers();
  std::vector<ValueId> found;
  for (const Place& place : places.nodes) {
    const Node& node = graph.nodes[static_cast<size_t>(place.node)];
    if (!place.weighted || !is_op(node, {"MatMul", "Gemm"})) continue;
    const ValueId activation = node.inputs[0];
    const bool is_known = std::find(found.begin(), found.end(), activation) != found.end();
    if (!is_known && can_smooth(graph, readers, activation)) found.push_back(activation);
  }
  return found;
}

std::vector<int> smoothing_of(const Graph& graph, ValueId activation, std::span<const float> magnitudes) {
  const double mean = std::accumulate(magnitudes.begin(), magnitudes.end(), 0.0) /
                      static_cast<double>(std::max<size_t>(magnitudes.size(), 1));
  const bool stands_out = !magnitudes.empty() &&
                          *std::max_element(magnitudes.begin(), magnitudes.end()) >= kOutlier * mean && mean > 0;
  if (!stands_out) return {};
  std::vector<double> weights(magnitudes.size(), 0);
  for (const Node& node : graph.nodes) {
    if (!reads_channels(graph, node, activation, static_cast<int64_t>(magnitudes.size()))) continue;
    const TensorData& matrix = *constant_of(graph, node.inputs[1]);
    const bool is_turned = integer(node, "transB", 0) != 0;
    const int64_t columns = matrix.shape()[1];
    const std::span<const float> elements = matrix.as<float>();
    for (size_t i = 0; i < elements.size(); ++i) {
      const auto place = static_cast<int64_t>(i);
      double& largest = weights[static_cast<size_t>(is_turned ? place % columns : place / columns)];
      largest = std::max<double>(largest, std::fabs(elements[i]));
    }
  }
  std::vector<int> exponents(magnitudes.size(), 0), known;
  for (size_t n = 0; n < exponents.size(); ++n) {
    if (!(magnitudes[n] > 0) || !(weights[n] > 0) || !std::isfinite(magnitudes[n])) continue;
    exponents[n] = static_cast<int>(std::lround(0.5 * (std::log2(magnitudes[n]) - std::log2(weights[n]))));
    known.push_back(exponents[n]);
  }
  if (known.empty()) return {};
  std::nth_element(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2), known.end());
  const int middle = known[known.size() / 2];  // so that most weights keep their size
  for (size_t n = 0; n < exponents.size(); ++n) {
    const bool is_known = magnitudes[n] > 0 && weights[n] > 0 && std::isfinite(magnitudes[n]);
    exponents[n] = is_known ? std::clamp(exponents[n] - middle, -kLargestExponent, kLargestExponent) : 0;
  }
  return exponents;
}

void smooth(Graph& graph, const Smoothing& smoothing, const std::string& where) {
  for (const auto& [name, exponents] : smoothing) {
    const ValueId activation = graph.find_value(name);
    const std::vector<std::vector<int>> readers = graph.consumers();
    const bool fits = activation != kNoValue && can_smooth(graph, readers, activation) &&
                      channels_of(graph, activation) == static_cast<int64_t>(exponents.size()) &&
                      std::all_of(exponents.begin(), exponents.end(), [](int e) {
                        return std::abs(e) <= kLargestExponent;
                      });
    GRAFT_USER_CHECK(fits, kInvalidArgument,
                     fmt::format("the scales of '{}' do not fit the network: delete the file to calibrate anew", name),
                     where);
    std::vector<float> scales;
    for (const int exponent : exponents) scales.push_back(std::ldexp(1.0F, exponent));
    Folding folding(graph, &graph, readers, static_cast<int64_t>(exponents.size()));
    folding.fold(activation, scales, true);
    for (const int reader : readers[static_cast<size_t>(activation)]) {
      const Node& node = graph.nodes[static_cast<size_t>(reader)];
      TensorData matrix = *constant_of(graph, node.inputs[1]);
      Folding::scale_matrix(matrix, integer(node, "transB", 0) != 0 ? 1 : 0, scales, false);
      folding.replace(reader, 1, std::move(matrix));
    }
  }
  passes::sweep(graph);
}

}  // namespace graft::quantize
