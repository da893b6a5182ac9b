// SPDX-License-Identifier: Apache-2.0
// A framework's whole model as one graph, which has no framework to fall back to.
#pragma once

#include <string>
#include <vector>

#include "frontend/conversion.h"

namespace graft::frontend {

/// Throws unsupported with what the rows say of operators that stay; `remedy` tells what runs such a model.
void check_converted(const ForeignGraph& foreign, const Converted& converted, const std::string& remedy);

/// Throws invalid_argument for an output that the caller named and its node does not give.
void check_outputs(const ForeignGraph& foreign, const Converted& converted);
/// Inputs and outputs under the names that the model's callers use, in the order of the graph's. What has such a name
/// inside of the graph gives it up; a result that is something else already is an Identity of it.
void name_borders(Graph& graph, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

}  // namespace graft::frontend
