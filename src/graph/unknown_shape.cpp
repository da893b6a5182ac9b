// SPDX-License-Identifier: Apache-2.0
#include "graph/unknown_shape.h"

#include <set>
#include <vector>

namespace graft {

const Node* cause_of_unknown_shape(const Graph& graph, ValueId value,
                                   const std::function<bool(const Node&)>& is_cause) {
  std::set<ValueId> seen;
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (id == kNoValue || graph.value(id).shape || !seen.insert(id).second || graph.value(id).producer < 0) continue;
    const Node& node = graph.nodes[static_cast<size_t>(graph.value(id).producer)];
    if (is_cause(node)) return &node;
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  return nullptr;
}

}  // namespace graft
