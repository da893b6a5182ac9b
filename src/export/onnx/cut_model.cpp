// SPDX-License-Identifier: Apache-2.0
// The messages of a part of a model.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "export/onnx/model_contents.h"
#include "export/onnx/write_type.h"
#include "graph/symbols.h"

namespace graft {
namespace {

using graft_onnx::GraphProto;
using graft_onnx::ModelProto;
using graft_onnx::NodeProto;
using graft_onnx::TypeProto;
using graft_onnx::ValueInfoProto;
using Names = std::set<std::string, std::less<>>;

/// Leaves those elements of a repeated field that `keep` wants, in their order.
template <class Field, class Keep>
void filter(Field& field, const Keep& keep) {
  int kept = 0;
  for (int i = 0; i < field.size(); ++i) {
    if (!keep(field.Get(i))) continue;
    if (kept != i) field.SwapElements(kept, i);
    ++kept;
  }
  field.DeleteSubrange(kept, field.size() - kept);
}

void collect_operators(const NodeProto& node, Names& into) {
  into.insert(fmt::format("{}::{}", node.domain(), node.op_type()));
  for (const auto& attribute : node.attribute()) {
    for (const NodeProto& inner : attribute.g().node()) collect_operators(inner, into);
    for (const GraphProto& graph : attribute.graphs()) {
      for (const NodeProto& inner : graph.node()) collect_operators(inner, into);
    }
  }
}

/// Drops functions that neither the graph nor another function that stays calls.
void drop_unused_functions(ModelProto& model) {
  Names called;
  for (const NodeProto& node : model.graph().node()) collect_operators(node, called);
  const auto is_called = [&](const auto& function) {
    return called.count(fmt::format("{}::{}", function.domain(), function.name())) != 0;
  };
  for (size_t before = 0; before != called.size();) {
    before = called.size();
    for (const auto& function : model.functions()) {
      if (!is_called(function)) continue;
      for (const NodeProto& node : function.node()) collect_operators(node, called);
    }
  }
  filter(*model.mutable_functions(), is_called);
}

/// The file's own name of each dimension that the graph calls otherwise: `batch_size` -> `batch size`.
std::map<std::string, std::string, std::less<>> dimension_names(const GraphProto& graph) {
  std::map<std::string, std::string, std::less<>> names;
  for (const auto& input : graph.input()) {
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      if (!dim.dim_param().empty()) names.emplace(dimension_symbol(dim.dim_param()), dim.dim_param());
    }
  }
  return names;
}

template <class Change>
void change_sizes(ValueInfoProto& value, const Change& change) {
  if (value.type().value_case() != TypeProto::kTensorType || !value.type().tensor_type().has_shape()) return;
  for (auto& dim : *value.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) change(dim);
}

}  // namespace

void ModelFile::Contents::learn_types(const Graph& graph) {
  const auto own_names = dimension_names(model.graph());
  auto learnt = std::make_shared<Types>();
  for (const Value& value : graph.values) {
    TypeProto type;
    if (value.constant || !write_type(value, type)) continue;
    if (type.value_case() == TypeProto::kTensorType) {
      for (auto& dim : *type.mutable_tensor_type()->mutable_shape()->mutable_dim()) {
        const auto own = own_names.find(dim.dim_param());
        if (own != own_names.end()) dim.set_dim_param(own->second);
      }
      if (!value.shape) type.mutable_tensor_type()->clear_shape();
    }
    (*learnt)[value.name].Swap(&type);
  }
  // So that other inputs can say that their sizes are the same.
  for (ValueInfoProto& input : *model.mutable_graph()->mutable_input()) {
    const auto known = learnt->find(input.name());
    if (known == learnt->end()) continue;
    const auto& shape = known->second.tensor_type().shape();
    int axis = 0;
    change_sizes(input, [&](auto& dim) {
      const bool open = !dim.has_dim_value() && dim.dim_param().empty();
      if (open && axis < shape.dim_size() && shape.dim(axis).has_dim_param()) {
        dim.set_dim_param(shape.dim(axis).dim_param());
      }
      ++axis;
    });
  }
  types = std::move(learnt);
}

