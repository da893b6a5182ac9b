// SPDX-License-Identifier: Apache-2.0
// Nodes of older operator sets in the meaning of opset kOpset.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace graft {

/// Appends nodes to a graph while it is imported, inferring each, so that the next one can ask for types and ranks.
class NodeWriter {
 public:
  /// New nodes and values are named after `base`.
  NodeWriter(Graph& graph, std::string base) : graph_(graph), base_(std::move(base)) {}

  Graph& graph() { return graph_; }
  /// Adds a node whose outputs exist.
  void add(Node node);
  /// Adds a node of ai.onnx with one fresh output.
  ValueId emit(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {});
  /// i64 constants: a list and a scalar.
  ValueId integers(const std::vector<int64_t>& values);
  ValueId integer(int64_t value);
  ValueId floats(const std::vector<float>& values);
  /// A scalar in the element type of `like`.
  ValueId scalar_like(double value, ValueId like);
  int added() const { return added_; }

 private:
  Graph& graph_;
  std::string base_;
  int added_ = 0;
};

/// Appends `node`, written for `opset` of ai.onnx, as one or more nodes of kOpset. Throws unsupported naming the node
/// for the few meanings that have no counterpart.
void add_converted(NodeWriter& writer, Node node, int64_t opset);

}  // namespace graft
