// SPDX-License-Identifier: Apache-2.0
#include "graph/unknown_operator.h"

#include <set>
#include <vector>

#include <fmt/format.h>

#include "base/spelling.h"
#include "graph/bodies.h"
#include "graph/custom_operator.h"
#include "graph/host_operator.h"
#include "graph/op_def.h"

namespace graft {

std::string no_definition(const Node& node) {
  std::vector<std::string> names;
  for (const OpDef& op : all_ops()) {
    if (op.domain == node.domain) names.emplace_back(op.name);
  }
  return fmt::format(
      "the operator {}{}{} has no definition{}; define it with --ops FILE (`graft check` lists all such "
      "nodes)",
      node.domain, node.domain.empty() ? "" : ".", node.op, did_you_mean(node.op, names));
}

const Node* unknown_operator_behind(const Graph& graph, ValueId value) {
  std::set<ValueId> seen;
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (id == kNoValue || graph.value(id).shape || !seen.insert(id).second || graph.value(id).producer < 0) continue;
    const Node& node = graph.nodes[static_cast<size_t>(graph.value(id).producer)];
    if (!is_control_flow(node) && !runs_on_host(node, graph) && !operator_of(node)) return &node;
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  return nullptr;
}

}  // namespace graft
