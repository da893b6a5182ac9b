// SPDX-License-Identifier: Apache-2.0
// Why the shape of a value is not known.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace graft {

/// A node that is such a cause, among those that a value is computed by through values of unknown shape; null where
/// there is none.
const Node* cause_of_unknown_shape(const Graph& graph, ValueId value, const std::function<bool(const Node&)>& is_cause);

}  // namespace graft
