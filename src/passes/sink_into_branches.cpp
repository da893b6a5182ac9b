// SPDX-License-Identifier: Apache-2.0
// f(If(c, then, else)) -> If(c, f(then), f(else)), where the branches differ in the number of axes of what f reads: in
// each branch it is known, and further on they may agree again.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/bodies.h"
#include "graph/infer.h"
#include "graph/insert_graph.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

constexpr size_t kMostNodes = 4096;  // of a branch: branches in branches double what they take in

size_t count_nodes(const Graph& graph) {
  size_t count = graph.nodes.size();
  for (const Node& node : graph.nodes) {
    for (const NodeBody& body : bodies_of(node)) count += count_nodes(*body.graph);
  }
  return count;
}

int depth_of(const Node& node) {
  int depth = 0;
  for (const NodeBody& body : bodies_of(node)) {
    for (const Node& inner : body.graph->nodes) depth = std::max(depth, depth_of(inner));
    ++depth;
  }
  return depth;
}

/// Both branches know the number of axes of output `k`, each another one.
bool differs_in_rank(const Graph& graph, const Node& node, const std::vector<NodeBody>& bodies, size_t k) {
  const ValueId result = node.outputs[k];
  if (result == kNoValue || graph.value(result).shape || !graph.value(result).dynamic_type.empty()) return false;
  return std::all_of(bodies.begin(), bodies.end(), [&](const NodeBody& body) {
    return rank_of(*body.graph, body.graph->outputs[k]) >= 0;
  });
}

/// An If and the nodes that move into its branches.
class Sinking {
 public:
  Sinking(const Graph& graph, int index) : graph_(graph), index_(index), node_(graph.nodes[index]) {}

