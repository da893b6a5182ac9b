// SPDX-License-Identifier: Apache-2.0
// What each layer of a network takes, and what it adds to the error when it is quantised.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "driver/measured_network.h"
#include "quantize/insert.h"
#include "quantize/places.h"

namespace graft {

/// The layers of a network that can be quantised, in its order.
struct Layers {
  Layers() = default;
  Layers(const Graph& graph, const quantize::Places& places);

  std::vector<std::string> names;
  std::vector<ValueId> inputs;      ///< what each reads
  std::vector<double> weights;      ///< how many elements each has
  std::vector<bool> are_matrices;   ///< whether these are a matrix
};

/// The milliseconds of each layer among those of an engine's steps. A step belongs to the layers whose nodes it fuses,
/// or what quantising put in their place, or before them (quantising the activation that they read); where there are
/// several, by their weights. Products of one input share their time in the same way, as passes may merge them, and so
/// do convolutions of which one has no step.
std::vector<double> times_of(const Layers& layers, const Graph& graph, const Engine& engine,
                             const std::vector<double>& steps);

/// What quantising one layer alone does to the network's outputs.
struct LayerError {
  double error = 0;  ///< Difference::error
  double noise = 0;  ///< of the worst output, in power, as a share of its signal's (Difference::worst_noise_db)
};

/// The error of the network's outputs on a few runs with any of its layers quantised: of one compilation, by
/// quantize::gate. What stands between layers stays in floats. Not for several threads at once.
class LayerErrors {
 public:
  LayerErrors(const Graph& graph, const quantize::Places& places, const quantize::Quantisers& quantisers,
              const quantize::Format& format, const quantize::RoundedWeights& rounded,
              std::vector<std::vector<TensorData>> runs, const CompileOptions& options);

  /// Of each layer alone, on the first of the runs where there are many layers. Layers for which `has_time` no longer
  /// holds are left unknown. Throws `cancelled`.
  std::vector<std::optional<LayerError>> alone(const std::function<bool()>& has_time);
  /// With all layers but the kept ones quantised. Throws `cancelled`.
  LayerError without(const std::vector<bool>& kept);

 private:
  const std::vector<TensorData>& run(std::vector<TensorData> inputs, const std::vector<bool>& quantised);
  LayerError error_of(const std::vector<bool>& quantised, size_t runs);

  std::vector<std::vector<TensorData>> runs_, expected_;
  const CompileOptions& options_;
  size_t layers_ = 0;
  std::unique_ptr<MeasuredNetwork> network_;
};

}  // namespace graft
