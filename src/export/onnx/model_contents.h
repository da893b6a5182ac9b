// SPDX-License-Identifier: Apache-2.0
// What a ModelFile holds: the messages of the file, the weights beside them, and what importing found out.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "export/onnx/model_file.h"
#include "graph/graph.h"
#include "import/onnx/onnx.pb.h"

namespace graft {

struct ModelFile::Contents {
  graft_onnx::ModelProto model;                                ///< its initializers have names only
  std::map<std::string, TensorData, std::less<>> weights;      ///< of its initializers
  using Types = std::map<std::string, graft_onnx::TypeProto, std::less<>>;
  std::shared_ptr<const Types> types = std::make_shared<Types>();  ///< of values, as far as they are known
  std::string why_no_types;                                    ///< why importing said nothing about them
  std::vector<ModelNode> nodes;
  std::map<std::string, size_t, std::less<>> producer;  ///< by value: the node that gives it

  /// Fills the last two from the model.
  void index();
  /// Takes the types of an imported graph's values, in the file's own dimension names; inputs get names for the
  /// dimensions that have none.
  void learn_types(const Graph& graph);
  /// The type of a value that becomes an input or output; throws invalid_model when nobody knows it.
  graft_onnx::TypeProto type_of(const std::string& name) const;
  void replace_size(const std::string& size, int64_t value);
};

}  // namespace graft
