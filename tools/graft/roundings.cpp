// SPDX-License-Identifier: Apache-2.0
#include "roundings.h"

#include <vector>

#include "graph/evaluate_graph.h"

namespace graft {
namespace {

DType narrow(DType type) {
  return is_float(type) && bit_width(type) < bit_width(DType::kFloat32) ? type : DType::kUndefined;
}

/// Of all that the node's bodies compute.
DType inside(const Node& node) {
  DType coarsest = DType::kUndefined;
  for (const auto& [name, attribute] : node.attributes) {
    const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute);
    if (!body || !*body) continue;
    for (const Value& value : (*body)->values) coarsest = coarser(coarsest, narrow(value.type));
    for (const Node& each : (*body)->nodes) coarsest = coarser(coarsest, inside(each));
  }
  return coarsest;
}

}  // namespace

DType rounding_of(Precision precision) {
  return precision == Precision::kTf32 ? DType::kFloat16 : low_type(precision);
}

DType coarser(DType a, DType b) {
  if (a == DType::kUndefined || b == DType::kUndefined) return a == DType::kUndefined ? b : a;
  return usual_tolerance(a) >= usual_tolerance(b) ? a : b;
}

Roundings roundings_of(const Graph& graph, DType network) {
  std::vector<DType> known(graph.values.size(), DType::kUndefined);
  for (size_t id = 0; id < known.size(); ++id) known[id] = coarser(network, narrow(graph.values[id].type));
  for (const Node& node : graph.nodes) {
    DType coarsest = inside(node);
    for (const ValueId input : node.inputs) {
      if (input != kNoValue) coarsest = coarser(coarsest, known[static_cast<size_t>(input)]);
    }
    for (const ValueId output : node.outputs) {
      if (output == kNoValue) continue;
      DType& type = known[static_cast<size_t>(output)];
      type = coarser(type, coarsest);
    }
  }
  Roundings roundings;
  for (size_t id = 0; id < known.size(); ++id) roundings[graph.values[id].name] = known[id];
  return roundings;
}

}  // namespace graft
