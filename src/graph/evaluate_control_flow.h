// SPDX-License-Identifier: Apache-2.0
// Runs nodes whose meaning is in their bodies.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace graft {

/// Whether the node is one that evaluate_control_flow runs.
bool has_evaluated_bodies(const Node& node);

/// The outputs of an If, a Loop or a Scan for known inputs, its captures at their end.
std::vector<TensorData> evaluate_control_flow(const Node& node, std::span<const TensorData> inputs);

}  // namespace graft
