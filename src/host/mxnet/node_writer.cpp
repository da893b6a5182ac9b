// SPDX-License-Identifier: Apache-2.0
#include "node_writer.h"

#include <algorithm>
#include <map>
#include <set>

#include "failure.h"

namespace graft::extension {
namespace {

using mxnet::ext::Graph;
using mxnet::ext::Node;
using mxnet::ext::NodeEntry;

/// A graph inside of a node: its variables are inputs, of whose types the node around it knows.
class BodyReading {
 public:
  explicit BodyReading(const Graph& graph) : graph_(graph) {}

  GraphHandle read() {
    for (size_t i = 0; i < graph_.size(); ++i) note(*graph_.getNode(i), 0);
    for (size_t i = 0; i < graph_.size(); ++i) {
      for (const NodeEntry& input : graph_.getNode(i)->inputs) note(*input.node, input.entry);
    }
    for (const NodeEntry& output : graph_.outputs) note(*output.node, output.entry);
    for (size_t i = 0; i < graph_.size(); ++i) add(*graph_.getNode(i));
    std::vector<int32_t> outputs;
    for (const NodeEntry& output : graph_.outputs) outputs.push_back(value_at(output));
    check(graft_host_graph_set_borders(handle_.get(), inputs_.data(), inputs_.size(), outputs.data(), outputs.size(),
                                       &error_), error_);
    return std::move(handle_);
  }

 private:
  /// Only the results that somebody reads are known.
  void note(const Node& node, int result) { counts_[&node] = std::max(counts_[&node], result + 1); }

  int32_t value_at(const NodeEntry& entry) const {
    const auto found = values_.find(entry.node);
    if (found == values_.end()) throw Failure("'" + entry.node->name + "' is read before it is computed");
    return found->second.at(static_cast<size_t>(entry.entry));
  }

  void add(const Node& node) {
    std::vector<int32_t>& results = values_[&node];
    for (int result = 0; result < counts_.at(&node); ++result) {
      const std::string name = node.name + (result > 0 ? ":" + std::to_string(result) : "");
      graft_host_value value{};
      value.struct_size = sizeof value;
      value.name = name.c_str();
      value.rank = -1;
      value.is_tensor = 1;
      results.push_back(-1);
      check(graft_host_graph_add_value(handle_.get(), &value, &results.back(), &error_), error_);
    }
    if (node.op == "null") {
      inputs_.push_back(results.at(0));
      return;
    }
    std::vector<int32_t> read;
    for (const NodeEntry& input : node.inputs) read.push_back(value_at(input));
    std::string name = node.name;
    while (!names_.insert(name).second) name += "_";
    add_host_node(handle_.get(), node, name, read, results);
  }

  const Graph& graph_;
  GraphHandle handle_ = new_host_graph();
  std::map<const Node*, int> counts_;
  std::map<const Node*, std::vector<int32_t>> values_;
  std::vector<int32_t> inputs_;
  std::set<std::string> names_;
  graft_error error_ = {};
};

}  // namespace

GraphHandle new_host_graph() {
  graft_host_graph* handle = nullptr;
  graft_error error = {};
  check(graft_host_graph_create("mxnet", &handle, &error), error);
  return {handle, graft_host_graph_destroy};
}

void add_host_node(graft_host_graph* graph, const Node& node, const std::string& name,
                   const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs, const std::string& kept) {
  std::vector<graft_host_argument> arguments, attributes;
  std::vector<const char*> names, body_names;
  for (const int32_t input : inputs) arguments.push_back({GRAFT_ARGUMENT_VALUE, input, 0, nullptr, nullptr, 0});
  for (const auto& [attribute, text] : node.attrs) {
    if (attribute.starts_with("__")) continue;  // of variables, and what MXNet inferred
    names.push_back(attribute.c_str());
    attributes.push_back({GRAFT_ARGUMENT_TEXT, 0, 0, text.c_str(), nullptr, 0});
  }
  std::vector<GraphHandle> handles;
  std::vector<std::string> numbers;
  std::vector<const graft_host_graph*> bodies;
  for (const Graph* body : node.subgraphs) {
    handles.push_back(BodyReading(*body).read());
    bodies.push_back(handles.back().get());
    numbers.push_back(std::to_string(numbers.size()));
  }
  for (const std::string& number : numbers) body_names.push_back(number.c_str());
  const bool real = node.op != "_copy" && node.op != "BlockGrad" && node.op != "Dropout";
  const graft_host_node added{.struct_size = sizeof added,
                              .op = node.op.c_str(),
                              .name = name.c_str(),
                              .scope = nullptr,
                              .source = nullptr,
                              .arguments = arguments.data(),
                              .argument_count = arguments.size(),
                              .attribute_names = names.data(),
                              .attributes = attributes.data(),
                              .attribute_count = attributes.size(),
                              .outputs = outputs.data(),
                              .output_count = outputs.size(),
                              .after = nullptr,
                              .after_count = 0,
                              .counts = real,
                              .replicable = 0,
                              .kept = kept.empty() ? nullptr : kept.c_str(),
                              .body_names = body_names.data(),
                              .bodies = bodies.data(),
                              .body_count = bodies.size()};
  graft_error error = {};
  check(graft_host_graph_add_node(graph, &added, &error), error);
}

}  // namespace graft::extension
