// SPDX-License-Identifier: Apache-2.0
#include "shape_graph.h"

#include <algorithm>

#include "failure.h"
#include "framework.h"
#include "shape_text.h"

namespace graft::extension {
namespace {

using mxnet::ext::Graph;
using mxnet::ext::JsonType;
using mxnet::ext::JsonVal;
using mxnet::ext::Node;
using mxnet::ext::NodeEntry;

// Graphs by their number in the node.
constexpr size_t kWhileBody = 1, kThen = 1, kElse = 2;

/// `{"mxnet_version": ["int", 10901]}`: without it MXNet takes a symbol for one of version 0.8, and converts it.
JsonVal symbol_version() {
  JsonVal version(JsonType::LIST), attributes(JsonType::MAP);
  version.list = {JsonVal("int"), JsonVal(framework_version())};
  attributes.map[JsonVal("mxnet_version")] = version;
  return attributes;
}

Node* add_node(Graph& to, const std::string& name, const std::string& op, const std::vector<Entry>& inputs) {
  Node* made = to.addNode(name, op);
  for (const auto& [node, index] : inputs) {
    node->outputs.push_back({made, static_cast<int>(made->inputs.size())});
    made->inputs.push_back({node, index});
  }
  return made;
}

Sizes numbers(const Node& node, const char* name) {
  const auto found = node.attrs.find(name);
  if (found == node.attrs.end()) throw Failure("'" + node.name + "' (" + node.op + ") has no attribute '" + name + "'");
  return read_sizes(found->second);
}

size_t number(const Node& node, const char* name) {
  const Sizes all = numbers(node, name);
  if (all.size() != 1 || all[0] < 0) throw Failure("'" + node.name + "': its attribute '" + name + "' is no number");
  return static_cast<size_t>(all[0]);
}

template <class T>
const T& at(const Node& node, const std::vector<T>& elements, int64_t place) {
  if (place >= 0 && place < static_cast<int64_t>(elements.size())) return elements[static_cast<size_t>(place)];
  throw Failure("'" + node.name + "' (" + node.op + ") names " + std::to_string(place) + " of " +
                std::to_string(elements.size()));
}

}  // namespace

ShapeGraph::ShapeGraph(const Graph& graph) { copy(graph, new_graph(), copies_); }

Entry ShapeGraph::find(const Copies& copies, const NodeEntry& entry) {
  const auto found = copies.find(entry.node);
  if (found == copies.end()) throw Failure("'" + entry.node->name + "' is read before it is computed");
  const Copy& copy = found->second;
  return copy.node ? Entry{copy.node, entry.entry} : at(*entry.node, copy.results, entry.entry);
}

Entry ShapeGraph::copy_of(const Entry& entry) const { return find(copies_, {entry.first, entry.second}); }

std::string ShapeGraph::symbol_of(const std::vector<Entry>& copies) {
  Graph& whole = *graphs_.front();
  whole.outputs.clear();
  for (const auto& [node, index] : copies) whole.outputs.push_back({node, index});
  whole.attrs["attrs"] = symbol_version();
  return whole.toString();
}

Graph& ShapeGraph::new_graph() { return *graphs_.emplace_back(std::make_unique<Graph>()); }

void ShapeGraph::copy(const Graph& from, Graph& to, Copies& copies) {
  for (size_t i = 0; i < from.size(); ++i) {
    const Node& node = *from.getNode(i);
    if (copies.count(&node) > 0) continue;
    if (node.op == "_cond") {
      copies[&node].results = branch(node, to, copies);
    } else if (node.op == "_while_loop") {
      copies[&node].results = loop(node, to, copies);
    } else {
      Node* made = copy_node(node, to, copies);
      copies[&node].node = made;
    }
  }
}

/// Without what MXNet inferred: `Custom` would hand it to its operator, as it does with all attributes, and MXNet ends
/// when that refuses them.
Node* ShapeGraph::copy_node(const Node& node, Graph& to, const Copies& copies) {
  std::vector<Entry> inputs;
  for (const NodeEntry& input : node.inputs) inputs.push_back(find(copies, input));
  Node* made = add_node(to, node.name, node.op, inputs);
  made->attrs = node.attrs;
  made->attrs.erase(MX_STR_SHAPE);
  made->attrs.erase(MX_STR_DTYPE);
  if (node.op == "null") to.inputs.push_back(made);
  for (const Graph* each : node.subgraphs) {
    Graph& function = new_graph();
    Copies inside;
    copy(*each, function, inside);
    for (const NodeEntry& output : each->outputs) {
      const auto [producer, index] = find(inside, output);
      function.outputs.push_back({producer, index});
    }
    made->subgraphs.push_back(&function);
  }
  return made;
}

/// The results of a node's graph, of the inputs that stand at those places.
std::vector<Entry> ShapeGraph::call(const Node& node, size_t function, const char* locations, Graph& to,
                                    const Copies& copies) {
  const Graph& body = *at(node, node.subgraphs, static_cast<int64_t>(function));
  const Sizes places = numbers(node, locations);
  Copies inside;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    const int64_t place = at(node, places, static_cast<int64_t>(i));
    inside[body.inputs[i]].results = {find(copies, at(node, node.inputs, place))};
  }
  copy(body, to, inside);
  std::vector<Entry> results;
  for (const NodeEntry& output : body.outputs) results.push_back(find(inside, output));
  return results;
}

std::vector<Entry> ShapeGraph::branch(const Node& node, Graph& to, const Copies& copies) {
  std::vector<Entry> results = call(node, kThen, "then_input_locs", to, copies);
  const std::vector<Entry> others = call(node, kElse, "else_input_locs", to, copies);
  for (size_t i = 0; i < results.size(); ++i) {
    agreements_.push_back({results[i], at(node, others, static_cast<int64_t>(i)),
                           "result " + std::to_string(i) + " of '" + node.name +
                               "' has another shape in each branch"});
  }
  return results;
}

/// As many of each result of a round as there can be rounds; variables keep their shapes.
std::vector<Entry> ShapeGraph::loop(const Node& node, Graph& to, const Copies& copies) {
  std::vector<Entry> results = call(node, kWhileBody, "func_input_locs", to, copies);
  const size_t collected = number(node, "num_out_data");
  const Sizes places = numbers(node, "func_input_locs"), variables = numbers(node, "func_var_locs");
  for (size_t i = 0; i < results.size(); ++i) {
    if (i >= collected) {
      const int64_t variable = at(node, variables, static_cast<int64_t>(i - collected));
      agreements_.push_back({results[i], find(copies, at(node, node.inputs, at(node, places, variable))),
                             "a round of '" + node.name + "' changes the shape of its variable " +
                                 std::to_string(i - collected)});
      continue;
    }
    Node* item = add_node(to, node.name + "_item", "expand_dims", {results[i]});
    item->attrs["axis"] = "0";
    Node* all = add_node(to, node.name + "_all", "repeat", {{item, 0}});
    all->attrs["axis"] = "0";
    all->attrs["repeats"] = std::to_string(number(node, "max_iterations"));
    results[i] = {all, 0};
  }
  return results;
}

}  // namespace graft::extension
