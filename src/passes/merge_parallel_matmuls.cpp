// SPDX-License-Identifier: Apache-2.0
// MatMul(x, A) + a, MatMul(x, B) + b, ... -> Split(MatMul(x, [A B ...]) + [a b ...]), as for the Q, K and V of a
// transformer: x is read once, and one wide product keeps the machine busier than several narrow ones.
#include <algorithm>
#include <map>
#include <tuple>

#include "passes/edit.h"
#include "passes/parallel_products.h"
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

/// [a b ...], with zeros where a product has no bias.
TensorData join_biases(const Graph& graph, const std::vector<Part>& parts) {
  std::vector<TensorData> zeros;
  zeros.reserve(parts.size());
  std::vector<const TensorData*> rows;
  for (const Part& part : parts) {
    if (part.add < 0) zeros.push_back(TensorData::zeros(graph.value(part.weights).type, {part.columns}));
    rows.push_back(part.add < 0 ? &zeros.back() : constant_of(graph, part.bias));
  }
  return join_constants(rows, 0);
}

void merge(Graph& graph, const std::vector<Part>& parts) {
  const Part& first = parts.front();
  const std::string name = graph.nodes[first.matmul].name;
  const ValueId x = graph.nodes[first.matmul].inputs[0];
  const DType type = graph.value(first.weights).type;
  Shape shape = *graph.value(x).shape;
  shape.back() = Size(0);
  std::vector<int64_t> columns;
  std::vector<ValueId> results;
  std::vector<const TensorData*> matrices;
  for (const Part& part : parts) {
    columns.push_back(part.columns);
    results.push_back(graph.nodes[part.last()].outputs[0]);
    matrices.push_back(constant_of(graph, part.weights));
    shape.back() = shape.back() + Size(part.columns);
  }
  const ValueId weights = graph.add_constant(name + "/weights", join_constants(matrices, 1));
  ValueId joint = append_node(graph, name + "/merged", "MatMul", {x, weights}, type, shape);
  std::swap(graph.nodes.back().name, graph.nodes[first.matmul].name);
  if (std::any_of(parts.begin(), parts.end(), [](const Part& part) { return part.add >= 0; })) {
    const ValueId bias = graph.add_constant(name + "/bias", join_biases(graph, parts));
    joint = append_node(graph, name + "/add", "Add", {joint, bias}, type, shape);
  }
  split_joint(graph, name, joint, -1, columns, results);
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
