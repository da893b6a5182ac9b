// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/declared_ranks.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "graph/infer.h"
#include "graph/undecided_rank.h"

namespace graft {
namespace {

/// What inference alone knows: without the shapes that the file states for what nodes give.
Graph inferred_alone(const Graph& graph) {
  Graph inferred = graph;
  for (Value& value : inferred.values) {
    if (value.producer >= 0) value.shape.reset();
  }
  infer_types(inferred);
  return inferred;
}

/// result -> Transpose(result) in the order that the axes have: it fits that number of axes alone.
void require_rank(Graph& graph, ValueId result) {
  const Value value = graph.value(result);
  std::vector<int64_t> order(value.shape->size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const ValueId open = graph.add_value(value.name + "/result", value.type);
  std::vector<ValueId>& outputs = graph.nodes[static_cast<size_t>(value.producer)].outputs;
  std::replace(outputs.begin(), outputs.end(), result, open);
  graph.value(open).producer = value.producer;
  graph.add_node({.name = fmt::format("{}/declared", value.name), .op = "Transpose", .attributes = {{"perm", order}},
                  .inputs = {open}, .outputs = {result}});
  graph.sort_nodes();
}

/// Whether a result comes from a Transpose with an order of as many axes, as a model that was written has it.
bool states_rank(const Graph& graph, ValueId result) {
  const Value& value = graph.value(result);
  const Node& node = graph.nodes[static_cast<size_t>(value.producer)];
  if (!node.domain.empty() || node.op != "Transpose") return false;
  const auto order = node.attributes.find("perm");
  const auto* axes = order == node.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&order->second);
  return axes && axes->size() == value.shape->size();
}

}  // namespace

void keep_declared_ranks(Graph& graph) {
  const bool undecided = std::any_of(graph.nodes.begin(), graph.nodes.end(), differs_in_rank);
  if (!undecided) return;
  const Graph alone = inferred_alone(graph);
  for (const ValueId result : graph.outputs) {
    const Value& value = graph.value(result);
    const bool declared = value.dynamic_type.empty() && value.shape && !value.shape->empty();
    if (!declared || alone.value(result).shape || !if_behind(alone, result)) continue;
    if (!states_rank(graph, result)) require_rank(graph, result);
  }
}

}  // namespace graft
