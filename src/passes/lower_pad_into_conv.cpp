// SPDX-License-Identifier: Apache-2.0
// Conv(Pad(x, zeros around the spatial axes)) -> Conv(x) with larger pads.
#include <algorithm>

#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

/// What a Pad adds per axis: befores, then afters; nothing unless these are non-negative zeros known now.
std::optional<std::vector<int64_t>> zeros_added(const Graph& graph, const Node& pad) {
  const int rank = rank_of(graph, input(pad, 0));
  const auto given = integers_of(graph, input(pad, 1));
  if (rank < 0 || !given || text(pad, "mode", "constant") != "constant") return std::nullopt;
  if (input(pad, 2) != kNoValue && scalar_of(graph, input(pad, 2)) != 0.0) return std::nullopt;
  if (std::any_of(given->begin(), given->end(), [](int64_t count) { return count < 0; })) return std::nullopt;
  if (input(pad, 3) == kNoValue) return given;
  const auto axes = integers_of(graph, pad.inputs[3]);
  if (!axes) return std::nullopt;
  std::vector<int64_t> result(2 * static_cast<size_t>(rank), 0);
  for (size_t i = 0; i < axes->size(); ++i) {
    const int64_t axis = (*axes)[i] + ((*axes)[i] < 0 ? rank : 0);
    result[axis] = (*given)[i];
    result[rank + axis] = (*given)[axes->size() + i];
  }
  return result;
}

bool lower(Graph& graph, const Matcher& matcher, int index, const PassContext& context) {
  const Node& conv = graph.nodes[index];
  const Node* pad = is_op(conv, {"Conv", "ConvInteger"}) ? producer(graph, conv.inputs[0]) : nullptr;
  if (!pad || !is_op(*pad, {"Pad"})) return false;
  const auto refuse = [&](std::string_view reason) {
    context.left("lower_pad_into_conv", conv, reason);
    return false;
  };
  if (conv.op == "ConvInteger" && input(conv, 2) != kNoValue) return refuse("zero stands for the zero point there");
  if (matcher.only_consumer(conv.inputs[0]) != index) return refuse("the padded tensor is read elsewhere");
  const auto added = zeros_added(graph, *pad);
  if (!added) return refuse("the padding is not of zeros, or not known before the run");
  if (text(conv, "auto_pad", "NOTSET") != "NOTSET") return refuse("auto_pad depends on the padded size");
  const size_t rank = added->size() / 2;
  if ((*added)[0] || (*added)[1] || (*added)[rank] || (*added)[rank + 1]) {
    return refuse("the padding widens the batch or the channels");
  }
  std::vector<int64_t> pads = integers(conv, "pads");
  pads.resize(2 * (rank - 2), 0);
  for (size_t i = 2; i < rank; ++i) {
    pads[i - 2] += (*added)[i];
    pads[rank - 2 + i - 2] += (*added)[rank + i];
  }
  Node& changed = graph.nodes[index];
  changed.inputs[0] = pad->inputs[0];
  changed.attributes["pads"] = pads;
  return true;
}

}  // namespace

bool lower_pad_into_conv(Graph& graph, const PassContext& context) {
  return rewrite_nodes(graph,
                       [&](Graph& g, const Matcher& matcher, int index) { return lower(g, matcher, index, context); });
}

}  // namespace graft::passes
