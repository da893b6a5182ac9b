// SPDX-License-Identifier: Apache-2.0
// What passes share that make one product of several that read the same tensor.
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace graft::passes {

/// Constants of one type side by side along an axis; their other axes agree, and elements are whole bytes.
TensorData join_constants(const std::vector<const TensorData*>& parts, size_t axis);

/// Appends a Split of `joint` along an axis into parts of these sizes that go under the values `results`, whose nodes
/// give nothing from then on.
void split_joint(Graph& graph, std::string_view name, ValueId joint, int64_t axis, const std::vector<int64_t>& sizes,
                 const std::vector<ValueId>& results);

}  // namespace graft::passes
