// SPDX-License-Identifier: Apache-2.0
// What a node does with elements, as its definition says: also of operators that users define.
#pragma once

#include "graph/graph.h"

namespace graft::passes {

/// Whether each element of the node's result follows from the elements of its inputs at its place, broadcast, alone.
/// False for several results, and where types or ranks of inputs are not known.
bool is_elementwise(const Graph& graph, const Node& node);

/// Whether each element of the node's result is one of its first input, as it is, and would be with elements of that
/// type; other inputs say which. False for several results, and where types or ranks of inputs are not known.
bool moves_elements(const Graph& graph, const Node& node, DType type);

}  // namespace graft::passes