  /// Whether there is something to move; `fault` says why it stays all the same.
  bool find(std::string_view& fault) {
    bodies_ = bodies_of(node_);
    if (bodies_.size() != 2) return false;
    std::set<ValueId> rankless;
    for (size_t k = 0; k < node_.outputs.size(); ++k) {
      if (differs_in_rank(graph_, node_, bodies_, k)) rankless.insert(node_.outputs[k]);
    }
    if (rankless.empty()) return false;
    for (const ValueId id : rankless) {
      if (!graph_.is_output(id)) continue;
      return fault = "the graph gives a result whose number of axes the branches decide", false;
    }
    const auto reads = [&](const Node& node, const auto& wanted) {
      return std::any_of(node.inputs.begin(), node.inputs.end(), wanted);
    };
    std::set<int> behind = {index_};
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (reads(node, [&](ValueId id) { return id != kNoValue && behind.contains(graph_.value(id).producer); })) {
        behind.insert(static_cast<int>(n));
      }
      if (reads(node, [&](ValueId id) { return rankless.contains(id); })) moved_.insert(static_cast<int>(n));
    }
    // What a node that moves reads besides, and what comes out of the branches too, goes along.
    for (auto it = moved_.rbegin(); it != moved_.rend(); ++it) {
      for (const ValueId id : graph_.nodes[static_cast<size_t>(*it)].inputs) {
        const int producer = id == kNoValue ? -1 : graph_.value(id).producer;
        if (producer != index_ && behind.contains(producer)) moved_.insert(producer);
      }
    }
    return !moved_.empty() && fits(fault);
  }

  /// The graph with the nodes in the branches.
  Graph moved() const {
    Node moved_if = node_;
    std::vector<ValueId> inputs(node_.inputs.begin(),
                                node_.inputs.begin() + static_cast<std::ptrdiff_t>(own_input_count(node_)));
    const std::vector<ValueId> results = wanted_results();
    std::vector<int64_t> counts;
    for (const NodeBody& body : bodies_) {
      std::vector<ValueId> captured = body.captured_by(node_);
      moved_if.attributes[body.attribute] =
          std::shared_ptr<const Graph>(std::make_shared<Graph>(extended(*body.graph, results, captured)));
      counts.push_back(static_cast<int64_t>(captured.size()));
      inputs.insert(inputs.end(), captured.begin(), captured.end());
    }
    moved_if.attributes["captures"] = std::move(counts);
    moved_if.inputs = std::move(inputs);
    moved_if.outputs = results;
    Graph changed = graph_;
    std::vector<bool> erased(graph_.nodes.size(), false);
    erased[static_cast<size_t>(index_)] = true;
    for (const int n : moved_) erased[static_cast<size_t>(n)] = true;
    changed.erase_nodes(erased);
    changed.add_node(std::move(moved_if));
    changed.sort_nodes();
    changed.remove_unused_values();
    infer_types(changed);
    return changed;
  }

 private:
  bool fits(std::string_view& fault) const {
    size_t nodes = 0;
    int depth = 0;
    for (const int n : moved_) {
      const Node& node = graph_.nodes[static_cast<size_t>(n)];
      if (is_random(node)) return fault = "what reads the result draws at random", false;
      for (const NodeBody& body : bodies_of(node)) nodes += count_nodes(*body.graph);
      depth = std::max(depth, depth_of(node));
      ++nodes;
    }
    for (const NodeBody& body : bodies_) nodes += count_nodes(*body.graph);
    if (nodes > kMostNodes) return fault = "what reads the result has too many nodes", false;
    if (depth + 1 >= kDeepestGraph) return fault = "what reads the result has graphs in graphs", false;
    return true;
  }

  /// What others read of the If and of the nodes that move.
  std::vector<ValueId> wanted_results() const {
    const std::vector<std::vector<int>> consumers = graph_.consumers();
    std::vector<ValueId> results;
    const auto add = [&](ValueId id) {
      if (id == kNoValue) return;
      const std::vector<int>& readers = consumers[static_cast<size_t>(id)];
      const bool elsewhere = std::any_of(readers.begin(), readers.end(), [&](int n) { return !moved_.contains(n); });
      if (elsewhere || graph_.is_output(id)) results.push_back(id);
    };
    for (const ValueId id : node_.outputs) add(id);
    for (const int n : moved_) {
      for (const ValueId id : graph_.nodes[static_cast<size_t>(n)].outputs) add(id);
    }
    return results;
  }

  /// A branch with copies of the nodes at its end, which gives `results`.
  Graph extended(Graph body, const std::vector<ValueId>& results, std::vector<ValueId>& captured) const {
    std::map<ValueId, ValueId> inside;
    const size_t first = body.inputs.size() - captured.size();
    for (size_t k = 0; k < captured.size(); ++k) inside.emplace(captured[k], body.inputs[first + k]);
    for (size_t k = 0; k < node_.outputs.size(); ++k) {
      if (node_.outputs[k] != kNoValue) inside[node_.outputs[k]] = body.outputs[k];
    }
    const auto take = [&](ValueId id) {
      const auto known = inside.find(id);
      if (known != inside.end()) return known->second;
      const Value& outer = graph_.value(id);
      ValueId copy = kNoValue;
      if (outer.constant) {
        copy = body.add_constant(outer.name, *outer.constant);
      } else {
        copy = body.add_value(outer.name, outer.type);
        body.value(copy).dynamic_type = outer.dynamic_type;
        body.inputs.push_back(copy);
        captured.push_back(id);
      }
      return inside[id] = copy;
    };
    for (const int n : moved_) {
      Node copy = graph_.nodes[static_cast<size_t>(n)];
      for (ValueId& id : copy.inputs) id = id == kNoValue ? kNoValue : take(id);
      for (ValueId& id : copy.outputs) {
        if (id == kNoValue) continue;
        const Value& outer = graph_.value(id);
        const ValueId fresh = body.add_value(outer.name, outer.type);
        body.value(fresh).dynamic_type = outer.dynamic_type;
        inside[id] = fresh;
        id = fresh;
      }
      body.add_node(std::move(copy));
    }
    body.outputs.clear();
    for (const ValueId id : results) body.outputs.push_back(inside.at(id));
    return body;
  }

  const Graph& graph_;
  const int index_;
  const Node& node_;
  std::vector<NodeBody> bodies_;
  std::set<int> moved_;  ///< in the order in which they are computed
};

