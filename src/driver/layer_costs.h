// SPDX-License-Identifier: Apache-2.0
// What each layer of a network takes, and what it adds to the error when it is quantised.
#pragma once

#include <functional>
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

/// The error of the network's outputs on these runs when one layer alone is quantised, for each layer: of one
/// compilation, by quantize::gate. Layers for which `has_time` no longer holds are left unknown. Throws `cancelled`.
std::vector<std::optional<LayerError>> errors_of(const Graph& graph, const quantize::Places& places,
                                                 const quantize::Quantisers& quantisers, const quantize::Format& format,
                                                 const quantize::RoundedWeights& rounded,
                                                 const std::vector<std::vector<TensorData>>& runs,
                                                 const CompileOptions& options, const std::function<bool()>& has_time);

}  // namespace graft
