// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/variables.h"

#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "import/tensorflow/import_tensor.h"
#include "import/tensorflow/saved_model.pb.h"

namespace graft::tensorflow {
namespace {

using graft_tensorflow::AttrEntry;
using graft_tensorflow::NodeDef;

bool is_variable(std::string_view op) {
  return op == "VarHandleOp" || op == "VariableV2" || op == "Variable" || op == "AutoReloadVariable";
}
bool hands_on(std::string_view op) { return op == "Identity" || op == "IdentityN"; }
bool assigns(std::string_view op) { return op == "AssignVariableOp" || op == "Assign"; }

/// Operators whose first input is a variable that they change.
bool writes(std::string_view op) {
  return op.starts_with("Assign") || op.starts_with("ResourceApply") || op.starts_with("ResourceScatter") ||
         op.starts_with("ResourceSparse") || op.starts_with("Scatter");
}

/// The node and result that a source is, behind what only hands on.
struct Origin {
  const FileNode* node = nullptr;
  int index = 0;
};

Origin origin_of(const GraphFile& file, Source source) {
  for (size_t steps = 0; steps <= file.nodes().size(); ++steps) {
    const FileNode& node = file.nodes()[static_cast<size_t>(file.find(source.node))];
    const auto index = static_cast<size_t>(source.index);
    if (!hands_on(node.op) || index >= node.inputs.size() || node.inputs[index].control) return {&node, source.index};
    source = node.inputs[index];
  }
  throw Error(ErrorKind::kInvalidModel, "it takes its own result", fmt::format("node '{}'", source.node));
}

/// A data input of a node; null where it has not so many.
Origin input_of(const GraphFile& file, const FileNode& node, size_t index) {
  if (index >= node.inputs.size() || node.inputs[index].control) return {};
  return origin_of(file, node.inputs[index]);
}

/// An element of a constant of texts.
std::string text_at(const GraphFile& file, const Origin& constant, int index, ConstantBudget& budget) {
  const std::string where = fmt::format("node '{}'", constant.node ? constant.node->name : "");
  GRAFT_USER_CHECK(constant.node && constant.node->op == "Const", kUnsupported,
                   "what it restores is computed: freeze the model to a GraphDef first", where);
  const TensorData texts = import_constant(file, *constant.node, budget);
  GRAFT_USER_CHECK(texts.type() == DType::kString && index < texts.element_count(), kInvalidModel,
                   fmt::format("it has no text number {}", index), where);
  return texts.strings()[static_cast<size_t>(index)];
}

std::string own_name(const FileNode& variable) {
  const auto* shared = variable.attribute("shared_name");
  return shared && !shared->s().empty() ? shared->s() : variable.name;
}

void check_not_written(const GraphFile& file) {
  for (const FileNode& node : file.nodes()) {
    if (!writes(node.op)) continue;
    const Origin variable = input_of(file, node, 0);
    GRAFT_USER_CHECK(!variable.node || !is_variable(variable.node->op), kUnsupported,
                     fmt::format("it changes the variable '{}' while the model runs, and an engine keeps nothing "
                                 "between runs: save the model for inference", variable.node->name),
                     fmt::format("node '{}' ({})", node.name, node.op));
  }
}

/// A variable as a Const that has its tensor.
FileNode constant_of(const FileNode& variable, const VariableKeys& keys, Checkpoint* checkpoint) {
  const std::string where = fmt::format("variable '{}'", variable.name);
  GRAFT_USER_CHECK(checkpoint, kInvalidModel,
                   "the graph has variables, and no checkpoint: compile the SavedModel, or freeze the graph", where);
  const auto key = keys.find(variable.name);
  FileNode made = variable;
  made.op = "Const";
  made.inputs.clear();
  made.message = std::make_shared<NodeDef>();
  made.tensor = checkpoint->read(key == keys.end() ? own_name(variable) : key->second, where);
  return made;
}

}  // namespace

VariableKeys keys_of(const GraphFile& restore) {
  VariableKeys keys;
  ConstantBudget budget(restore.bytes().size());
  for (const FileNode& node : restore.nodes()) {
    if (!assigns(node.op)) continue;
    const Origin variable = input_of(restore, node, 0), value = input_of(restore, node, 1);
    if (!variable.node || !is_variable(variable.node->op) || !value.node || value.node->op != "RestoreV2") continue;
    const std::string slice = text_at(restore, input_of(restore, *value.node, 2), value.index, budget);
    GRAFT_USER_CHECK(slice.empty(), kUnsupported,
                     "it is a part of a tensor (a partitioned variable): freeze the model to a GraphDef first",
                     fmt::format("variable '{}'", variable.node->name));
    keys[variable.node->name] = text_at(restore, input_of(restore, *value.node, 1), value.index, budget);
  }
  return keys;
}

std::vector<FileNode> freeze_variables(const GraphFile& file, const VariableKeys& keys, Checkpoint* checkpoint) {
  check_not_written(file);
  std::vector<FileNode> nodes = file.nodes();
  for (FileNode& node : nodes) {
    if (is_variable(node.op)) {
      node = constant_of(node, keys, checkpoint);
    } else if (node.op == "ReadVariableOp") {
      node.op = "Identity";
    }
  }
  return nodes;
}

}  // namespace graft::tensorflow
