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

}  // namespace

void keep_declared_ranks(Graph& graph) {
  const bool undecided = std::any_of(graph.nodes.begin(), graph.nodes.end(), differs_in_rank);
  if (!undecided) return;
  const Graph alone = inferred_alone(graph);
  for (const ValueId result : graph.outputs) {
    const Value& value = graph.value(result);
    const bool declared = value.dynamic_type.empty() && value.shape && !value.shape->empty();
    if (declared && !alone.value(result).shape && if_behind(alone, result)) require_rank(graph, result);
  }
}

}  // namespace graft
