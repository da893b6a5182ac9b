// SPDX-License-Identifier: Apache-2.0
// Whether two graphs are the same but for the order in which their values are numbered.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace graft {

/// The graph with its values numbered in the order in which inputs, nodes and outputs mention them, bodies as well.
inline Graph renumbered(Graph graph) {
  std::vector<ValueId> order, numbers(graph.values.size(), kNoValue);
  const auto mention = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) {
      if (id == kNoValue) continue;
      if (numbers[static_cast<size_t>(id)] == kNoValue) {
        numbers[static_cast<size_t>(id)] = static_cast<ValueId>(order.size());
        order.push_back(id);
      }
      id = numbers[static_cast<size_t>(id)];
    }
  };
  mention(graph.inputs);
  for (Node& node : graph.nodes) {
    mention(node.inputs);
    mention(node.outputs);
    for (auto& [name, attribute] : node.attributes) {
      if (auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute)) {
        *body = std::make_shared<const Graph>(renumbered(**body));
      }
    }
  }
  mention(graph.outputs);
  std::vector<Value> values;
  for (const ValueId id : order) values.push_back(graph.values[static_cast<size_t>(id)]);
  graph.values = std::move(values);
  return graph;
}

/// The text of a graph that does not depend on the order of its values.
inline std::string text_of(const Graph& graph) { return print(renumbered(graph)); }

}  // namespace graft
