// SPDX-License-Identifier: Apache-2.0
// Operators that nobody has defined, and what follows from them.
#pragma once

#include <string>

#include "graph/graph.h"

namespace graft {

/// That a node's operator has no definition, with the nearest name and what to do.
std::string no_definition(const Node& node);
/// The node without a definition because of which the shape of a value is not known; null where there is none.
const Node* unknown_operator_behind(const Graph& graph, ValueId value);

}  // namespace graft
