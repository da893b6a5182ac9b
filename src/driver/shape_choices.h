// SPDX-License-Identifier: Apache-2.0
// The caller's fixed sizes and ranges, put into an imported graph.
#pragma once

#include "driver/compile_options.h"
#include "graph/graph.h"

namespace graft {

/// Replaces symbols that were fixed by their sizes and records the ranges of the others. Throws invalid_argument naming
/// the input or symbol, with those that the model has, for a choice that does not fit it.
void apply_shape_choices(Graph& graph, const CompileOptions& options);

}  // namespace graft
