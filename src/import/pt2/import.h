// SPDX-License-Identifier: Apache-2.0
// Programs of torch.export (.pt2) as graphs, without PyTorch.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace graft::pt2 {

/// Whether a path is named as torch.export.save wants it, `model.pt2`.
bool is_model(const std::string& path);

/// Reads the whole program as a graph. Inputs and outputs are in the order of torch's flattened arguments and results,
/// and named as the export named them; so are dimensions, with the ranges that it states. Weights stay in the file.
/// Throws Error naming file and node: invalid_model for damaged ones, unsupported for operators without a converter,
/// with the reason and the Python line. Buffers that the program writes to are inputs, and their new contents results.
/// `converters`: shared libraries with rows beside those of import/aten and of the process.
Graph import_model(const std::string& path, const std::vector<std::string>& converters = {});
/// The same from memory; `owner` keeps it.
Graph import_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& where,
                   const std::vector<std::string>& converters = {});

}  // namespace graft::pt2
