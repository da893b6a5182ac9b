// SPDX-License-Identifier: Apache-2.0
// A network of which each run decides what is quantised: one compilation tells what each layer adds to the error.
#pragma once

#include <string>
#include <vector>

#include "quantize/insert.h"

namespace graft::quantize {

/// A network that computes each quantised layer twice.
struct GatedNetwork {
  /// The network with further inputs behind its own, a bool for each layer: false takes its floats, true what it gives
  /// quantised, of the same input.
  Graph graph;
  std::vector<std::string> layers;  ///< by input: the node's name
};

/// y = layer(x) -> y = Where(gate, quantised layer(x), layer(x)), for each layer of `places` (those with weights),
/// which are those of `graph`. What stands between layers stays as it is.
GatedNetwork gate(const Graph& graph, const Places& places, const Quantisers& quantisers, const Format& format,
                  const RoundedWeights& rounded = {});

}  // namespace graft::quantize
