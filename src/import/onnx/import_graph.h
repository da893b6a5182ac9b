// SPDX-License-Identifier: Apache-2.0
// GraphProto, NodeProto and FunctionProto as a Graph.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "import/onnx/import.h"
#include "import/onnx/import_tensor.h"
#include "import/onnx/import_type.h"

namespace graft_onnx {
class AttributeProto;
class FunctionProto;
class GraphProto;
class ModelProto;
class NodeProto;
class TypeProto;
class ValueInfoProto;
}  // namespace graft_onnx

namespace graft {

struct ImportScope;

/// Imports one model. The proto gives up the bytes of its tensors on the way.
class ModelImporter {
 public:
  ModelImporter(graft_onnx::ModelProto& model, const std::string& directory, size_t model_bytes,
                const ImportOptions& options);
  ~ModelImporter();
  Graph import();

 private:
  std::map<std::string, int64_t> import_opsets() const;
  void import_functions();
  void read_libraries();
  void import_initializers(graft_onnx::GraphProto& proto, ImportScope& scope);
  void import_inputs(graft_onnx::GraphProto& proto, ImportScope& scope, const ImportOptions& options);
  void import_outputs(graft_onnx::GraphProto& proto, ImportScope& scope);
  void import_hints(const graft_onnx::GraphProto& proto, ImportScope& scope);
  void apply_hint(ImportScope& scope, ValueId id);
  void import_node(graft_onnx::NodeProto& proto, ImportScope& scope);
  bool import_constant(graft_onnx::NodeProto& proto, ImportScope& scope);
  void inline_function(graft_onnx::NodeProto& call, graft_onnx::FunctionProto& function, ImportScope& scope);
  void import_attributes(graft_onnx::NodeProto& proto, Node& node, ImportScope& scope);
  Attribute import_attribute(graft_onnx::AttributeProto& proto, Node& node, std::vector<ValueId>& captured,
                             ImportScope& scope, const std::string& where);
  std::shared_ptr<const Graph> import_subgraph(graft_onnx::GraphProto& proto, const Node& node,
                                               std::vector<ValueId>& captured, ImportScope& scope);
  void type_body_input(const Node& node, size_t index, ImportScope& outer, Value& value) const;

  graft_onnx::ModelProto& model_;
  const ImportOptions& options_;
  TensorImporter tensors_;
  TypeImporter types_;
  std::map<std::string, int64_t> opsets_;
  std::vector<std::unique_ptr<graft_onnx::ModelProto>> libraries_;  ///< files whose functions the caller brings
  std::map<std::string, graft_onnx::FunctionProto*> functions_;
  std::vector<const graft_onnx::FunctionProto*> calls_;  ///< the functions being inlined
  int64_t channel_block_ = 0;  ///< of nodes in ONNX Runtime's blocks of channels
  int64_t nodes_left_ = 0;  ///< how many more nodes may come out of functions that call functions
};

}  // namespace graft
