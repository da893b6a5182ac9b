// SPDX-License-Identifier: Apache-2.0
// Numbers of axes that branches leave open, and what follows from them.
#pragma once

#include <string>

#include "graph/graph.h"

namespace graft {

/// Whether the branches of an If know the number of axes of a result, each another one.
bool differs_in_rank(const Node& node);
/// The If because of whose branches the number of axes of a value is not known; null where there is none.
const Node* if_behind(const Graph& graph, ValueId value);
/// What to say of that: the node, its numbers of axes, and the sizes that its condition asks for.
std::string undecided_rank(const Graph& graph, const Node& node);

}  // namespace graft
