// SPDX-License-Identifier: Apache-2.0
// A constant that a body captures -> a constant of the body, which folds it and packs it for its kernels.
#include "graph/bodies.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

/// The body with its input as a constant.
void make_constant(Graph& body, size_t input, const TensorData& data) {
  Value& value = body.value(body.inputs[input]);
  value.type = data.type();
  value.shape = Shape(data.shape().begin(), data.shape().end());
  value.content.reset();
  value.constant = data;
  body.inputs.erase(body.inputs.begin() + static_cast<std::ptrdiff_t>(input));
}

bool capture_at(Graph& graph, Node& node) {
  std::vector<NodeBody> bodies = bodies_of(node);
  std::vector<ValueId> inputs(node.inputs.begin(),
                              node.inputs.begin() + static_cast<std::ptrdiff_t>(own_input_count(node)));
  std::vector<int64_t> counts;
  bool changed = false;
  for (const NodeBody& body : bodies) {
    const std::vector<ValueId> captured = body.captured_by(node);
    const size_t first = body.graph->inputs.size() - captured.size();
    auto copy = std::make_shared<Graph>(*body.graph);
    counts.push_back(static_cast<int64_t>(captured.size()));
    for (size_t i = captured.size(); i-- > 0;) {
      const TensorData* constant = constant_of(graph, captured[i]);
      if (!constant) continue;
      make_constant(*copy, first + i, *constant);
      --counts.back();
    }
    for (const ValueId id : captured) {
      if (!constant_of(graph, id)) inputs.push_back(id);
    }
    if (counts.back() == static_cast<int64_t>(captured.size())) continue;
    node.attributes[body.attribute] = std::shared_ptr<const Graph>(std::move(copy));
    changed = true;
  }
  if (!changed) return false;
  node.inputs = std::move(inputs);
  node.attributes["captures"] = std::move(counts);
  return true;
}

}  // namespace

bool capture_constants(Graph& graph, const PassContext&) {
  bool changed = false;
  for (Node& node : graph.nodes) {
    if (is_control_flow(node)) changed |= capture_at(graph, node);
  }
  if (changed) sweep(graph);
  return changed;
}

}  // namespace graft::passes