/// The graph with one branch in place of the If; a run checks that its condition takes that branch. `other` is why the
/// other one cannot be taken.
Graph with_branch(const Graph& graph, int index, const NodeBody& taken, const std::string& other) {
  Graph changed = graph;
  const Node node = graph.nodes[static_cast<size_t>(index)];
  const bool then = taken.attribute == "then_branch";
  ValueId holds = node.inputs[0];
  if (!then) holds = append_node(changed, node.name + "/not", "Not", {holds}, DType::kBool, graph.value(holds).shape);
  const ValueId number = append_node(changed, node.name + "/holds", "Cast", {holds}, DType::kInt64,
                                     changed.value(holds).shape, {{"to", int64_t{onnx_code(DType::kInt64)}}});
  const std::vector<ValueId> copies = insert_graph(changed, *taken.graph, taken.captured_by(node), node.name);
  changed.opsets.try_emplace("graft", 1);
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const ValueId result = std::exchange(changed.nodes[static_cast<size_t>(index)].outputs[k], kNoValue);
    if (result == kNoValue) continue;
    const ValueId value = copies[static_cast<size_t>(taken.graph->outputs[k])];
    if (!taken.graph->value(taken.graph->outputs[k]).dynamic_type.empty()) {
      changed.add_node({.name = node.name + "/result", .op = "Identity", .inputs = {value}, .outputs = {result}});
      continue;
    }
    changed.add_node({.name = node.name,
                      .domain = "graft",
                      .op = "Require",
                      .attributes = {{"message", fmt::format("the condition of node '{}' takes the {}, which does not "
                                                             "fit what reads it: {}", node.name,
                                                             then ? "else_branch" : "then_branch", other)}},
                      .inputs = {value, number},
                      .outputs = {result}});
  }
  std::vector<bool> erased(changed.nodes.size(), false);
  erased[static_cast<size_t>(index)] = true;
  changed.erase_nodes(erased);
  changed.sort_nodes();
  changed.remove_unused_values();
  infer_types(changed);
  return changed;
}

/// f(If(c, then, else)) -> f(then), where f does not fit what the other branch gives: a model may ask for sizes that
/// are always the same where it is used.
std::optional<Graph> only_branch_that_fits(const Graph& graph, int index) {
  std::string other;
  const std::vector<NodeBody> bodies = bodies_of(graph.nodes[static_cast<size_t>(index)]);
  const NodeBody* taken = nullptr;
  for (const NodeBody& body : bodies) {
    try {
      with_branch(graph, index, body, "");
      if (taken) return std::nullopt;
      taken = &body;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInvalidModel) throw;
      other = error.what();
    }
  }
  if (!taken) return std::nullopt;
  return with_branch(graph, index, *taken, other);
}

/// Moves what reads the first such result that can be moved. Where a branch does not fit what reads it, the other one
/// is taken; a result that fits nowhere stays as it is.
bool sink_one(Graph& graph, const PassContext& context) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!is_op(graph.nodes[n], {"If"})) continue;
    std::string_view fault;
    Sinking sinking(graph, static_cast<int>(n));
    if (!sinking.find(fault)) {
      if (!fault.empty()) context.left("sink_into_branches", graph.nodes[n], fault);
      continue;
    }
    try {
      graph = sinking.moved();
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInvalidModel) throw;
      if (auto fitting = only_branch_that_fits(graph, static_cast<int>(n))) {
        graph = *std::move(fitting);
        return true;
      }
      context.left("sink_into_branches", graph.nodes[n], error.what());
    }
  }
  return false;
}

}  // namespace

bool sink_into_branches(Graph& graph, const PassContext& context) {
  bool changed = false;
  while (sink_one(graph, context)) {
    changed = true;
    inline_if(graph, context);  // in a branch, or with one alone, what asks for the number of axes is decided
  }
  return changed;
}

}  // namespace graft::passes
