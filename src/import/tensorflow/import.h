// SPDX-License-Identifier: Apache-2.0
// Whole models of TensorFlow as graphs: SavedModels and frozen GraphDefs, without TensorFlow.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace graft::tensorflow {

/// What the caller chooses of a model.
struct ImportOptions {
  std::string signature = {};                ///< of a SavedModel; empty: serving_default
  std::vector<std::string> tags = {};        ///< of a SavedModel's graph; none: serve
  std::vector<std::string> outputs = {};     ///< of a GraphDef, by node or tensor; none: what no node takes
  std::map<std::string, std::vector<int64_t>, std::less<>> shapes = {};  ///< of inputs that the file says less of
};

/// Whether a path is a SavedModel's folder, its saved_model.pb, or a file that begins as a GraphDef does.
bool is_model(const std::string& path);
/// Whether bytes begin as a GraphDef with a node does, and no ONNX file.
bool is_model(std::span<const std::byte> bytes);

/// Reads the whole model as a graph. Inputs and outputs of a SavedModel have the names of its signature, those of a
/// GraphDef the names of its nodes. Throws Error naming file and node: invalid_model for damaged ones, unsupported for
/// an operator without a converter, with its reason, invalid_argument for names that the model does not have.
Graph import_model(const std::string& path, const ImportOptions& options = {});
/// The same of a GraphDef in memory, whose constants are copied.
Graph import_model(std::span<const std::byte> bytes, const ImportOptions& options = {});

}  // namespace graft::tensorflow
