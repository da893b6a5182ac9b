// SPDX-License-Identifier: Apache-2.0
#include "writer.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "engine.h"
#include "failure.h"
#include "graft/graft_host.h"

namespace graft::extension {
namespace {

using mxnet::ext::Graph;
using mxnet::ext::Node;
using mxnet::ext::NodeEntry;

/// Names that the graph does not have: `graft_engine0` and so on.
class Names {
 public:
  explicit Names(Graph& graph) {
    for (size_t i = 0; i < graph.size(); ++i) taken_.insert(graph.getNode(i)->name);
  }
  std::string next() {
    while (taken_.count("graft_engine" + std::to_string(count_)) > 0) ++count_;
    return "graft_engine" + std::to_string(count_++);
  }

 private:
  std::set<std::string> taken_;
  int count_ = 0;
};

std::vector<TensorType> types_of(const HostGraph& host, const int32_t* values, size_t count) {
  std::vector<TensorType> types;
  for (size_t i = 0; i < count; ++i) types.push_back(host.types[values[i]]);
  return types;
}

/// The name of an engine that learns, or of another one of a symbol that is calibrated.
std::string published_name(graft_engine& engine) {
  std::string name;
  graft_error error;
  const auto take = [](void* context, const char* given) { *static_cast<std::string*>(context) = given; };
  check(graft_host_publish_engine(&engine, &name, take, &error), error);
  return name;
}

/// The engine's node with its plan, which reads what the segment's nodes read.
Node* add_engine(Graph& graph, const HostGraph& host, const Part& part, const std::string& name,
                 const Spec& spec) {
  Node* plan = graph.addNode(name + "_plan", "null");
  write_plan(*part.engine, *plan);
  plan->attrs["__shape__"] = "(" + std::to_string(plan->tensor->shape[0]) + ",)";
  plan->attrs["__dtype__"] = std::to_string(static_cast<int>(mxnet::ext::kUint8));  // else bound as float32
  graph.inputs.push_back(plan);
  Node* node = graph.addNode(name, "_graft_engine");
  const graft_host_segment& segment = *part.segment;
  for (size_t i = 0; i < segment.input_count; ++i) {
    const auto& [producer, index] = host.entries[segment.inputs[i]];
    node->inputs.push_back({producer, index});
  }
  node->inputs.push_back({plan, 0});
  std::vector<TensorType> inputs = types_of(host, segment.inputs, segment.input_count);
  inputs.push_back({.code = mxnet::ext::kUint8, .axes = {{plan->tensor->shape[0], 0}}});
  node->attrs["inputs"] = to_text(inputs);
  node->attrs["outputs"] = to_text(types_of(host, segment.outputs, segment.output_count));
  node->attrs["device"] = spec.device;
  // Where that engine is not, the plan runs, which is of fp32 while it learns. Each of a calibration has a name.
  if (spec.learns) node->attrs["calibration"] = published_name(*part.engine);
  if (spec.shares_scratch) node->attrs["scratch"] = "mxnet";
  return node;
}

/// Whether MXNet calls this result of a node `NAME_output`: of one that is the only one, or whose operator names them.
bool is_called_output(const HostGraph& host, const Entry& entry) {
  static const std::set<std::string_view> kNamed = {"BatchNorm", "LayerNorm", "GroupNorm", "LRN", "Dropout", "RNN"};
  const auto results = std::count_if(host.entries.begin(), host.entries.end(),
                                     [&](const Entry& each) { return each.first == entry.first; });
  return entry.second == 0 && (results == 1 || kNamed.count(entry.first->op) > 0);
}

/// An engine whose one result is the graph's takes the name of the node that has given it: results are called as
/// before, and so are metrics and layers that look for them by name.
void name_engine(Node& engine, const HostGraph& host, const Part& part, const Graph& graph) {
  if (part.segment->output_count != 1) return;
  const Entry& entry = host.entries[part.segment->outputs[0]];
  const bool given = std::any_of(graph.outputs.begin(), graph.outputs.end(), [&](const NodeEntry& output) {
    return output.node == entry.first && output.entry == entry.second;
  });
  if (given && is_called_output(host, entry)) engine.name = entry.first->name;
}

/// Who reads a node, as its inputs say: the order in which MXNet's graph is written follows from that.
void connect(Graph& graph) {
  for (size_t i = 0; i < graph.size(); ++i) graph.getNode(i)->outputs.clear();
  for (size_t i = 0; i < graph.size(); ++i) {
    Node* node = graph.getNode(i);
    for (size_t input = 0; input < node->inputs.size(); ++input) {
      node->inputs[input].node->outputs.push_back({node, static_cast<int>(input)});
    }
  }
}

}  // namespace

void write_engines(Graph& graph, const HostGraph& host, const std::vector<Part>& parts, const Spec& spec) {
  for (size_t i = 0; i < graph.size(); ++i) {  // what MXNet inferred is of the old graph
    graph.getNode(i)->attrs.erase(MX_STR_SHAPE);
    graph.getNode(i)->attrs.erase(MX_STR_DTYPE);
  }
  Names names(graph);
  std::map<Entry, NodeEntry> replaced;
  std::set<const Node*> gone;
  for (const Part& part : parts) {
    Node* node = add_engine(graph, host, part, names.next(), spec);
    name_engine(*node, host, part, graph);
    for (size_t i = 0; i < part.segment->output_count; ++i) {
      replaced[host.entries[part.segment->outputs[i]]] = {node, static_cast<int>(i)};
    }
    for (size_t i = 0; i < part.segment->node_count; ++i) gone.insert(host.nodes[part.segment->nodes[i]]);
  }
  const auto redirect = [&](NodeEntry& entry) {
    const auto found = replaced.find({entry.node, entry.entry});
    if (found != replaced.end()) entry = found->second;
  };
  for (size_t i = 0; i < graph.size(); ++i) {
    Node* node = graph.getNode(i);
    if (gone.count(node) > 0) continue;
    for (NodeEntry& input : node->inputs) redirect(input);
  }
  for (NodeEntry& output : graph.outputs) redirect(output);
  connect(graph);
}

}  // namespace graft::extension
