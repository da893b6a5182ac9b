// SPDX-License-Identifier: Apache-2.0
// What torch.export wrote, as a graph of ATen operators.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontend/foreign_graph.h"
#include "graph/graph.h"
#include "import/pt2/archive.h"

namespace graft::pt2 {

/// An exported program. What it takes and gives is in the order of torch's flattened arguments and results.
struct Program {
  frontend::ForeignGraph foreign;
  std::vector<std::string> inputs, outputs;  ///< names, as the export has them
  std::map<std::string, Graph::Range, std::less<>> ranges;
};

/// Reads an archive. Throws Error naming it and the node: invalid_model for what contradicts itself, unsupported for
/// another version of the format, weights that are pickled, several models, and what writes to inputs or buffers.
Program read_program(const Archive& archive);

}  // namespace graft::pt2
