// SPDX-License-Identifier: Apache-2.0
// Random blocks of vision networks, for tests that compare two ways to compute the same.
#pragma once

#include "graph/graph.h"

namespace graft {

/// Pointwise, depthwise and full convolutions, activations that are spelled out, gates, pooling windows, and
/// normalisations and products of channels-last images between transpositions, in random order; weights are constants.
/// The same seed gives the same graph.
Graph random_image_block(uint64_t seed);
/// Products and a softmax with random sizes, factors, biases, masks and windows.
Graph random_attention(uint64_t seed);

}  // namespace graft
