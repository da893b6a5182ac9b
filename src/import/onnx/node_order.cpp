// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/node_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "import/onnx/onnx.pb.h"

namespace graft {
namespace {

using graft_onnx::AttributeProto;
using graft_onnx::GraphProto;
using graft_onnx::NodeProto;
using Nodes = google::protobuf::RepeatedPtrField<NodeProto>;
using Names = std::unordered_set<std::string_view>;

template <class Visit>
void for_each_graph(NodeProto& node, const Visit& visit) {
  for (AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) visit(*attribute.mutable_g());
    for (GraphProto& graph : *attribute.mutable_graphs()) visit(graph);
  }
}

std::string describe(const NodeProto& node) {
  if (!node.name().empty()) return fmt::format("'{}'", node.name());
  return fmt::format("'{}'", node.output_size() ? node.output(0) : node.op_type());
}

/// Sorts the nodes of one graph or function, after those of the graphs inside of it.
class NodeSorter {
 public:
  explicit NodeSorter(Nodes& nodes) : nodes_(nodes) {}

  /// What the nodes read that none of them defines, beside `known`; counts the lists that were not in order.
  Names run(const Names& known, size_t& unsorted) {
    for (int n = 0; n < nodes_.size(); ++n) {
      for (const std::string& output : nodes_[n].output()) {
        if (!output.empty()) definer_.try_emplace(output, n);
      }
    }
    Names free;
    reads_.resize(static_cast<size_t>(nodes_.size()));
    bool ordered = true;
    for (int n = 0; n < nodes_.size(); ++n) {
      for (const std::string_view name : read_by(nodes_[n], unsorted)) {
        const auto definer = definer_.find(name);
        if (known.contains(name)) continue;  // an input or initializer; a node of that name is an error of its own
        if (definer == definer_.end()) {
          free.insert(name);
          continue;
        }
        reads_[static_cast<size_t>(n)].push_back(definer->second);
        ordered = ordered && definer->second < n;
      }
    }
    if (ordered) return free;
    ++unsorted;
    apply(topological_order());
    return free;
  }

 private:
  /// What a node and the graphs in its attributes read from around it.
  static Names read_by(NodeProto& node, size_t& unsorted) {
    Names names;
    for (const std::string& input : node.input()) {
      if (!input.empty()) names.insert(input);
    }
    for_each_graph(node, [&](GraphProto& graph) { names.merge(sort(graph, unsorted)); });
    return names;
  }

  static Names sort(GraphProto& graph, size_t& unsorted) {
    Names known;
    for (const auto& input : graph.input()) known.insert(input.name());
    for (const auto& tensor : graph.initializer()) known.insert(tensor.name());
    for (const auto& tensor : graph.sparse_initializer()) known.insert(tensor.values().name());
    Names free = NodeSorter(*graph.mutable_node()).run(known, unsorted);
    for (const NodeProto& node : graph.node()) {
      for (const std::string& output : node.output()) known.insert(output);
    }
    for (const auto& output : graph.output()) {
      if (!known.contains(output.name())) free.insert(output.name());
    }
    return free;
  }

  /// Of the nodes that can be next the first of the file.
  std::vector<int> topological_order() const {
    const auto count = static_cast<size_t>(nodes_.size());
    std::vector<std::vector<int>> readers(count);
    std::vector<size_t> missing(count);
    std::priority_queue<int, std::vector<int>, std::greater<>> next;
    for (size_t n = 0; n < count; ++n) {
      missing[n] = reads_[n].size();
      for (const int from : reads_[n]) readers[static_cast<size_t>(from)].push_back(static_cast<int>(n));
      if (missing[n] == 0) next.push(static_cast<int>(n));
    }
    std::vector<int> order;
    while (!next.empty()) {
      const int node = next.top();
      next.pop();
      order.push_back(node);
      for (const int reader : readers[static_cast<size_t>(node)]) {
        if (--missing[static_cast<size_t>(reader)] == 0) next.push(reader);
      }
    }
    if (order.size() != count) fail_with_cycle(missing);
    return order;
  }

  /// Each node that is left waits for another that is left: going from one to the next ends in a cycle.
  [[noreturn]] void fail_with_cycle(const std::vector<size_t>& missing) const {
    const auto waits = [&](int node) { return missing[static_cast<size_t>(node)] > 0; };
    int at = 0;
    while (!waits(at)) ++at;
    std::vector<int> path;
    while (std::find(path.begin(), path.end(), at) == path.end()) {
      path.push_back(at);
      const std::vector<int>& reads = reads_[static_cast<size_t>(at)];
      at = *std::find_if(reads.begin(), reads.end(), waits);
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), at));
    std::reverse(path.begin(), path.end());
    constexpr size_t kMost = 8;
    std::vector<std::string> names;
    for (const int node : path) {
      if (names.size() < kMost) names.push_back(describe(nodes_[node]));
    }
    if (path.size() > kMost) names.emplace_back("...");
    throw Error(ErrorKind::kInvalidModel,
                fmt::format("its result is needed to compute it ({} nodes in a cycle: {}); export the model again",
                            path.size(), fmt::join(names, ", ")),
                fmt::format("node {} ({})", describe(nodes_[at]), nodes_[at].op_type()));
  }

  void apply(const std::vector<int>& order) {
    std::vector<NodeProto*> nodes(order.size());
    nodes_.ExtractSubrange(0, nodes_.size(), nodes.data());
    for (const int node : order) nodes_.AddAllocated(nodes[static_cast<size_t>(node)]);
  }

  friend size_t graft::sort_nodes(graft_onnx::ModelProto& model);

  Nodes& nodes_;
  std::unordered_map<std::string_view, int> definer_;
  std::vector<std::vector<int>> reads_;  ///< by node: the nodes whose results it reads
};

}  // namespace

size_t sort_nodes(graft_onnx::ModelProto& model) {
  size_t unsorted = 0;
  if (model.has_graph()) NodeSorter::sort(*model.mutable_graph(), unsorted);
  for (graft_onnx::FunctionProto& function : *model.mutable_functions()) {
    NodeSorter(*function.mutable_node()).run({function.input().begin(), function.input().end()}, unsorted);
  }
  return unsorted;
}

}  // namespace graft
