// SPDX-License-Identifier: Apache-2.0
// A graph as a part of another: of branches that are taken, and functions that are called.
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace graft {

/// Copies constants, values and nodes of `body`, called `PREFIX/NODE`, into `graph`, where its inputs are `arguments`.
/// Gives the graph's value for each of the body's. What stands behind the nodes is left to `sort_nodes`.
std::vector<ValueId> insert_graph(Graph& graph, const Graph& body, const std::vector<ValueId>& arguments,
                                  std::string_view prefix);

}  // namespace graft
