// SPDX-License-Identifier: Apache-2.0
// A network with quantised operands at its places.
#pragma once

#include "passes/pass.h"
#include "quantize/places.h"
#include "quantize/round_blocks.h"

namespace graft::quantize {

/// Rounds weights of f32. `bias` (one element per scale, or empty): a scale is no smaller than keeps bias / (scale *
/// activation_scale) within 30 bits.
QuantisedWeights quantise_weights(const TensorData& weights, int64_t axis, std::span<const float> bias,
                                  double activation_scale);

/// Rounds weights of f32 to f8e4m3fn, with a power of two as the scale of each index along the axis.
QuantisedWeights float8_weights(const TensorData& weights, int64_t axis);

/// Brings a graph into the form whose places are found: constants are folded, padding and batch normalisation are part
/// of convolutions. All operators stay ONNX's own.
void prepare(Graph& graph, const PassContext& context);

/// Activations by name, with their quantisers; there is one for each root of Places::ranges.
using Quantisers = std::map<std::string, Affine, std::less<>>;

/// Quantises the operands at the places. Gives back the noise of each quantised node's weights
/// (QuantisedWeights::noise), by the node's name.
/// - Static: Q/DQ stand around activations and weights. Bias becomes i32 with the scale of activations times that of
///   weights; beside floats of 8 bits it stays f32.
/// - Dynamic: a product becomes MatMulInteger of u8 rows, whose zero point is 128 and whose scale is the row's largest
///   magnitude / 127, and s8 weights; the sums are scaled behind it. Nothing is rounded by what is in other rows.
/// - Float: the weights are read through a DequantizeLinear; those of 4 bits are `rounded`, where they are there.
std::map<std::string, double, std::less<>> insert(Graph& graph, const Places& places, const Quantisers& quantisers,
                                                  const Format& format = {}, const RoundedWeights& rounded = {});

}  // namespace graft::quantize
