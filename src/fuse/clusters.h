// SPDX-License-Identifier: Apache-2.0
// Which nodes of a graph run together as one region.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fuse/fused_program.h"
#include "graph/op_def.h"

namespace graft {

/// What a node's definition is made of, which decides what it can run together with.
enum class NodeKind : uint8_t {
  kView,         ///< each element is one element of an input: read through by the consumers
  kMap,          ///< maps only
  kRows,         ///< reductions along rows, and maps
  kContraction,  ///< exactly one contraction, and maps after it
  kOther,        ///< scans, scatters, sorts, several contractions
};

struct DefinedNode {
  NodeDefinition definition;
  NodeKind kind = NodeKind::kOther;
  bool keeps_order = false;  ///< see OpDef
};

/// Runs the definition of every node.
std::vector<DefinedNode> define_nodes(const Graph& graph);

/// For each node the number of its cluster; views have -1: they belong to whoever reads them. But a view that reorders
/// the rows of an attention is part of it.
struct Clusters {
  std::vector<int> of_node;
  std::vector<std::vector<int>> nodes;  ///< of each cluster, in graph order
  std::vector<std::string> notes;       ///< for each node that reads another cluster's result: why it is not in it
};

/// `fuse: 'a' (MatMul) and 'b' (Softmax) run apart: reason`, the line for people.
std::string apart_note(const Node& producer, const Node& consumer, std::string_view reason);

Clusters cluster_nodes(const Graph& graph, const std::vector<DefinedNode>& nodes, const FusionChoices& choices);

}  // namespace graft
