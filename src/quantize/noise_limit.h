// SPDX-License-Identifier: Apache-2.0
// Which layers stay in floats so that a network's outputs keep their signal-to-noise ratio: by measured noise alone.
#pragma once

#include <functional>
#include <vector>

namespace graft::quantize {

/// Measures the network in which these layers stay in floats, and gives the noise of its outputs.
using MeasureNoise = std::function<double(const std::vector<bool>& kept)>;

/// What is known of a network's noise. All noise is power, as a share of the signal's.
struct KnownNoise {
  std::vector<double> alone;  ///< of the network's outputs if a layer alone is quantised
  double all = 0;             ///< if all layers are
};

/// The fewest layers, the noisiest first, that have to stay in floats for the noise to be at most `limit`; at least one
/// layer stays quantised. Noise of independent layers adds up: that predicts how many have to, and what `measure` finds
/// corrects the prediction, and halves the numbers between the last network beyond the limit and the last one within
/// it. Gives the fewest layers that were found to keep the limit; where none do, those of the network with the least
/// noise.
std::vector<bool> keep_noisiest(const KnownNoise& known, double limit, const MeasureNoise& measure);

/// The same where measuring is expensive: `estimate` measures on few samples, and does the search; `measure`, on all,
/// is asked for what the search found, a few times at most: each time it corrects the limit of the next search. `known`
/// is of all samples but for the noise of single layers.
std::vector<bool> keep_noisiest(const KnownNoise& known, double limit, const MeasureNoise& estimate,
                                const MeasureNoise& measure);

}  // namespace graft::quantize
