// SPDX-License-Identifier: Apache-2.0
// Operators that write into their operand: `relu_`.
#pragma once

#include <string>

#include "frontend/foreign_graph.h"

namespace graft::pt2 {

/// relu_(x) -> relu(x), where who reads x later reads the result; of a part of x (`x[1:, 0]`) what puts the result back
/// into x. Throws unsupported naming the node where the memory that it writes to has other readers: inputs, parameters,
/// and views that are read later.
void rename_in_place(frontend::ForeignGraph& graph, const std::string& where);

}  // namespace graft::pt2
