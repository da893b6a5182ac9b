// SPDX-License-Identifier: Apache-2.0
#include "graph/bodies.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace graft {
namespace {

std::vector<int64_t> capture_counts(const Node& node) {
  const auto it = node.attributes.find("captures");
  const auto* counts = it == node.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&it->second);
  return counts ? *counts : std::vector<int64_t>();
}

}  // namespace

std::string too_deep_graphs() {
  return fmt::format("its graphs are nested more than {} deep; nest them less", kDeepestGraph);
}

size_t own_input_count(const Node& node) {
  const auto counts = capture_counts(node);
  const auto captured = static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  return node.inputs.size() - std::min(captured, node.inputs.size());
}

std::vector<NodeBody> bodies_of(const Node& node) {
  const auto counts = capture_counts(node);
  size_t position = own_input_count(node);
  std::vector<NodeBody> bodies;
  for (const auto& [name, attribute] : node.attributes) {
    const auto* graph = std::get_if<std::shared_ptr<const Graph>>(&attribute);
    if (!graph) continue;
    const size_t count = bodies.size() < counts.size() ? static_cast<size_t>(counts[bodies.size()]) : 0;
    bodies.push_back({name, *graph, position, count});
    position += count;
  }
  return bodies;
}

bool is_control_flow(const Node& node) { return node.domain.empty() && (node.op == "If" || node.op == "Loop"); }

bool keeps_condition(const Graph& body) {
  ValueId condition = body.outputs[0];
  for (;;) {
    const Value& value = body.value(condition);
    if (condition == body.inputs[1]) return true;
    if (value.constant) return value.constant->element_count() == 1 && value.constant->read_integer(0) != 0;
    if (value.producer < 0) return false;
    const Node& node = body.nodes[value.producer];
    if (!node.domain.empty() || node.op != "Identity" || node.inputs.size() != 1) return false;
    condition = node.inputs[0];
  }
}

}  // namespace graft
