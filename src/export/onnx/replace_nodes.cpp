// SPDX-License-Identifier: Apache-2.0
// Calls of operators that are the reader's own, in place of nodes of a model.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "export/onnx/model_contents.h"

namespace graft {
namespace {

using graft_onnx::GraphProto;
using graft_onnx::ModelProto;
using graft_onnx::NodeProto;
using graft_onnx::ValueInfoProto;
using Names = std::set<std::string, std::less<>>;

/// A node of the new graph: its place in the file where nothing speaks against it, and what it reads and gives.
struct PlacedNode {
  size_t place = 0;
  NodeProto proto;
  std::vector<std::string> inputs, outputs;
};

NodeProto proto_of(const ModelCall& call) {
  NodeProto node;
  node.set_name(call.name);
  node.set_op_type(call.op);
  node.set_domain(call.domain);
  for (const std::string& name : call.inputs) node.add_input(name);
  for (const std::string& name : call.outputs) node.add_output(name);
  for (const auto& [name, text] : call.attributes) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(graft_onnx::AttributeProto::STRING);
    attribute.set_s(text);
  }
  return node;
}

NodeProto cast_of(const std::string& from, const std::string& to, DType type) {
  NodeProto node;
  node.set_name(to + "/cast");
  node.set_op_type("Cast");
  node.add_input(from);
  node.add_output(to);
  auto& attribute = *node.add_attribute();
  attribute.set_name("to");
  attribute.set_type(graft_onnx::AttributeProto::INT);
  attribute.set_i(onnx_code(type));
  return node;
}

/// The call, and casts around it of what it has in another type than the model.
std::vector<PlacedNode> placed_call(ModelCall call, size_t place, const std::map<std::string, DType>& own) {
  std::vector<PlacedNode> placed;
  for (std::string& name : call.inputs) {
    const auto type = call.types.find(name);
    if (type == call.types.end()) continue;
    const std::string cast = fmt::format("{}/{}", call.name, name);
    placed.push_back({place, cast_of(name, cast, type->second), {name}, {cast}});
    name = cast;
  }
  std::vector<PlacedNode> behind;
  for (std::string& name : call.outputs) {
    if (!call.types.count(name)) continue;
    const std::string made = fmt::format("{}/{}", call.name, name);
    behind.push_back({place, cast_of(made, name, own.at(name)), {made}, {name}});
    name = made;
  }
  placed.push_back({place, proto_of(call), call.inputs, call.outputs});
  placed.insert(placed.end(), behind.begin(), behind.end());
  return placed;
}

/// The nodes with each behind what it reads, otherwise in the order of their places.
std::vector<PlacedNode> in_order(std::vector<PlacedNode> nodes) {
  std::map<std::string, size_t, std::less<>> producer;
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const std::string& name : nodes[n].outputs) producer[name] = n;
  }
  std::vector<std::vector<size_t>> readers(nodes.size());
  std::vector<size_t> missing(nodes.size(), 0);
  std::set<std::pair<size_t, size_t>> ready;  // place, node
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const std::string& name : nodes[n].inputs) {
      const auto made = producer.find(name);
      if (made == producer.end()) continue;
      readers[made->second].push_back(n);
      ++missing[n];
    }
    if (missing[n] == 0) ready.emplace(nodes[n].place, n);
  }
  std::vector<PlacedNode> ordered;
  while (!ready.empty()) {
    const size_t next = ready.begin()->second;
    ready.erase(ready.begin());
    for (const size_t reader : readers[next]) {
      if (--missing[reader] == 0) ready.emplace(nodes[reader].place, reader);
    }
    ordered.push_back(std::move(nodes[next]));
  }
  GRAFT_USER_CHECK(ordered.size() == nodes.size(), kInvalidArgument,
                   "what is replaced together depends on itself through what stays: choose other nodes", "nodes");
  return ordered;
}

template <class Field, class Keep>
void keep_if(Field& field, const Keep& keep) {
  const auto end = std::remove_if(field.begin(), field.end(), [&](const auto& each) { return !keep(each); });
  field.erase(end, field.end());
}

void import_domain(ModelProto& model, const std::string& domain) {
  for (const auto& known : model.opset_import()) {
    if (known.domain() == domain) return;
  }
  auto& added = *model.add_opset_import();
  added.set_domain(domain);
  added.set_version(1);
}

}  // namespace

