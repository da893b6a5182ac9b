// SPDX-License-Identifier: Apache-2.0
// If(known, then, else) -> the nodes of the branch taken, named `IF/NODE`.
#include <algorithm>
#include <optional>
#include <utility>

#include "graph/bodies.h"
#include "graph/infer.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

/// Copies the body's constants, values and nodes; gives the graph's value for each of the body's.
std::vector<ValueId> copy_body(Graph& graph, const Graph& body, const std::vector<ValueId>& arguments,
                               const std::string& prefix) {
  std::vector<ValueId> copies(body.values.size(), kNoValue);
  for (size_t i = 0; i < body.inputs.size(); ++i) copies[body.inputs[i]] = arguments[i];
  for (const DerivedSize& derived : body.derived.list()) graph.derived.add(derived);
  for (size_t i = 0; i < body.values.size(); ++i) {
    const Value& value = body.values[i];
    if (copies[i] != kNoValue) continue;
    if (value.constant) {
      copies[i] = graph.add_constant(value.name, *value.constant);
    } else {
      copies[i] = graph.add_value(value.name, value.type, value.shape);
      graph.value(copies[i]).content = value.content;
      graph.value(copies[i]).dynamic_type = value.dynamic_type;
    }
  }
  for (Node node : body.nodes) {
    node.name = prefix + "/" + node.name;
    for (ValueId& id : node.inputs) id = id == kNoValue ? kNoValue : copies[id];
    for (ValueId& id : node.outputs) id = id == kNoValue ? kNoValue : copies[id];
    graph.add_node(std::move(node));
  }
  return copies;
}

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
  const std::string name = node.name;
  const std::vector<ValueId> copies = copy_body(graph, *body, captured, name);
  for (size_t k = 0; k < graph.nodes[index].outputs.size(); ++k) {
    const ValueId output = std::exchange(graph.nodes[index].outputs[k], kNoValue);
    if (output == kNoValue) continue;
    Node identity;
    identity.name = name + "/result";
    identity.op = "Identity";
    identity.inputs = {copies[body->outputs[k]]};
    identity.outputs = {output};
    graph.add_node(std::move(identity));
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
