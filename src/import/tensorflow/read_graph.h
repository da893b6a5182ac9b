// SPDX-License-Identifier: Apache-2.0
// A GraphDef as a framework's graph: what front ends and the partitioner read.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontend/conversion.h"
#include "import/tensorflow/graph_file.h"

namespace graft::tensorflow {

/// The graph, and where its parts stand in the file.
struct ReadGraph {
  frontend::ForeignGraph foreign;
  std::vector<bool> counts;      ///< by node: false for what only hands on what it is given
  std::vector<int> file_nodes;   ///< by node: its index in the file
  std::vector<bool> lists;       ///< by value: a list of tensors, which is no tensor of TensorFlow's
  std::vector<bool> constant;    ///< by node of the file: its result is a constant, or it is a NoOp that waits for
                                 ///< nothing that a run does, so that it is no node here
  std::vector<std::vector<int>> before;  ///< by node of the file that is a constant: the nodes of the file that control
                                         ///< inputs, its own and those of what it is made of, want to run before it
};

/// Shapes of placeholders by their names, where the caller knows more than the file.
using PlaceholderShapes = std::map<std::string, std::vector<int64_t>, std::less<>>;

/// Reads the whole graph. Constants, and what hands them on, become constants; placeholders become inputs; a value is
/// called like its tensor (`conv`, `split:1`). What no output needs, and what runs in a branch of a conditional or in a
/// loop, stays with the framework. Element types and ranks that the file does not state come from who takes the value.
/// Throws invalid_argument for outputs and placeholders that the graph does not have.
ReadGraph read_graph(const GraphFile& file, const std::vector<std::string>& outputs, const PlaceholderShapes& shapes,
                     const frontend::Converters& converters);

}  // namespace graft::tensorflow
