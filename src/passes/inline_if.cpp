// SPDX-License-Identifier: Apache-2.0
// If(known, then, else) -> the nodes of the branch taken, named `IF/NODE`.
#include <algorithm>
#include <optional>
#include <string>

#include "graph/bodies.h"
#include "graph/infer.h"
#include "graph/insert_graph.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

/// The condition, from a constant or from what shapes say of it.
std::optional<bool> known_condition(const Graph& graph, ValueId id) {
  if (const auto value = scalar_of(graph, id)) return *value != 0;
  if (id == kNoValue) return std::nullopt;
  const auto& content = graph.value(id).content;
  if (!content || content->size() != 1 || !content->front().is_constant()) return std::nullopt;
  return !content->front().is(0);
}

bool inline_branch(Graph& graph, int index) {
  const Node& node = graph.nodes[index];
  const auto condition = is_op(node, {"If"}) ? known_condition(graph, input(node, 0)) : std::nullopt;
  if (!condition) return false;
  const std::string_view branch = *condition ? "then_branch" : "else_branch";
  const std::vector<NodeBody> bodies = bodies_of(node);
  const auto taken =
      std::find_if(bodies.begin(), bodies.end(), [&](const NodeBody& body) { return body.attribute == branch; });
  if (taken == bodies.end()) return false;
  const std::shared_ptr<const Graph> body = taken->graph;
  const std::vector<ValueId> captured = taken->captured_by(node);
  if (captured.size() != body->inputs.size() || node.outputs.size() > body->outputs.size()) return false;
  const std::vector<ValueId> copies = insert_graph(graph, *body, captured, std::string(node.name));
  for (size_t k = 0; k < graph.nodes[index].outputs.size(); ++k) {
    give_result(graph, index, k, "Identity", {copies[body->outputs[k]]});
  }
  return true;
}

}  // namespace

bool inline_if(Graph& graph, const PassContext&) {
  bool changed = false;
  while (rewrite_nodes(graph, [](Graph& g, const Matcher&, int index) { return inline_branch(g, index); })) {
    changed = true;
    infer_types(graph);  // the shape that a branch gives may decide the next condition
  }
  return changed;
}

}  // namespace graft::passes
