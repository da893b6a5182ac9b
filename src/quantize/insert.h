// SPDX-License-Identifier: Apache-2.0
// A network with quantised operands at its places.
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

/// Rounds weights of f32, a matrix, to s4 codes from -8 to 7, with a scale for each `block` of elements along `axis`
/// (the last one may be shorter): the scale whose square error is the smallest of a few near the largest magnitude.
QuantisedWeights quantise_blocks(const TensorData& weights, int64_t axis, int64_t block);

/// Brings a graph into the form whose places are found: constants are folded, padding and batch normalisation are part
/// of convolutions. All operators stay ONNX's own.
void prepare(Graph& graph, const PassContext& context);

/// Activations by name, with their u8 quantisers; there is one for each root of Places::ranges.
using Quantisers = std::map<std::string, Affine, std::less<>>;

/// Quantises the operands at the places. Gives back the noise of each quantised node's weights
/// (QuantisedWeights::noise), by the node's name.
/// - Static: Q/DQ stand around activations and weights. Bias becomes i32 with the scale of activations times that of
///   weights.
/// - Dynamic: a product becomes MatMulInteger of u8 rows, whose zero point is 128 and whose scale is the row's largest
///   magnitude / 127, and s8 weights; the sums are scaled behind it. Nothing is rounded by what is in other rows.
/// - Float: the weights are read through a DequantizeLinear.
std::map<std::string, double, std::less<>> insert(Graph& graph, const Places& places, const Quantisers& quantisers,
                                                  const Format& format = {});

}  // namespace graft::quantize
