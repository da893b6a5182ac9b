// SPDX-License-Identifier: Apache-2.0
#include "graph/insert_graph.h"

#include <string>
#include <utility>

namespace graft {

std::vector<ValueId> insert_graph(Graph& graph, const Graph& body, const std::vector<ValueId>& arguments,
                                  std::string_view prefix) {
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
    node.name = std::string(prefix) + "/" + node.name;
    for (ValueId& id : node.inputs) id = id == kNoValue ? kNoValue : copies[id];
    for (ValueId& id : node.outputs) id = id == kNoValue ? kNoValue : copies[id];
    graph.add_node(std::move(node));
  }
  return copies;
}

}  // namespace graft