TypeProto ModelFile::Contents::type_of(const std::string& name) const {
  const auto known = types->find(name);
  if (known != types->end()) return known->second;
  for (const auto* list : {&model.graph().input(), &model.graph().output(), &model.graph().value_info()}) {
    for (const ValueInfoProto& value : *list) {
      if (value.name() == name && value.has_type()) return value.type();
    }
  }
  const auto weight = weights.find(name);
  if (weight != weights.end()) {
    const std::vector<int64_t>& extents = weight->second.shape();
    TypeProto type;
    write_type({.name = name, .type = weight->second.type(), .shape = Shape(extents.begin(), extents.end())}, type);
    return type;
  }
  throw Error(ErrorKind::kInvalidModel,
              fmt::format("nothing says what type and shape it has{}; cut at another tensor",
                          why_no_types.empty() ? "" : fmt::format(" ({})", why_no_types)),
              fmt::format("tensor '{}'", name));
}

void ModelFile::Contents::replace_size(const std::string& size, int64_t value) {
  const auto change = [&](auto& dim) {
    const std::string text = dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param();
    if (text == size) dim.set_dim_value(value);
  };
  for (ValueInfoProto& input : *model.mutable_graph()->mutable_input()) change_sizes(input, change);
  // What the file says of the other values follows from this, or is wrong now.
  model.mutable_graph()->clear_value_info();
  for (ValueInfoProto& output : *model.mutable_graph()->mutable_output()) {
    change_sizes(output, [](auto& dim) { dim.clear_value(); });
  }
}

namespace {

/// What a part reads, and what its nodes define.
struct PartNames {
  Names read, defined;
  std::vector<std::string> wanted;  ///< what may have to be handed in, in the order in which caller and nodes name it
};

PartNames names_of(const std::vector<ModelNode>& nodes, const ModelCut& part) {
  PartNames names{.read = Names(part.outputs.begin(), part.outputs.end()), .defined = {}, .wanted = part.inputs};
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!part.nodes[n]) continue;
    names.read.insert(nodes[n].inputs.begin(), nodes[n].inputs.end());
    names.defined.insert(nodes[n].outputs.begin(), nodes[n].outputs.end());
    names.wanted.insert(names.wanted.end(), nodes[n].inputs.begin(), nodes[n].inputs.end());
  }
  return names;
}

/// A node that stays for another result of its own computes a value that is handed in under another name.
void rename_given_results(GraphProto& graph, const Names& given) {
  for (NodeProto& node : *graph.mutable_node()) {
    for (std::string& output : *node.mutable_output()) {
      if (given.count(output)) output += "/computed";
    }
  }
}

}  // namespace

ModelFile ModelFile::cut(const ModelCut& part) const {
  auto made = std::make_shared<Contents>();
  made->model = contents_->model;
  made->types = contents_->types;
  made->why_no_types = contents_->why_no_types;
  GraphProto& graph = *made->model.mutable_graph();
  PartNames names = names_of(nodes(), part);
  const Names given(part.inputs.begin(), part.inputs.end());
  const auto stays = [&](const std::string& name) { return names.read.count(name) && !given.count(name); };
  int number = 0;
  filter(*graph.mutable_node(), [&](const NodeProto&) { return part.nodes[static_cast<size_t>(number++)]; });
  rename_given_results(graph, given);
  filter(*graph.mutable_initializer(), [&](const auto& tensor) { return stays(tensor.name()); });
  filter(*graph.mutable_sparse_initializer(), [&](const auto& tensor) { return stays(tensor.values().name()); });
  filter(*graph.mutable_input(), [&](const auto& input) { return names.read.count(input.name()) != 0; });
  for (const auto& tensor : graph.initializer()) {
    made->weights[tensor.name()] = contents_->weights.find(tensor.name())->second;
    names.defined.insert(tensor.name());
  }
  for (const auto& tensor : graph.sparse_initializer()) names.defined.insert(tensor.values().name());
  Names inputs;
  for (const auto& input : graph.input()) inputs.insert(input.name());
  for (const std::string& name : names.wanted) {
    if ((names.defined.count(name) && !given.count(name)) || !inputs.insert(name).second) continue;
    ValueInfoProto& input = *graph.add_input();
    input.set_name(name);
    *input.mutable_type() = contents_->type_of(name);
  }
  graph.clear_output();
  for (const std::string& name : part.outputs) {
    ValueInfoProto& output = *graph.add_output();
    output.set_name(name);
    *output.mutable_type() = contents_->type_of(name);
  }
  const Names outputs(part.outputs.begin(), part.outputs.end());
  filter(*graph.mutable_value_info(), [&](const auto& value) {
    return names.defined.count(value.name()) && !inputs.count(value.name()) && !outputs.count(value.name());
  });
  drop_unused_functions(made->model);
  made->index();
  return ModelFile(std::move(made));
}

}  // namespace graft
