// SPDX-License-Identifier: Apache-2.0
// Weights of 4 bits, rounded by samples.
#pragma once

#include "driver/calibration_data.h"
#include "driver/measured_network.h"
#include "quantize/places.h"
#include "quantize/round_blocks.h"

namespace graft {

/// Runs a prepared network on samples, several times where the sums of all its layers would need more than 1 GiB, and
/// rounds the matrices of its products by what they multiply (quantize::quantise_blocks). Matrices of more than 4,096
/// rows, and those that nothing reached, are not in the result. Throws as the samples do, invalid_argument for
/// activations that are not finite, and `cancelled`.
quantize::RoundedWeights round_weights(const Graph& graph, const quantize::Places& places,
                                       const quantize::Format& format, const CalibrationData& data,
                                       const SampleForm& form, const CompileOptions& options);

}  // namespace graft
