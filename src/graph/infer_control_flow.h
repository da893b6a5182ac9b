// SPDX-License-Identifier: Apache-2.0
// Types and shapes across the borders of bodies.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace graft {

/// Infers the nodes of a body whose inputs are typed.
using InferBody = std::function<void(Graph&)>;

/// Types the bodies of an If or a Loop from the node's inputs, infers them, and types its outputs. A carried axis that
/// one round changes is a symbol of the body's own, bound anew in each; an axis of an output that only a run knows
/// gets a symbol of the node (graph/symbols). A Scan gets the types of its outputs only. False for any other node.
bool infer_control_flow(Graph& graph, int index, const InferBody& infer);

}  // namespace graft
