// SPDX-License-Identifier: Apache-2.0
// QuantizeLinear and DequantizeLinear at the places of a network.
#pragma once

#include "passes/pass.h"
#include "quantize/places.h"

namespace graft::quantize {

/// Weights as s8 codes, symmetric, with a scale for each index along an axis.
struct QuantisedWeights {
  TensorData codes, scales;
  double noise = 0;  ///< the mean square that rounding changes, as a share of the mean square of the weights
};

/// Rounds weights of f32. `bias` (one element per scale, or empty): a scale is no smaller than keeps bias / (scale *
/// activation_scale) within 30 bits.
QuantisedWeights quantise_weights(const TensorData& weights, int64_t axis, std::span<const float> bias,
                                  double activation_scale);

/// Brings a graph into the form whose places are found: constants are folded, padding and batch normalisation are part
/// of convolutions. All operators stay ONNX's own.
void prepare(Graph& graph, const PassContext& context);

/// Activations by name, with their u8 quantisers; there is one for each root of Places::ranges.
using Quantisers = std::map<std::string, Affine, std::less<>>;

/// Inserts Q/DQ at the places. Bias becomes i32 with the scale of activations times that of weights. Gives back the
/// noise of each quantised node's weights (QuantisedWeights::noise), by the node's name.
std::map<std::string, double, std::less<>> insert(Graph& graph, const Places& places, const Quantisers& quantisers);

}  // namespace graft::quantize
