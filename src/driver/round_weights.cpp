// SPDX-License-Identifier: Apache-2.0
#include "driver/round_weights.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/available_threads.h"
#include "base/error.h"
#include "passes/edit.h"

namespace graft {
namespace {

using quantize::ChannelProducts;

constexpr int64_t kMostChannels = 4096;           // the time grows with their cube: 20 s at 4,096, 2 cores
constexpr int64_t kMostRows = 4096;               // of samples and positions: more change little
constexpr int64_t kMostSumBytes = int64_t{1} << 30;  // of the sums of one pass over the samples

/// A matrix and what it multiplies.
struct Matrix {
  ValueId weights = kNoValue;
  int64_t results = 1;              ///< the axis of its results
  std::vector<ValueId> activations;
  ChannelProducts products;
};

std::vector<Matrix> matrices_of(const Graph& graph, const quantize::Places& places) {
  std::vector<Matrix> found;
  for (const quantize::Place& place : places.nodes) {
    const Node& node = graph.nodes[static_cast<size_t>(place.node)];
    if (!place.weighted || !passes::is_op(node, {"MatMul", "Gemm"})) continue;
    const ValueId weights = node.inputs[1];
    const int64_t results = quantize::result_axis(node);
    const auto same = [&](const Matrix& each) { return each.weights == weights && each.results == results; };
    const auto known = std::find_if(found.begin(), found.end(), same);
    if (known != found.end()) {
      known->activations.push_back(node.inputs[0]);
      continue;
    }
    const int64_t channels = graph.value(weights).constant->shape()[static_cast<size_t>(1 - results)];
    if (channels <= kMostChannels) found.push_back({weights, results, {node.inputs[0]}, ChannelProducts(0)});
  }
  return found;
}

class Rounding {
 public:
  Rounding(const Graph& graph, const quantize::Format& format, const CompileOptions& options)
      : graph_(graph), format_(format), options_(options),
        threads_(options.threads > 0 ? options.threads : available_threads()) {}

  /// Of some matrices, whose sums are in memory together.
  void add(std::span<Matrix> matrices, const CalibrationData& data, const SampleForm& form) {
    Graph watched = graph_;
    std::map<ValueId, std::pair<bool, size_t>> places;  // among the inputs, or the results
    for (Matrix& matrix : matrices) {
      for (const ValueId activation : matrix.activations) places[activation] = watch(watched, activation);
    }
    MeasuredNetwork network(std::move(watched), options_);
    for_each_run(data, form, options_, "rounding by samples", [&](const std::vector<TensorData>& inputs) {
      const std::vector<TensorData>& results = network.run(inputs);
      for (Matrix& matrix : matrices) {
        for (const ValueId activation : matrix.activations) {
          const auto& [is_input, number] = places.at(activation);
          add(matrix, (is_input ? inputs : results)[number], graph_.value(activation).name, data.where);
        }
      }
    });
    for (Matrix& matrix : matrices) round(matrix);
  }

  quantize::RoundedWeights finish() { return std::move(rounded_); }

 private:
  std::pair<bool, size_t> watch(Graph& watched, ValueId activation) const {
    const auto input = std::find(watched.inputs.begin(), watched.inputs.end(), activation);
    if (input != watched.inputs.end()) return {true, static_cast<size_t>(input - watched.inputs.begin())};
    auto output = std::find(watched.outputs.begin(), watched.outputs.end(), activation);
    if (output == watched.outputs.end()) output = watched.outputs.insert(watched.outputs.end(), activation);
    return {false, static_cast<size_t>(output - watched.outputs.begin())};
  }

  void add(Matrix& matrix, const TensorData& activation, const std::string& name, const std::string& where) const {
    const std::span<const float> elements = activation.as<float>();
    const int64_t left = (kMostRows - matrix.products.rows()) * matrix.products.channels();
    const auto used = elements.first(std::min(elements.size(), static_cast<size_t>(std::max<int64_t>(left, 0))));
    const bool is_finite = std::all_of(used.begin(), used.end(), [](float each) { return std::isfinite(each); });
    GRAFT_USER_CHECK(is_finite, kInvalidArgument,
                     fmt::format("with this data elements of '{}' are NaN or infinite in f32: mend the data, or the "
                                 "network", name), where);
    matrix.products.add(used, threads_);
  }

  void round(Matrix& matrix) {
    report(options_, "quantize", fmt::format("rounding {}", graph_.value(matrix.weights).name));
    if (matrix.products.rows() == 0) return;
    rounded_.emplace(std::pair(matrix.weights, matrix.results),
                     quantize::quantise_blocks(*graph_.value(matrix.weights).constant, 1 - matrix.results,
                                               format_.block, matrix.products, threads_));
    matrix.products = ChannelProducts(0);
  }

  const Graph& graph_;
  const quantize::Format& format_;
  const CompileOptions& options_;
  const int threads_;
  quantize::RoundedWeights rounded_;
};

}  // namespace

quantize::RoundedWeights round_weights(const Graph& graph, const quantize::Places& places,
                                       const quantize::Format& format, const CalibrationData& data,
                                       const SampleForm& form, const CompileOptions& options) {
  std::vector<Matrix> matrices = matrices_of(graph, places);
  Rounding rounding(graph, format, options);
  for (size_t first = 0; first < matrices.size();) {
    int64_t bytes = 0;
    size_t last = first;
    for (; last < matrices.size(); ++last) {
      Matrix& matrix = matrices[last];
      const int64_t channels =
          graph.value(matrix.weights).constant->shape()[static_cast<size_t>(1 - matrix.results)];
      bytes += channels * channels * int64_t{sizeof(double)};
      if (last > first && bytes > kMostSumBytes) break;
      matrix.products = ChannelProducts(channels);
    }
    rounding.add(std::span(matrices).subspan(first, last - first), data, form);
    first = last;
  }
  return rounding.finish();
}

}  // namespace graft
