// SPDX-License-Identifier: Apache-2.0
// Which layers are quantised so that a bound holds and the network is fast: a search over measured networks.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace graft::quantize {

/// What a layer adds to the error, and what it wins.
struct LayerCost {
  double error = 0;  ///< of the network if this layer alone is quantised; any unit that all layers share
  double won = 0;    ///< milliseconds that the network is faster with it; negative: slower
};

/// A measured network.
struct Trial {
  std::vector<bool> kept;   ///< by layer: whether it stays in floats
  double error = 0;         ///< in the unit of LayerCost::error; infinite where it is not known
  double milliseconds = 0;  ///< of a run
  bool is_met = false;      ///< whether the bound holds
};

struct Budget {
  std::vector<LayerCost> layers;
  std::optional<double> most_error;   ///< the bound, where it is one of the error
  double milliseconds = 0;            ///< of a run with all layers quantised
  std::function<Trial(const std::vector<bool>& kept)> measure;  ///< may throw, which ends the search
  std::function<bool()> has_time;     ///< asked before each trial but those without which nothing is known
};

/// Layers in the order in which they return to floats: those that win nothing first, then by noise power (the square of
/// the error, as powers of independent errors add up) per millisecond won.
std::vector<size_t> order_of_return(const std::vector<LayerCost>& layers);

/// Measures networks, starting from `all` (every layer quantised), and gives all that it measured. If `all` keeps the
/// bound, it tries the network without the layers that lose time, if that is more than a twentieth of all. Otherwise it
/// returns layers in order_of_return(): from the number that the errors predict, by steps that double, then by halves,
/// down to a hundredth of the time. Then it quantises layers again whose errors fit into what the bound leaves. At
/// least one layer stays quantised.
std::vector<Trial> search(const Budget& budget, Trial all);

/// The fastest trial that keeps the bound; one with more quantised layers where another is not faster by more than 2 %,
/// which measurements do not tell apart. Nothing where none keeps it.
std::optional<size_t> fastest(const std::vector<Trial>& trials);

}  // namespace graft::quantize
