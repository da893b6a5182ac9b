// SPDX-License-Identifier: Apache-2.0
// Outputs that are called like an input: a graph knows one value by a name, and its metadata tells the other one's.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace graft {

/// The name by which callers know an output: its value's, unless the graph's metadata tells another one.
std::string_view output_name(const Graph& graph, ValueId output);
/// Whether a key of the metadata is of this, rather than of the model.
bool is_output_name(std::string_view key);
/// Tells it.
void set_output_name(Graph& graph, ValueId output, std::string_view name);

}  // namespace graft
