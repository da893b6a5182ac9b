// SPDX-License-Identifier: Apache-2.0
#include "quantize/gated_network.h"

#include <utility>

namespace graft::quantize {
namespace {

/// Adds a second node beside each layer, and the choice between both.
class Gating {
 public:
  Gating(const Graph& graph, const Places& places) : places_(places) { made_.graph = graph; }

  GatedNetwork run(const Quantisers& quantisers, const Format& format, const RoundedWeights& rounded) {
    for (const Place& place : places_.nodes) {
      if (place.weighted) add(place);
    }
    for (const Place& copy : copies_.nodes) find_ranges(copy);
    insert(made_.graph, copies_, quantisers, format, rounded);
    return std::move(made_);
  }

 private:
  void add(const Place& place) {
    Graph& graph = made_.graph;
    Node copy = graph.nodes[static_cast<size_t>(place.node)];
    const std::string layer = copy.name;
    const ValueId floats = copy.outputs[0];
    const std::string result = graph.value(floats).name;
    const DType type = graph.value(floats).type;
    const std::optional<Shape> shape = graph.value(floats).shape;
    graph.rename_value(floats, layer + "/in_floats");
    const ValueId quantised = graph.add_value(layer + "/in_codes", type, shape);
    const ValueId chosen = graph.add_value(result, type, shape), gate = graph.add_value(layer + "/gate", DType::kBool,
                                                                                         Shape{});
    graph.replace_uses(floats, chosen);
    moved_[floats] = chosen;
    graph.inputs.push_back(gate);
    made_.layers.push_back(layer);
    copy.name = layer + "/copy", copy.outputs = {quantised};
    graph.add_node(std::move(copy));
    copies_.nodes.push_back({static_cast<int>(graph.nodes.size()) - 1, place.activations, true, place.weights});
    graph.add_node({.name = layer + "/choice", .domain = "", .op = "Where", .attributes = {},
                    .inputs = {gate, quantised, floats}, .outputs = {chosen}});
  }

  ValueId now(ValueId value) const {
    const auto moved = moved_.find(value);
    return moved == moved_.end() ? value : moved->second;
  }

  /// A copy's input has the range that it has in the network itself, under the name that it has there.
  void find_ranges(const Place& copy) {
    const Node& node = made_.graph.nodes[static_cast<size_t>(copy.node)];
    for (const auto& [value, root] : places_.ranges) {
      for (const size_t n : copy.activations) {
        if (node.inputs[n] == now(value)) copies_.ranges[now(value)] = now(root);
      }
    }
  }

  GatedNetwork made_;
  const Places& places_;
  Places copies_;
  std::map<ValueId, ValueId> moved_;  ///< results of layers: the choice that took their place
};

}  // namespace

GatedNetwork gate(const Graph& graph, const Places& places, const Quantisers& quantisers, const Format& format,
                  const RoundedWeights& rounded) {
  return Gating(graph, places).run(quantisers, format, rounded);
}

}  // namespace graft::quantize