ModelFile ModelFile::with_calls(const std::vector<ModelCall>& calls) const {
  auto made = std::make_shared<Contents>(*contents_);
  GraphProto& graph = *made->model.mutable_graph();
  const std::vector<std::string> results = outputs();
  const auto replaced = [&](size_t n) {
    return std::any_of(calls.begin(), calls.end(), [&](const ModelCall& call) { return call.nodes[n]; });
  };
  Names read_outside(results.begin(), results.end());
  for (size_t n = 0; n < nodes().size(); ++n) {
    if (!replaced(n)) read_outside.insert(nodes()[n].inputs.begin(), nodes()[n].inputs.end());
  }
  std::vector<PlacedNode> placed;
  for (size_t n = 0; n < nodes().size(); ++n) {
    const ModelNode& node = nodes()[n];
    const bool shared_constant = node.op == "Constant" && read_outside.count(node.outputs.at(0));
    if (replaced(n) && !shared_constant) continue;
    placed.push_back({n, graph.node(static_cast<int>(n)), node.inputs, node.outputs});
  }
  for (const ModelCall& call : calls) {
    const size_t last = static_cast<size_t>(std::find(call.nodes.rbegin(), call.nodes.rend(), true).base() -
                                            call.nodes.begin());
    std::map<std::string, DType> own;
    for (const auto& [name, type] : call.types) own[name] = type_of(name).type;
    for (PlacedNode& node : placed_call(call, last, own)) placed.push_back(std::move(node));
    import_domain(made->model, call.domain);
  }
  Names read(results.begin(), results.end()), defined;
  graph.clear_node();
  for (PlacedNode& node : in_order(std::move(placed))) {
    read.insert(node.inputs.begin(), node.inputs.end());
    defined.insert(node.outputs.begin(), node.outputs.end());
    graph.add_node()->Swap(&node.proto);
  }
  keep_if(*graph.mutable_initializer(), [&](const auto& tensor) { return read.count(tensor.name()) != 0; });
  keep_if(*graph.mutable_sparse_initializer(),
          [&](const auto& tensor) { return read.count(tensor.values().name()) != 0; });
  keep_if(*graph.mutable_value_info(), [&](const auto& value) { return defined.count(value.name()) != 0; });
  std::erase_if(made->weights, [&](const auto& weight) { return read.count(weight.first) == 0; });
  // Old models list weights among the inputs too; one that is gone is not to be handed in now.
  keep_if(*graph.mutable_input(), [&](const auto& input) {
    return !contents_->weights.count(input.name()) || made->weights.count(input.name());
  });
  Names typed(results.begin(), results.end());
  for (const ValueInfoProto& value : graph.value_info()) typed.insert(value.name());
  for (const ModelCall& call : calls) {
    for (const std::string& name : call.outputs) {
      if (!typed.insert(name).second) continue;
      ValueInfoProto& value = *graph.add_value_info();
      value.set_name(name);
      *value.mutable_type() = contents_->type_of(name);
    }
  }
  made->index();
  return ModelFile(std::move(made));
}

/// x: type -> Cast to x's own -> the model; the model -> y -> Cast to type: y.
ModelFile ModelFile::with_types(const std::map<std::string, DType, std::less<>>& types) const {
  auto made = std::make_shared<Contents>(*contents_);
  GraphProto& graph = *made->model.mutable_graph();
  const auto inner = [](const std::string& name) { return name + "/own"; };
  const auto rename = [&](auto& names) {
    for (std::string& name : names) {
      if (types.count(name)) name = inner(name);
    }
  };
  std::vector<NodeProto> first, last;
  for (NodeProto& node : *graph.mutable_node()) rename(*node.mutable_input()), rename(*node.mutable_output());
  auto renamed = std::make_shared<Contents::Types>(*contents_->types);
  for (const auto& [is_input, values] : {std::pair{true, graph.mutable_input()}, {false, graph.mutable_output()}}) {
    for (ValueInfoProto& value : *values) {
      const auto type = types.find(value.name());
      if (type == types.end()) continue;
      const DType own = type_of(value.name()).type;
      (*renamed)[inner(value.name())] = value.type();
      if (is_input) first.push_back(cast_of(value.name(), inner(value.name()), own));
      if (!is_input) last.push_back(cast_of(inner(value.name()), value.name(), type->second));
      value.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_code(type->second));
      (*renamed)[value.name()] = value.type();
    }
  }
  first.insert(first.end(), graph.node().begin(), graph.node().end());
  first.insert(first.end(), last.begin(), last.end());
  graph.clear_node();
  for (NodeProto& node : first) graph.add_node()->Swap(&node);
  made->types = renamed;
  made->index();
  return ModelFile(std::move(made));
}

}  // namespace graft
