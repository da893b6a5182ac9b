// SPDX-License-Identifier: Apache-2.0
// node whose outputs nobody reads -> nothing; optional output nobody reads -> left out.
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {

bool remove_dead_nodes(Graph& graph, const PassContext&) { return sweep(graph); }

}  // namespace graft::passes
