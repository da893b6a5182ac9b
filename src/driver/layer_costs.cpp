// SPDX-License-Identifier: Apache-2.0
#include "driver/layer_costs.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/error.h"
#include "quantize/gated_network.h"

namespace graft {
namespace {

using quantize::Place;

/// Finds the layers of a step by the names of its nodes.
class Naming {
 public:
  Naming(const Layers& layers, const Graph& graph) {
    for (const Node& node : graph.nodes) nodes_.insert(node.name);
    for (size_t n = 0; n < layers.names.size(); ++n) {
      layers_[layers.names[n]] = n;
      if (layers.inputs[n] != kNoValue) readers_[graph.value(layers.inputs[n]).name].push_back(n);
    }
  }

  std::set<size_t> of(const EngineStep& step) const {
    std::set<size_t> found;
    for (const std::string& node : step.nodes) add_layer(node, found);
    if (!found.empty()) return found;
    for (const std::string& node : step.nodes) add_readers(node, found);
    return found;
  }

 private:
  /// A node of the network by its name; what was made of it is called LAYER/... .
  void add_layer(std::string_view node, std::set<size_t>& found) const {
    const auto exact = layers_.find(node);
    if (exact != layers_.end()) found.insert(exact->second);
    if (nodes_.contains(node)) return;
    for (size_t slash = node.rfind('/'); slash != node.npos && slash > 0; slash = node.rfind('/', slash - 1)) {
      const auto layer = layers_.find(node.substr(0, slash));
      if (layer != layers_.end()) return void(found.insert(layer->second));
    }
  }

  /// What quantises an activation is called VALUE/... .
  void add_readers(std::string_view node, std::set<size_t>& found) const {
    if (nodes_.contains(node)) return;
    for (size_t slash = node.rfind('/'); slash != node.npos && slash > 0; slash = node.rfind('/', slash - 1)) {
      const auto readers = readers_.find(node.substr(0, slash));
      if (readers == readers_.end()) continue;
      found.insert(readers->second.begin(), readers->second.end());
      return;
    }
  }

  std::set<std::string, std::less<>> nodes_;
  std::map<std::string, size_t, std::less<>> layers_;
  std::map<std::string, std::vector<size_t>, std::less<>> readers_;
};

/// Divides a time among layers by their weights.
void share(double time, const std::set<size_t>& among, const Layers& layers, std::vector<double>& times) {
  double all = 0;
  for (const size_t layer : among) all += layers.weights[layer];
  for (const size_t layer : among) {
    times[layer] += all > 0 ? time * layers.weights[layer] / all : time / static_cast<double>(among.size());
  }
}

/// The numbers from 0 on, every sixteenth first, then those between: what is left out at the end has neighbours.
std::vector<size_t> spread(size_t count) {
  std::vector<size_t> order;
  for (size_t step = 16; step > 0; step /= 2) {
    for (size_t n = 0; n < count; n += step) {
      if (step == 16 || n % (2 * step) != 0) order.push_back(n);
    }
  }
  return order;
}

}  // namespace

Layers::Layers(const Graph& graph, const quantize::Places& places) {
  for (const Place& place : places.nodes) {
    if (!place.weighted) continue;
    const Node& node = graph.nodes[static_cast<size_t>(place.node)];
    names.push_back(node.name);
    inputs.push_back(node.inputs[1 - place.weights]);
    const TensorData& constant = *graph.value(node.inputs[place.weights]).constant;
    weights.push_back(static_cast<double>(constant.element_count()));
    are_matrices.push_back(constant.rank() == 2);
  }
}

std::vector<double> times_of(const Layers& layers, const Graph& graph, const Engine& engine,
                             const std::vector<double>& steps) {
  const Naming naming(layers, graph);
  std::vector<double> times(layers.names.size(), 0);
  std::vector<bool> found(times.size(), false);
  for (size_t s = 0; s < engine.steps.size(); ++s) {
    const std::set<size_t> among = naming.of(engine.steps[s]);
    for (const size_t layer : among) found[layer] = true;
    share(steps[s], among, layers, times);
  }
  std::map<ValueId, std::set<size_t>> siblings;
  for (size_t n = 0; n < times.size(); ++n) siblings[layers.inputs[n]].insert(n);
  for (const auto& [input, group] : siblings) {
    bool is_shared = true;
    double all = 0;
    for (const size_t layer : group) is_shared = is_shared && layers.are_matrices[layer], all += times[layer];
    for (const size_t layer : group) is_shared = is_shared || !found[layer];
    if (!is_shared) continue;
    for (const size_t layer : group) times[layer] = 0;
    share(all, group, layers, times);
  }
  return times;
}

LayerErrors::LayerErrors(const Graph& graph, const quantize::Places& places, const quantize::Quantisers& quantisers,
                         const quantize::Format& format, const quantize::RoundedWeights& rounded,
                         std::vector<std::vector<TensorData>> runs, const CompileOptions& options)
    : runs_(std::move(runs)), options_(options) {
  quantize::GatedNetwork gated = quantize::gate(graph, places, quantisers, format, rounded);
  layers_ = gated.layers.size();
  network_ = std::make_unique<MeasuredNetwork>(std::move(gated.graph), options);
  for (const std::vector<TensorData>& inputs : runs_) expected_.push_back(run(inputs, std::vector<bool>(layers_)));
}

const std::vector<TensorData>& LayerErrors::run(std::vector<TensorData> inputs, const std::vector<bool>& quantised) {
  if (options_.cancelled && options_.cancelled()) throw Error(ErrorKind::kCancelled, "quantising was cancelled");
  for (const bool each : quantised) inputs.push_back(TensorData::from_values<int>(DType::kBool, {}, {each ? 1 : 0}));
  return network_->run(inputs);
}

LayerError LayerErrors::error_of(const std::vector<bool>& quantised, size_t runs) {
  Difference difference;
  for (size_t n = 0; n < runs; ++n) difference.add(expected_[n], run(runs_[n], quantised));
  return {difference.error(), noise_power(difference.worst_noise_db())};
}

std::vector<std::optional<LayerError>> LayerErrors::alone(const std::function<bool()>& has_time) {
  constexpr size_t kMostRuns = 128;  // of all layers, where one run of each is less
  const size_t runs = std::clamp<size_t>(kMostRuns / std::max<size_t>(layers_, 1), 1, runs_.size());
  std::vector<std::optional<LayerError>> errors(layers_);
  size_t done = 0;
  for (const size_t layer : spread(layers_)) {
    if (!has_time()) break;
    report(options_, "quantize", "layer by layer", static_cast<int>(done++), static_cast<int>(layers_));
    std::vector<bool> quantised(layers_, false);
    quantised[layer] = true;
    errors[layer] = error_of(quantised, runs);
  }
  return errors;
}

LayerError LayerErrors::without(const std::vector<bool>& kept) {
  std::vector<bool> quantised = kept;
  quantised.flip();
  return error_of(quantised, runs_.size());
}

}  // namespace graft
