// SPDX-License-Identifier: Apache-2.0
// MatMul(x, A) + a, MatMul(x, B) + b, ... -> Split(MatMul(x, [A B ...]) + [a b ...]), as for the Q, K and V of a
// transformer: x is read once, and one wide product keeps the machine busier than several narrow ones.
#include <algorithm>
#include <map>
#include <tuple>

#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

/// Wider products fill the machine by themselves.
constexpr int64_t kWidestPart = 4096;
/// Parts are cut at vector boundaries, so that each stays aligned in the joint result.
constexpr int64_t kAlignment = 16;

/// One product, with the constant bias that alone reads it when there is one.
struct Part {
  int matmul = -1;
  int add = -1;  ///< -1: no bias
  ValueId weights = kNoValue, bias = kNoValue;
  int64_t columns = 0;
  int last() const { return add >= 0 ? add : matmul; }
};

/// The constant row [columns] that the only reader of `value` adds, with that node.
std::pair<int, ValueId> added_row(const Graph& graph, const Matcher& matcher, ValueId value, int64_t columns) {
  const int index = matcher.only_consumer(value);
  if (index < 0 || !is_op(graph.nodes[index], {"Add"})) return {-1, kNoValue};
  const Node& add = graph.nodes[index];
  const ValueId other = add.inputs[add.inputs[0] == value ? 1 : 0];
  const TensorData* row = constant_of(graph, other);
  if (!row || row->shape() != std::vector<int64_t>{columns} || !same_shape(graph, value, add.outputs[0])) {
    return {-1, kNoValue};
  }
  return {index, other};
}

std::optional<Part> part_of(const Graph& graph, const Matcher& matcher, int index) {
  const Node& node = graph.nodes[index];
  if (!is_op(node, {"MatMul"}) || rank_of(graph, node.inputs[0]) < 2) return std::nullopt;
  const TensorData* weights = constant_of(graph, node.inputs[1]);
  if (!weights || weights->rank() != 2 || !is_float(weights->type()) || bit_width(weights->type()) % 8)
    return std::nullopt;
  Part part{.matmul = index, .weights = node.inputs[1], .columns = weights->shape()[1]};
  const bool shared = matcher.consumers(part.weights).size() != 1;
  if (shared || part.columns == 0 || part.columns > kWidestPart || part.columns % kAlignment != 0) return std::nullopt;
  std::tie(part.add, part.bias) = added_row(graph, matcher, node.outputs[0], part.columns);
  return part;
}

/// [A B ...] of matrices with as many rows, or of rows.
TensorData join_columns(const Graph& graph, const std::vector<Part>& parts, int64_t rows, bool of_bias) {
  const DType type = graph.value(parts.front().weights).type;
  int64_t columns = 0;
  for (const Part& part : parts) columns += part.columns;
  TensorData joint =
      TensorData::zeros(type, of_bias ? std::vector<int64_t>{columns} : std::vector<int64_t>{rows, columns});
  const int64_t width = bit_width(type) / 8;
  const auto into = joint.mutable_bytes();
  int64_t first = 0;
  for (const Part& part : parts) {
    const TensorData* data = constant_of(graph, of_bias ? part.bias : part.weights);
    for (int64_t r = 0; data && r < rows; ++r) {
      const auto row = data->bytes().subspan(r * part.columns * width, part.columns * width);
      std::copy(row.begin(), row.end(), into.begin() + (r * columns + first) * width);
    }
    first += part.columns;
  }
  return joint;
}

void merge(Graph& graph, const std::vector<Part>& parts) {
  const Part& first = parts.front();
  const std::string name = graph.nodes[first.matmul].name;
  const ValueId x = graph.nodes[first.matmul].inputs[0];
  const DType type = graph.value(first.weights).type;
  Shape shape = *graph.value(x).shape;
  shape.back() = Size(0);
  std::vector<int64_t> columns;
  for (const Part& part : parts) {
    columns.push_back(part.columns);
    shape.back() = shape.back() + Size(part.columns);
  }
  const int64_t rows = constant_of(graph, first.weights)->shape()[0];
  const ValueId weights = graph.add_constant(name + "/weights", join_columns(graph, parts, rows, false));
  ValueId joint = append_node(graph, name + "/merged", "MatMul", {x, weights}, type, shape);
  std::swap(graph.nodes.back().name, graph.nodes[first.matmul].name);
  if (std::any_of(parts.begin(), parts.end(), [](const Part& part) { return part.add >= 0; })) {
    const ValueId bias = graph.add_constant(name + "/bias", join_columns(graph, parts, 1, true));
    joint = append_node(graph, name + "/add", "Add", {joint, bias}, type, shape);
  }
  Node split;
  split.name = name + "/split";
  split.op = "Split";
  split.attributes["axis"] = int64_t{-1};
  split.inputs = {joint, add_integers(graph, name + "/columns", columns)};
  for (const Part& part : parts) {
    Node& last = graph.nodes[part.last()];
    split.outputs.push_back(last.outputs[0]);
    last.outputs[0] = kNoValue;
  }
  graph.add_node(std::move(split));
}

}  // namespace

bool merge_parallel_matmuls(Graph& graph, const PassContext&) {
  const Matcher matcher(graph);
  std::map<std::pair<ValueId, DType>, std::vector<Part>> by_input;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    if (const auto part = part_of(graph, matcher, i)) {
      by_input[{graph.nodes[i].inputs[0], graph.value(part->weights).type}].push_back(*part);
    }
  }
  bool changed = false;
  for (const auto& [key, parts] : by_input) {
    if (parts.size() < 2) continue;
    merge(graph, parts);
    changed = true;
  }
  if (!changed) return false;
  graph.sort_nodes();
  sweep(graph);
  return true;
}

}  // namespace graft::passes
