// SPDX-License-Identifier: Apache-2.0
// A GraphDef as the conversion to mixed precision sees it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "amp/graph.h"
#include "base/tensor_data.h"
#include "import/tensorflow/graph_file.h"

namespace graft::tensorflow {

/// The abstract graph, and where its parts come from. Identities of constants are the constants themselves.
struct GraphView {
  amp::Graph graph;
  std::vector<int> node_of;                     ///< by node of the file: the graph's, or -1
  std::vector<Source> sources;                  ///< by value: the tensor
  std::map<std::pair<int, int>, int> value_of;  ///< by node of the file and result
  std::vector<std::vector<int>> inputs;         ///< by node of the file: the values of its data inputs
  std::map<int, TensorData> contents;           ///< by value: of constants of f32
};

/// Throws as convert_graph does.
GraphView view_graph(const GraphFile& file, const std::vector<std::string>& outputs, DType low);

}  // namespace graft::tensorflow
