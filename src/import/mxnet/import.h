// SPDX-License-Identifier: Apache-2.0
// Whole models of MXNet, a symbol and its parameters, as graphs, without MXNet.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "import/mxnet/params_file.h"
#include "import/mxnet/symbol_file.h"

namespace graft::mxnet {

/// What the caller chooses of a model.
struct ImportOptions {
  using Shapes = std::map<std::string, std::vector<int64_t>, std::less<>>;

  std::string params;  ///< the file; empty: NET-0000.params beside NET-symbol.json, if there is one
  Shapes shapes = {};  ///< of inputs
  /// Smallest and largest shapes. A first axis that is open is named `batch`, others after input and axis.
  Shapes min_shapes = {}, max_shapes = {};
};

/// Whether a path is that of a symbol: NET-symbol.json, or any JSON.
bool is_model(const std::string& path);

/// Reads the whole model as a graph. Inputs are the variables without an array that a result needs, so not the labels
/// of losses; outputs have the names by which MXNet lists them (`fc_output`). Throws Error naming file and node:
/// invalid_model for damaged files and missing parameters, unsupported for an operator without a converter, with its
/// reason, invalid_argument for shapes that nothing says.
Graph import_model(const std::string& path, const ImportOptions& options = {});
/// The same of a symbol and arrays in memory; errors name nodes alone.
Graph import_symbol(Symbol symbol, const Parameters& arrays, const ImportOptions& options = {});

}  // namespace graft::mxnet
