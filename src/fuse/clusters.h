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
  bool drawn = false;        ///< see graph/random_state.h
  int operations = 0;        ///< nodes of its expressions
  bool has_bodies = false;   ///< control flow: no definition, but bodies
  bool on_host = false;      ///< plain C++: no definition either
  bool is_alone() const { return has_bodies || on_host; }  ///< a step of its own
};

/// What one region holds at most. Far more than is worth a kernel, and little enough that texts, compilers and the
/// arguments of a launch stay short; networks of any use stay below. A node that is larger alone is split by its forms.
struct RegionCeiling {
  static constexpr int kNodes = 128;
  static constexpr int kOperations = 1024;
  static constexpr int kOperationsOfOne = 8192;  ///< of one node that has several forms
  static constexpr int kInputs = 64;
  static constexpr int kViews = 32;   ///< read through, one behind the other
  static constexpr int kForms = 256;  ///< of one node
  static constexpr int kParts = 16;   ///< of a view with several results, of which each reader takes all
};

/// Whether a node is a view that casts to a narrower float.
bool is_narrowing_cast(const DefinedNode& node);

/// Runs the definition of every node.
std::vector<DefinedNode> define_nodes(const Graph& graph);

/// For each node the number of its cluster; views have -1: they belong to whoever reads them, and so do maps that widen
/// what lies in memory. But a view that reorders the rows of an attention is part of it.
struct Clusters {
  std::vector<int> of_node;
  std::vector<std::vector<int>> nodes;  ///< of each cluster, in graph order
  std::vector<std::string> notes;       ///< for each node that reads another cluster's result: why it is not in it
};

/// `fuse: 'a' (MatMul) and 'b' (Softmax) run apart: reason`, the line for people.
std::string apart_note(const Node& producer, const Node& consumer, std::string_view reason);
std::string apart_note(std::string_view producer, std::string_view producer_op, std::string_view consumer,
                       std::string_view consumer_op, std::string_view reason);

/// Whether a region does nothing but reorder axes, and leaves the last one where it is.
bool reorders_rows(const Region& region);

Clusters cluster_nodes(const Graph& graph, const std::vector<DefinedNode>& nodes, const FusionChoices& choices);

}  // namespace graft
