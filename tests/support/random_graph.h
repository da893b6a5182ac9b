// SPDX-License-Identifier: Apache-2.0
// Random graphs of common operators, for tests that compare two ways to compute the same.
#pragma once

#include "graph/graph.h"

namespace graft {

/// A graph of about `steps` operators over f32 values of rank 2 or 3 whose first axis is the symbol `n`; the same seed
/// gives the same graph.
Graph random_graph(uint64_t seed, int steps);

}  // namespace graft
