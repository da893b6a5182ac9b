// SPDX-License-Identifier: Apache-2.0
// SmoothQuant (Xiao et al., 2023): channels of an activation that are far larger than others take all codes of 8 bits.
// Scales move them into the weights that read the activation, which have room.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "quantize/places.h"

namespace graft::quantize {

/// By activation: for each channel (of the last axis) the power of two that it is divided by. Powers of two, so that a
/// network of f32 computes the same, bit by bit.
using Smoothing = std::map<std::string, std::vector<int>, std::less<>>;

/// The activations that layers of `places` read, with a known number of channels, and whose scales can be folded: all
/// readers are products with constant matrices, and the activation is made by a normalisation with constant scales, by
/// a product with constant weights, or by a product or sum with a constant, behind Relu too, which nothing else reads.
std::vector<ValueId> smoothable(const Graph& graph, const Places& places);

/// The exponents of an activation whose channels have these largest magnitudes: of max|x|^0.5 / max|w|^0.5, w being the
/// weights that multiply a channel. Empty where no channel stands out.
std::vector<int> smoothing_of(const Graph& graph, ValueId activation, std::span<const float> magnitudes);

/// Divides the channels of activations, in what makes them, and multiplies the weights that read them. Throws
/// invalid_argument naming `where` for an activation that the graph does not have, or cannot fold.
void smooth(Graph& graph, const Smoothing& smoothing, const std::string& where);

}  // namespace graft::quantize
