// SPDX-License-Identifier: Apache-2.0
// Types, symbolic shapes and the elements of small integer tensors, for all that follows.
#include "graph/infer.h"

#include "passes/passes.h"

namespace graft::passes {

/// The wrapper infers again after every pass that changed something; this is the first time.
bool infer(Graph& graph, const PassContext&) {
  infer_types(graph);
  return true;
}

}  // namespace graft::passes
