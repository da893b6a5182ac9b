// SPDX-License-Identifier: Apache-2.0
#include <map>

#include <fmt/format.h>

#include "driver/stages.h"
#include "graph/bodies.h"
#include "tile/panel_layout.h"

namespace graft {
namespace {

using PackedByName = std::map<std::string, const PackedConstant*, std::less<>>;

/// The same for a graph whose constants have that prefix in the plan, and for its bodies.
void share_weights(Graph& graph, const std::string& prefix, const PackedByName& packings) {
  for (Value& value : graph.values) {
    if (!value.constant) continue;
    const auto known = packings.find(prefix + value.name);
    if (known == packings.end()) continue;
    const std::vector<int64_t> shape = value.constant->shape();
    value.constant = TensorData::deferred(value.constant->type(), shape, [packed = *known->second, shape] {
      return tile::unpack(tile::parse_panel_layout(packed.layout), packed.data, packed.view).reshaped(shape);
    });
  }
  for (Node& node : graph.nodes) {
    for (const NodeBody& body : bodies_of(node)) {
      auto copy = std::make_shared<Graph>(*body.graph);
      share_weights(*copy, fmt::format("{}{}/{}/", prefix, node.name, body.attribute), packings);
      node.attributes[body.attribute] = std::shared_ptr<const Graph>(std::move(copy));
    }
  }
}

}  // namespace

void share_weights(Plan& plan) {
  PackedByName packings;
  for (const PackedConstant& packed : plan.packed) packings.try_emplace(packed.name, &packed);
  if (!packings.empty()) share_weights(plan.graph, "", packings);
}

}  // namespace graft
