// SPDX-License-Identifier: Apache-2.0
// Which layers stay in floats so that a network's outputs keep their signal-to-noise ratio: by measured noise alone.
#pragma once

#include <functional>
#include <vector>

namespace graft::quantize {

/// Measures the network in which these layers stay in floats, and gives the noise of its outputs.
using MeasureNoise = std::function<double(const std::vector<bool>& kept)>;

/// The fewest layers, the noisiest first, that have to stay in floats for the noise to be at most `limit`; at least one
/// layer stays quantised. All noise is power, as a share of the signal's: `noise` of the network's outputs if a layer
/// alone is quantised, `all` if all are. Noise of independent layers adds up: that predicts how many have to, and what
/// `measure` finds corrects the prediction, and halves the numbers between the last network beyond the limit and the
/// last one within it, in a few networks. Gives the fewest layers that were found to keep the limit; where none do,
/// those of the network with the least noise.
std::vector<bool> keep_noisiest(const std::vector<double>& noise, double all, double limit,
                                const MeasureNoise& measure);

}  // namespace graft::quantize
