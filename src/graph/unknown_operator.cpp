// SPDX-License-Identifier: Apache-2.0
#include "graph/unknown_operator.h"

#include <vector>

#include <fmt/format.h>

#include "base/spelling.h"
#include "graph/bodies.h"
#include "graph/custom_operator.h"
#include "graph/host_operator.h"
#include "graph/op_def.h"
#include "graph/unknown_shape.h"

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
  return cause_of_unknown_shape(graph, value, [&](const Node& node) {
    return !is_control_flow(node) && !runs_on_host(node, graph) && !operator_of(node);
  });
}

}  // namespace graft
