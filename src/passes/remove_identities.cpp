// SPDX-License-Identifier: Apache-2.0
// Nodes that give back their first input: Identity(x) -> x, Cast(x to its own type) -> x, Reshape(x to its own
// shape) -> x ...
#include <algorithm>

#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

bool all_are(const std::vector<int64_t>& values, int64_t expected) {
  return std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == expected; });
}

bool is_ascending(const std::vector<int64_t>& permutation) {
  for (size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<int64_t>(i)) return false;
  }
  return !permutation.empty();
}

/// Dropout does nothing unless `training_mode` is there; its mask must not be wanted.
bool is_inference_dropout(const Graph& graph, const Matcher& matcher, const Node& node) {
  const ValueId mask = node.outputs.size() > 1 ? node.outputs[1] : kNoValue;
  if (mask != kNoValue && (graph.is_output(mask) || !matcher.consumers(mask).empty())) return false;
  return input(node, 2) == kNoValue || scalar_of(graph, input(node, 2)) == 0.0;
}

/// A slice as large as its input takes all of it, in order, unless a step is negative.
bool takes_all(const Graph& graph, const Node& node) {
  if (!same_shape(graph, node.inputs[0], node.outputs[0])) return false;
  if (input(node, 4) == kNoValue) return true;
  const auto steps = integers_of(graph, input(node, 4));
  return steps && std::all_of(steps->begin(), steps->end(), [](int64_t step) { return step > 0; });
}

/// Operators that only move elements, keeping their order, so that an equal shape means an equal result.
bool keeps_order(const Node& node) {
  return is_op(node, {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile"});
}

/// Whether an Expand asks for sizes that its input is seen to have; others the run checks, though no size changes.
bool asks_for_known_sizes(const Graph& graph, const Node& node) {
  const Value& asked = graph.value(node.inputs[1]);
  if (asked.constant) return true;
  const Shape& own = *graph.value(node.inputs[0]).shape;
  if (!asked.content || asked.content->size() > own.size()) return false;
  const size_t offset = own.size() - asked.content->size();
  for (size_t axis = 0; axis < asked.content->size(); ++axis) {
    const Size& size = (*asked.content)[axis];
    if (!size.is(1) && size != own[offset + axis]) return false;
  }
  return true;
}

bool gives_back_input(const Graph& graph, const Matcher& matcher, const Node& node) {
  if (node.inputs.empty() || node.inputs[0] == kNoValue || node.outputs.empty() || node.outputs[0] == kNoValue) {
    return false;
  }
  const Value& x = graph.value(node.inputs[0]);
  const Value& y = graph.value(node.outputs[0]);
  if (is_op(node, {"Identity"})) return true;
  if (is_op(node, {"Dropout"})) return is_inference_dropout(graph, matcher, node);
  if (is_op(node, {"Cast", "CastLike"})) return x.type == y.type && x.type != DType::kUndefined;
  if (is_op(node, {"Transpose"})) return is_ascending(integers(node, "perm")) || rank_of(graph, node.inputs[0]) == 1;
  if (is_op(node, {"Slice"})) return takes_all(graph, node);
  if (is_op(node, {"Concat", "Sum", "Max", "Min", "Mean"})) return node.inputs.size() == 1;
  if (is_op(node, {"Clip"})) return input_count(node) == 1;
  if (is_op(node, {"Split"})) return node.outputs.size() == 1 && same_shape(graph, node.inputs[0], node.outputs[0]);
  if (is_op(node, {"Pad"})) {
    const auto pads = integers_of(graph, input(node, 1));
    return pads && all_are(*pads, 0);
  }
  if (!keeps_order(node) || !same_shape(graph, node.inputs[0], node.outputs[0])) return false;
  return !is_op(node, {"Expand"}) || asks_for_known_sizes(graph, node);
}

}  // namespace

bool remove_identities(Graph& graph, const PassContext&) {
  return rewrite_nodes(graph, [](Graph& g, const Matcher& matcher, int index) {
    const Node& node = g.nodes[index];
    return gives_back_input(g, matcher, node) && bypass(g, index, node.inputs[0]);
  });
}

}  // namespace graft::passes
