// SPDX-License-Identifier: Apache-2.0
#include "batch.h"

#include <algorithm>
#include <utility>

#include "failure.h"

namespace graft::extension {
namespace {

using mxnet::ext::Graph;
using mxnet::ext::Node;
using Roles = std::map<const Node*, Role>;

/// A variable's.
Sizes sizes_of(const Node& variable) {
  return inferred_outputs(variable).at(0).sizes.value_or(Sizes{});
}

/// The axis of a variable that is the batch: the second one of what recurrent layers begin with, (layers, batch,
/// hidden).
size_t batch_axis(const Node& variable) {
  const bool state = !variable.outputs.empty() &&
                     std::all_of(variable.outputs.begin(), variable.outputs.end(), [](const auto& use) {
                       return use.node->op == "RNN" && use.entry >= 2;
                     });
  return state ? 1 : 0;
}

std::map<std::string, Sizes> shapes_at(const Roles& roles, int64_t batch, int64_t other) {
  std::map<std::string, Sizes> shapes;
  for (const auto& [variable, role] : roles) {
    Sizes sizes = sizes_of(*variable);
    const size_t axis = batch_axis(*variable);
    if (role != Role::kParameter && axis < sizes.size() && sizes[axis] == batch && (axis > 0 || role == Role::kData)) {
      sizes[axis] = other;
    }
    shapes[variable->name] = sizes;
  }
  return shapes;
}

/// The axis that has these sizes at three batches.
std::optional<Axis> axis_through(const int64_t batches[3], const int64_t sizes[3]) {
  const int64_t slope = (sizes[1] - sizes[0]) / (batches[1] - batches[0]);
  const Axis axis{sizes[0] - slope * batches[0], slope};
  for (int i = 0; i < 3; ++i) {
    if (axis.at(batches[i]) != sizes[i]) return std::nullopt;
  }
  return axis;
}

}  // namespace

std::vector<Inferred> inferred_outputs(const Node& node) {
  const auto shapes = node.attrs.find(MX_STR_SHAPE), types = node.attrs.find(MX_STR_DTYPE);
  if (shapes == node.attrs.end() || types == node.attrs.end()) {
    throw Failure("'" + node.name +
                  "' has no inferred shape: hand in args or shape_dict, and do not skip the inference");
  }
  const std::vector<std::optional<Sizes>> sizes = read_shapes(shapes->second);
  const Sizes codes = read_sizes(types->second);
  std::vector<Inferred> outputs;
  for (size_t i = 0; i < sizes.size(); ++i) {
    outputs.push_back({i < codes.size() ? static_cast<int>(codes[i]) : -1, sizes[i]});
  }
  return outputs;
}

int64_t given_batch(const Graph& graph, const Roles& roles) {
  for (const Node* variable : graph.inputs) {
    if (roles.at(variable) != Role::kData) continue;
    const Sizes sizes = sizes_of(*variable);
    const size_t axis = batch_axis(*variable);
    if (axis < sizes.size()) return sizes[axis];
  }
  return 0;
}

ShapesByBatch::ShapesByBatch(const Graph& graph, const Roles& roles, const std::vector<Entry>& entries, int64_t batch)
    : graph_(graph), roles_(roles), count_(entries.size()), batch_(batch) {
  std::vector<Entry> asked;
  for (const Entry& entry : entries) asked.push_back(graph_.copy_of(entry));
  for (const ShapeGraph::Agreement& each : graph_.agreements()) {
    asked.push_back(each.first);
    asked.push_back(each.second);
  }
  symbol_ = graph_.symbol_of(asked);
}

std::optional<std::vector<Sizes>> ShapesByBatch::at(int64_t batch) {
  auto found = infer_shapes(symbol_, shapes_at(roles_, batch_, batch));
  if (!found || found->size() < count_) return std::nullopt;
  size_t next = count_;
  for (const ShapeGraph::Agreement& each : graph_.agreements()) {
    const Sizes &first = found->at(next++), &second = found->at(next++);
    if (first == second) continue;
    reason_ = each.otherwise;
    return std::nullopt;
  }
  found->resize(count_);
  return found;
}

std::optional<std::vector<std::vector<Axis>>> axes_by_batch(ShapesByBatch& inferred, int64_t batch) {
  const int64_t batches[] = {batch, batch + 1, batch + 4};
  std::vector<std::vector<Sizes>> shapes;
  for (const int64_t each : batches) {
    auto found = inferred.at(each);
    if (!found) return std::nullopt;
    shapes.push_back(std::move(*found));
  }
  std::vector<std::vector<Axis>> axes(shapes[0].size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t rank = shapes[0][i].size();
    if (shapes[1][i].size() != rank || shapes[2][i].size() != rank) return std::nullopt;
    for (size_t a = 0; a < rank; ++a) {
      const int64_t sizes[] = {shapes[0][i][a], shapes[1][i][a], shapes[2][i][a]};
      const auto axis = axis_through(batches, sizes);
      if (!axis) return std::nullopt;
      axes[i].push_back(*axis);
    }
  }
  return axes;
}

}  // namespace graft::extension
