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
    placed.push_back({last, proto_of(call), call.inputs, call.outputs});
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

}  // namespace graft
