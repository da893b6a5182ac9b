// SPDX-License-Identifier: Apache-2.0
// Graphs as ONNX files, which import_onnx reads back as the same graph.
//
// - Constants become initializers; a body refers to constants and values of the graphs around it by name, as ONNX has
//   it, and names of its own that are taken there get a number appended.
// - The file states the oldest opset (17 at least) in which each of its operators has the meaning that the graph gives
//   it, so that it is read widely.
// - Sizes are written as numbers, names, or expressions of names; what only a run knows is unknown in the file.
// - A value that is several of the graph's outputs is copied by an Identity, as ONNX lists each value once.
// - What ONNX has no place for is not written: ranges of symbols.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace graft {

/// Where the weights of an ONNX file are.
struct OnnxWeights {
  /// Initializers of at least this many bytes go into a file beside the model, called like it with `.data` appended.
  /// Not chosen: all are inside while the model stays far below the 2 GiB that its format allows, else those of 1 KiB
  /// at least are beside it.
  std::optional<int64_t> external_from;
};

/// Writes a graph; a reader of `path` sees the old file or the whole new one. Throws unsupported naming the node for
/// what ONNX cannot say, and as OutputFile does.
void export_onnx(const Graph& graph, const std::string& path, const OnnxWeights& weights = {});

/// The same in memory, with all weights inside; throws unsupported when they are too large for that.
std::string export_onnx_bytes(const Graph& graph);

}  // namespace graft
