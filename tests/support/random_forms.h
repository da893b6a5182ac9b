// SPDX-License-Identifier: Apache-2.0
// Random graphs of the forms that have strategies of their own, for tests of lowering and code generation: by a seed.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace graft {

/// A product over several axes of either side, in any order of the axes, some short.
Graph random_einsum(uint64_t seed);
/// Windows over images: pooling, or a convolution of single channels, of any type.
Graph random_window(uint64_t seed);
/// Attention with what a graph can ask of it: causal, windows, masks, groups of heads, a cache, heads in the last axis.
Graph random_masked_attention(uint64_t seed);

/// Folds by operators of users, with known and with open lengths: each combination of two states that may be told to
/// commute, or may not, by the order of operands and the direction of comparisons.
std::vector<Graph> graphs_of_folds();

}  // namespace graft
