// SPDX-License-Identifier: Apache-2.0
#include "passes/parallel_products.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "passes/edit.h"

namespace graft::passes {
namespace {

/// How many elements lie between one position of the axis and the next, times its extent.
int64_t run_length(const std::vector<int64_t>& shape, size_t axis) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end(), int64_t{1},
                         std::multiplies<>());
}

}  // namespace

TensorData join_constants(const std::vector<const TensorData*>& parts, size_t axis) {
  std::vector<int64_t> shape = parts.front()->shape();
  shape[axis] = 0;
  for (const TensorData* part : parts) shape[axis] += part->shape()[axis];
  const DType type = parts.front()->type();
  const int64_t width = bit_width(type) / 8;
  TensorData joint = TensorData::zeros(type, shape);
  const auto into = joint.mutable_bytes();
  const int64_t whole = run_length(shape, axis) * width;
  int64_t first = 0;
  for (const TensorData* part : parts) {
    const int64_t run = run_length(part->shape(), axis) * width;
    for (int64_t at = 0, to = first; at < static_cast<int64_t>(part->bytes().size()); at += run, to += whole) {
      const auto bytes = part->bytes().subspan(static_cast<size_t>(at), static_cast<size_t>(run));
      std::copy(bytes.begin(), bytes.end(), into.begin() + to);
    }
    first += run;
  }
  return joint;
}

void split_joint(Graph& graph, std::string_view name, ValueId joint, int64_t axis, const std::vector<int64_t>& sizes,
                 const std::vector<ValueId>& results) {
  Node split;
  split.name = std::string(name) + "/split";
  split.op = "Split";
  split.attributes["axis"] = axis;
  split.inputs = {joint, add_integers(graph, std::string(name) + "/columns", sizes)};
  for (const ValueId result : results) {
    Node& maker = graph.nodes[graph.value(result).producer];
    std::replace(maker.outputs.begin(), maker.outputs.end(), result, kNoValue);
    split.outputs.push_back(result);
  }
  graph.add_node(std::move(split));
}

}  // namespace graft::passes
