// SPDX-License-Identifier: Apache-2.0
// What a model says of its results, where its branches leave the number of axes open.
#pragma once

#include "graph/graph.h"

namespace graft {

/// Makes a result's declared number of axes a part of the graph where it follows from an If whose branches differ in
/// it: the branch that does not fit the declaration is then known not to be taken (passes/sink_into_branches).
void keep_declared_ranks(Graph& graph);

}  // namespace graft
