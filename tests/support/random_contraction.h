// SPDX-License-Identifier: Apache-2.0
// Random products, convolutions and reductions of all types, for tests that compare two ways to compute the same.
#pragma once

#include "graph/graph.h"

namespace graft {

/// A product of matrices or a convolution, with odd sizes of which one may be open, a type, layouts of the operands and
/// what becomes of the result all random. The same seed gives the same graph.
Graph random_contraction(uint64_t seed);
/// A reduction, scan, selection or normalisation over random axes of a tensor of random rank, between maps.
Graph random_reduction(uint64_t seed);

}  // namespace graft
