// SPDX-License-Identifier: Apache-2.0
// Reshape -> InstanceNormalization -> Reshape, whose instances are groups of channels -> GroupNormalization, with the
// scale and the bias of the channels that follow. Exporters write it so for opsets without the operator.
#include <algorithm>

#include "passes/edit.h"
#include "passes/pass.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

constexpr std::string_view kName = "recognise_group_normalization";

/// The numbers of groups and channels when every group of channels of `x` is a channel of `grouped`; {0, 0} otherwise.
std::pair<int64_t, int64_t> groups_and_channels(const Graph& graph, ValueId x, ValueId grouped) {
  const auto &shape = graph.value(x).shape, &rows = graph.value(grouped).shape;
  if (!shape || !rows || shape->size() < 2 || rows->size() < 3 || (*shape)[0] != (*rows)[0]) return {0, 0};
  const auto channels = (*shape)[1].as_constant(), groups = (*rows)[1].as_constant();
  if (!channels || !groups || *groups < 1 || *channels % *groups != 0) return {0, 0};
  return {*groups, *channels};
}

/// A vector for the channels from one for their groups.
ValueId for_channels(Graph& graph, ValueId of_groups, int64_t channels) {
  const std::string name = graph.value(of_groups).name;
  const TensorData& groups = *constant_of(graph, of_groups);
  TensorData data = TensorData::zeros(groups.type(), {channels});
  for (int64_t c = 0; c < channels; ++c) {
    data.write_double(c, groups.read_double(c * groups.element_count() / channels));
  }
  return graph.add_constant(name, std::move(data));
}

/// The constant as a vector for the channels (axis 1 of `rank`), or kNoValue when it differs along another axis.
ValueId as_vector(Graph& graph, ValueId operand, int rank, int64_t channels) {
  const TensorData* data = constant_of(graph, operand);
  if (!data || data->element_count() != channels) return kNoValue;
  const std::vector<int64_t>& shape = data->shape();
  const int axis = 1 - rank + static_cast<int>(shape.size());  // of the channels, as broadcasting aligns them
  if (axis < 0 || axis > 1 || shape[static_cast<size_t>(axis)] != channels) return kNoValue;
  TensorData vector = data->reshaped({channels});
  const std::string name = graph.value(operand).name;
  return graph.add_constant(name, std::move(vector));
}

/// A normalization of groups, from its first node to the last one that belongs to it.
struct Groups {
  ValueId x = kNoValue, scale = kNoValue, bias = kNoValue;
  int64_t groups = 0, channels = 0;
  double epsilon = 0;
  int root = -1;
  std::vector<int> nodes;
};

/// Takes in the product or sum with a vector for the channels that alone reads the root; whether there was one.
bool absorb(Graph& graph, const Matcher& matcher, std::string_view op, ValueId Groups::* operand, Groups& found) {
  const ValueId result = graph.nodes[found.root].outputs[0];
  const int reader = matcher.only_consumer(result);
  if (reader < 0 || !is_op(graph.nodes[reader], {op})) return false;
  const std::vector<ValueId> inputs = graph.nodes[reader].inputs;
  const ValueId other = inputs[inputs[0] == result ? 1 : 0];
  if (other == result || graph.value(other).type != graph.value(result).type) return false;
  const ValueId vector = as_vector(graph, other, rank_of(graph, result), found.channels);
  if (vector == kNoValue) return false;
  found.*operand = vector;
  found.root = reader;
  found.nodes.push_back(reader);
  return true;
}

}  // namespace

bool recognise_group_normalization(Graph& graph, const PassContext& context) {
  const Pattern grouped = node("Reshape", {any("x"), any("shape")}, "grouped");
  const Pattern pattern = node(
      "Reshape", {node("InstanceNormalization", {grouped, constant("scale"), constant("bias")}, "rows"), any("back")});
  return rewrite_nodes(graph, [&](Graph& g, const Matcher& matcher, int index) {
    const Node& root = g.nodes[index];
    const auto match = is_op(root, {"Reshape"}) ? matcher.find(pattern, root.outputs[0]) : std::nullopt;
    if (!match) return false;
    Groups found{.x = (*match)["x"], .root = index, .nodes = match->nodes};
    std::tie(found.groups, found.channels) = groups_and_channels(g, found.x, (*match)["grouped"]);
    if (found.groups == 0 || !same_shape(g, found.x, root.outputs[0])) {
      context.left(kName, root, "what is normalised are no groups of channels");
      return false;
    }
    found.epsilon = real(*producer(g, (*match)["rows"]), "epsilon", 1e-5);
    const bool plain = uniform_of(g, (*match)["scale"]) == 1.0 && uniform_of(g, (*match)["bias"]) == 0.0;
    const bool scaled = plain && absorb(g, matcher, "Mul", &Groups::scale, found);
    if (!scaled) found.scale = for_channels(g, (*match)["scale"], found.channels);
    if (!plain || !absorb(g, matcher, "Add", &Groups::bias, found)) {
      found.bias = for_channels(g, (*match)["bias"], found.channels);
    }
    replace_node(g, found.root, "GroupNormalization", {found.x, found.scale, found.bias},
                 {{"epsilon", found.epsilon}, {"num_groups", found.groups}});
    take_first_name(g, found.root, found.nodes);
    return true;
  });
}

}  // namespace graft::passes
