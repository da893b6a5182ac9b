// SPDX-License-Identifier: Apache-2.0
// Constants that stand in the code of a region instead of in memory.
#pragma once

#include "graph/graph.h"
#include "graph/op_def.h"

namespace graft {

/// Integers that a definition loads from constants -> the integers: what they choose is known then, so that the choice
/// of one part of a tensor is a view. So are zero points of 0 and scales of 1, by which nothing is computed then, and
/// bounds of Clip and its kin.
void place_constants(const Graph& graph, const Node& node, NodeDefinition& definition);

}  // namespace graft
