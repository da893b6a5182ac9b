// SPDX-License-Identifier: Apache-2.0
// The body of an If or a Loop -> the same, after all passes.
#include <memory>

#include "graph/bodies.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {

bool rewrite_bodies(Graph& graph, const PassContext& context) {
  Environment quiet = *context.environment;
  quiet.dumps.clear();  // the graph around a body prints it
  PassContext inner = context;
  inner.environment = &quiet;
  inner.statistics = nullptr;
  inner.low_type = DType::kUndefined;  // lower_precision goes into bodies itself
  bool changed = false;
  for (Node& node : graph.nodes) {
    if (!is_control_flow(node)) continue;
    for (const NodeBody& body : bodies_of(node)) {
      auto copy = std::make_shared<Graph>(*body.graph);
      bool rewritten = false;
      for (const Pass& pass : pipeline()) rewritten |= run_pass(*copy, pass, inner) && pass.name != "infer";
      if (!rewritten) continue;
      node.attributes[body.attribute] = std::shared_ptr<const Graph>(std::move(copy));
      changed = true;
    }
  }
  return changed;
}

}  // namespace graft::passes
