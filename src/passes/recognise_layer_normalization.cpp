// SPDX-License-Identifier: Apache-2.0
// (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * scale + bias -> LayerNormalization(x, scale, bias), with or without
// scale and bias, and in the form x * s + (bias - mean * s) of TensorFlow, where s = scale / deviation.
#include "passes/normalization.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

constexpr std::string_view kName = "recognise_layer_normalization";

Pattern mean_of(const Pattern& x, std::string_view axes, std::string_view name) {
  return node("ReduceMean", {x, constant(axes)}, name);
}

Pattern centered() { return node("Sub", {any("x"), mean_of(any("x"), "mean_axes", "mean")}); }
Pattern variance() { return mean_of(squared(centered()), "variance_axes", "variance"); }

Pattern plain_form() { return divided_by_deviation(centered(), variance()); }

Pattern tensorflow_form() {
  const Pattern factor = node("Mul", {inverse_deviation(variance()), any("scale")}, "factor");
  const Pattern mean = mean_of(any("x"), "mean_axes", "mean");
  return node("Add", {node("Mul", {any("x"), factor}), node("Sub", {any("bias"), node("Mul", {mean, factor})})});
}

/// Both reductions must average over the same trailing axes; fills the axis and epsilon.
bool fill(const Graph& graph, const Match& match, Normalization& found) {
  found.x = match["x"];
  found.nodes = match.nodes;
  found.root = match.nodes.front();
  found.epsilon = *scalar_of(graph, match["epsilon"]);
  const int64_t first = first_trailing_axis(graph, *producer(graph, match["mean"]));
  const int64_t second = first_trailing_axis(graph, *producer(graph, match["variance"]));
  found.axis = first;
  return first >= 0 && first == second;
}

/// Whether an operand that the pattern took has the shape of the normalized axes.
bool fits(const Graph& graph, ValueId operand, const Normalization& found) {
  const auto& shape = graph.value(operand).shape;
  const auto& whole = *graph.value(found.x).shape;
  return shape && *shape == Shape(whole.begin() + found.axis, whole.end()) &&
         graph.value(operand).type == graph.value(found.x).type;
}

bool refuse(const PassContext& context, const Node& node, std::string_view reason) {
  context.left(kName, node, reason);
  return false;
}

bool recognise_plain(Graph& graph, const Matcher& matcher, const Match& match, const PassContext& context) {
  Normalization found;
  const Node& root = graph.nodes[match.nodes.front()];
  if (!fill(graph, match, found)) return refuse(context, root, "the means are not over the same trailing axes");
  absorb_casts(graph, matcher, found);
  found.scale = absorb_operand(graph, matcher, "Mul", found);
  if (found.scale == kNoValue) found.scale = add_ones(graph, found);
  if (found.scale == kNoValue)
    return refuse(context, root, "there is no scale and the normalized size is not constant");
  found.bias = absorb_operand(graph, matcher, "Add", found);
  const std::string fault = replace_normalization(graph, found, "LayerNormalization");
  return fault.empty() || refuse(context, root, fault);
}

bool recognise_tensorflow(Graph& graph, const Match& match, const PassContext& context) {
  Normalization found;
  const Node& root = graph.nodes[match.nodes.front()];
  if (!fill(graph, match, found)) return refuse(context, root, "the means are not over the same trailing axes");
  if (!fits(graph, match["scale"], found) || !fits(graph, match["bias"], found)) {
    return refuse(context, root, "scale or bias does not have the shape of the normalized axes");
  }
  found.scale = match["scale"];
  found.bias = match["bias"];
  const std::string fault = replace_normalization(graph, found, "LayerNormalization");
  return fault.empty() || refuse(context, root, fault);
}

}  // namespace

bool recognise_layer_normalization(Graph& graph, const PassContext& context) {
  const Pattern plain = plain_form(), tensorflow = tensorflow_form();
  return rewrite_nodes(graph, [&](Graph& g, const Matcher& matcher, int index) {
    const Node& root = g.nodes[index];
    if (is_op(root, {"Div", "Mul"})) {
      const auto match = matcher.find(plain, root.outputs[0]);
      return match && recognise_plain(g, matcher, *match, context);
    }
    if (!is_op(root, {"Add"})) return false;
    const auto match = matcher.find(tensorflow, root.outputs[0]);
    return match && recognise_tensorflow(g, *match, context);
  });
}

}  // namespace graft::passes
