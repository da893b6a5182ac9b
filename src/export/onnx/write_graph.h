// SPDX-License-Identifier: Apache-2.0
// Graph and Node as GraphProto and NodeProto.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "export/onnx/write_tensor.h"
#include "graph/graph.h"

namespace graft_onnx {
class AttributeProto;
class GraphProto;
class NodeProto;
}  // namespace graft_onnx

namespace graft {

/// Writes a graph and the bodies in it.
class GraphWriter {
 public:
  explicit GraphWriter(TensorWriter& tensors) : tensors_(tensors) {}
  void write(const Graph& graph, graft_onnx::GraphProto& proto);
  /// The domains of all nodes that were written.
  const std::set<std::string, std::less<>>& domains() const { return domains_; }
  /// The oldest opset of ai.onnx in which all of them have their meaning, and that has the types of all values.
  int64_t opset() const { return opset_; }

 private:
  /// A graph that is being written: the names its values have in the file.
  struct Scope {
    const Graph& graph;
    const Scope* outer;
    std::vector<std::string> names;  ///< by value; empty: not named yet
    std::set<ValueId> outside;       ///< what the scope around it defines
  };

  void write_scope(Scope& scope, graft_onnx::GraphProto& proto);
  void name_values(Scope& scope);
  void write_interface(Scope& scope, graft_onnx::GraphProto& proto);
  void write_node(const Scope& scope, const Node& node, graft_onnx::NodeProto& proto);
  void write_attributes(const Scope& scope, const Node& node, size_t own_inputs, graft_onnx::NodeProto& proto);
  void write_attribute(const Node& node, const std::string& name, const Attribute& attribute,
                       graft_onnx::AttributeProto& proto);
  void write_body(const Scope& scope, const Node& node, const Graph& body, size_t first_captured, size_t count,
                  graft_onnx::GraphProto& proto);
  void note_operator(const Graph& graph, const Node& node);

  TensorWriter& tensors_;
  std::set<std::string, std::less<>> taken_;  ///< names of the graphs that are being written
  std::set<std::string, std::less<>> domains_;
  int64_t opset_ = 17;
};

}  // namespace graft
