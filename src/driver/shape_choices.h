// SPDX-License-Identifier: Apache-2.0
// The caller's fixed sizes and ranges, put into an imported graph.
#pragma once

#include <set>
#include <string>

#include "driver/compile_options.h"
#include "graph/graph.h"

namespace graft {

/// The symbols of the inputs: those a caller can choose.
std::set<std::string, std::less<>> input_symbols(const Graph& graph);

/// Replaces symbols that were fixed by their sizes and records the ranges of the others. Throws invalid_argument naming
/// the input or symbol, with those that the model has, for a choice that does not fit it.
void apply_shape_choices(Graph& graph, const CompileOptions& options);

}  // namespace graft
