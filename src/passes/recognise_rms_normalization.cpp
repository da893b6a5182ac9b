// SPDX-License-Identifier: Apache-2.0
// x / sqrt(mean(x^2) + epsilon) * scale -> RMSNormalization(x, scale), with or without the scale.
#include "passes/normalization.h"
#include "passes/passes.h"

namespace graft::passes {

bool recognise_rms_normalization(Graph& graph, const PassContext& context) {
  const Pattern mean = node("ReduceMean", {squared(any("x")), constant("axes")}, "mean");
  const Pattern pattern = divided_by_deviation(any("x"), mean);
  return rewrite_nodes(graph, [&](Graph& g, const Matcher& matcher, int index) {
    const Node& root = g.nodes[index];
    const auto match = is_op(root, {"Div", "Mul"}) ? matcher.find(pattern, root.outputs[0]) : std::nullopt;
    if (!match) return false;
    Normalization found;
    found.x = (*match)["x"];
    found.epsilon = *scalar_of(g, (*match)["epsilon"]);
    found.axis = first_trailing_axis(g, *producer(g, (*match)["mean"]));
    found.root = index;
    found.nodes = match->nodes;
    if (found.axis < 0) {
      context.left("recognise_rms_normalization", root, "the mean is not over the trailing axes");
      return false;
    }
    absorb_casts(g, matcher, found);
    found.scale = absorb_operand(g, matcher, "Mul", found);
    if (found.scale == kNoValue) found.scale = add_ones(g, found);
    if (found.scale == kNoValue) {
      context.left("recognise_rms_normalization", root, "there is no scale and the normalized size is not constant");
      return false;
    }
    const std::string fault = replace_normalization(g, found, "RMSNormalization");
    if (!fault.empty()) context.left("recognise_rms_normalization", root, fault);
    return fault.empty();
  });
}

}  // namespace graft::passes
