// SPDX-License-Identifier: Apache-2.0
// An engine's run beside what the definitions of its graph say node by node.
#pragma once

#include <memory>

#include "graph/evaluate_graph.h"
#include "runtime/session.h"

namespace graft {

/// Runs the code once and expects the graph's own results, apart by `tolerance` of the largest magnitude at the most.
void expect_results_of(const Graph& graph, std::shared_ptr<const LoadedEngine> code, const TensorsByName& inputs,
                       double tolerance);

}  // namespace graft
