// SPDX-License-Identifier: Apache-2.0
// MatMul(x, A) + a, MatMul(x, B) + b, ... -> Split(MatMul(x, [A B ...]) + [a b ...]), as for the Q, K and V of a
// transformer: x is read once, and one wide product keeps the machine busier than several narrow ones. The same of
// products of integers, with what scales their sums: MatMulInteger -> DequantizeLinear -> Cast -> Add.
#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

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

/// A constant row, or one number that stands for each column, that goes with sums of integers; no value where there is
/// none that a joint row could hold.
const TensorData* row_of(const Graph& graph, ValueId value, int64_t columns) {
  const TensorData* row = constant_of(graph, value);
  if (!row || bit_width(row->type()) < 8) return nullptr;
  return row->element_count() == 1 || row->shape() == std::vector<int64_t>{columns} ? row : nullptr;
}

/// What follows sums of integers, column by column: scaled, moved by constants, cast.
struct Link {
  int node = -1;
  ValueId row = kNoValue;  ///< kNoValue: a cast
};

/// The only reader of sums, or of what links made of them, when it is a link too.
std::optional<Link> link_behind(const Graph& graph, const Matcher& matcher, ValueId value, int64_t columns) {
  const int index = matcher.only_consumer(value);
  if (index < 0 || !same_shape(graph, value, graph.nodes[index].outputs[0])) return std::nullopt;
  const Node& node = graph.nodes[index];
  if (is_op(node, {"Cast"})) return Link{index, kNoValue};
  if (is_op(node, {"DequantizeLinear"})) {
    const int64_t axis = integer(node, "axis", 1), rank = rank_of(graph, value);
    const bool plain = input(node, 2) == kNoValue && integer(node, "block_size", 0) == 0;
    const TensorData* scale = row_of(graph, node.inputs[1], columns);
    const bool fits = scale && (scale->element_count() == 1 || axis == -1 || axis == rank - 1);
    return plain && fits ? std::optional(Link{index, node.inputs[1]}) : std::nullopt;
  }
  if (!is_op(node, {"Add", "Sub"}) || (is_op(node, {"Sub"}) && node.inputs[0] != value)) return std::nullopt;
  const ValueId other = node.inputs[node.inputs[0] == value ? 1 : 0];
  return row_of(graph, other, columns) ? std::optional(Link{index, other}) : std::nullopt;
}

/// A product of integers and what follows it, up to what is computed in floats.
struct IntegerPart {
  int product = -1;
  ValueId weights = kNoValue;
  int64_t columns = 0;
  std::vector<Link> links;
};

std::optional<IntegerPart> integer_part_of(const Graph& graph, const Matcher& matcher, int index) {
  const Node& node = graph.nodes[index];
  if (!is_op(node, {"MatMulInteger"}) || rank_of(graph, node.inputs[0]) < 2) return std::nullopt;
  if (input(node, 2) != kNoValue || input(node, 3) != kNoValue) return std::nullopt;
  const TensorData* weights = constant_of(graph, node.inputs[1]);
  if (!weights || weights->rank() != 2 || matcher.consumers(node.inputs[1]).size() != 1) return std::nullopt;
  IntegerPart part{.product = index, .weights = node.inputs[1], .columns = weights->shape()[1], .links = {}};
  if (part.columns == 0 || part.columns > kWidestPart || part.columns % kAlignment != 0) return std::nullopt;
  for (ValueId value = node.outputs[0];; value = graph.nodes[part.links.back().node].outputs[0]) {
    const auto link = link_behind(graph, matcher, value, part.columns);
    if (!link) return part;
    part.links.push_back(*link);
  }
}

/// How many links all parts begin with in the same way.
size_t common_links(const Graph& graph, const std::vector<IntegerPart>& parts) {
  size_t count = parts[0].links.size();
  for (const IntegerPart& part : parts) {
    count = std::min(count, part.links.size());
    for (size_t i = 0; i < count; ++i) {
      const Node &one = graph.nodes[parts[0].links[i].node], &other = graph.nodes[part.links[i].node];
      const bool same = one.op == other.op &&
                        graph.value(one.outputs[0]).type == graph.value(other.outputs[0]).type &&
                        (one.op != "Cast" || one.attributes == other.attributes);
      if (!same) count = i;
    }
  }
  return count;
}

/// A constant for each column of all parts.
TensorData joint_row(const Graph& graph, const std::vector<IntegerPart>& parts, size_t link) {
  std::vector<TensorData> rows;
  for (const IntegerPart& part : parts) {
    const TensorData& row = *constant_of(graph, part.links[link].row);
    if (row.element_count() != 1 || part.columns == 1) {
      rows.push_back(row.reshaped({part.columns}));
      continue;
    }
    TensorData all = TensorData::zeros(row.type(), {part.columns});
    const size_t width = row.bytes().size();
    for (size_t at = 0; at < all.bytes().size(); at += width) {
      std::copy(row.bytes().begin(), row.bytes().end(), all.mutable_bytes().begin() + static_cast<std::ptrdiff_t>(at));
    }
    rows.push_back(std::move(all));
  }
  std::vector<const TensorData*> each;
  for (const TensorData& row : rows) each.push_back(&row);
  return join_constants(each, 0);
}

bool merge_integers(Graph& graph, const std::vector<IntegerPart>& parts) {
  const size_t links = common_links(graph, parts);
  const auto scales = [&](size_t i) { return graph.nodes[parts[0].links[i].node].op == "DequantizeLinear"; };
  bool scaled = false;
  for (size_t i = 0; i < links; ++i) scaled |= scales(i);
  if (!scaled) return false;  // the sums would pass memory
  const std::string name = graph.nodes[parts[0].product].name;
  const ValueId x = graph.nodes[parts[0].product].inputs[0];
  Shape shape = *graph.value(x).shape;
  shape.back() = Size(0);
  std::vector<int64_t> columns;
  std::vector<ValueId> results;
  std::vector<const TensorData*> matrices;
  for (const IntegerPart& part : parts) {
    columns.push_back(part.columns);
    results.push_back(graph.nodes[part.links[links - 1].node].outputs[0]);
    matrices.push_back(constant_of(graph, part.weights));
    shape.back() = shape.back() + Size(part.columns);
  }
  const ValueId weights = graph.add_constant(name + "/weights", join_constants(matrices, 1));
  ValueId joint = append_node(graph, name + "/merged", "MatMulInteger", {x, weights}, DType::kInt32, shape);
  std::swap(graph.nodes.back().name, graph.nodes[parts[0].product].name);
  for (size_t i = 0; i < links; ++i) {
    const Node link = graph.nodes[parts[0].links[i].node];
    std::vector<ValueId> inputs{joint};
    Attributes attributes = link.attributes;
    if (parts[0].links[i].row != kNoValue) {
      inputs.push_back(graph.add_constant(fmt::format("{}/row_{}", name, i), joint_row(graph, parts, i)));
    }
    if (scales(i)) attributes["axis"] = int64_t{-1};
    joint = append_node(graph, fmt::format("{}/{}", name, i), link.op, std::move(inputs),
                        graph.value(link.outputs[0]).type, shape, std::move(attributes));
    std::swap(graph.nodes.back().name, graph.nodes[parts[0].links[i].node].name);
  }
  split_joint(graph, name, joint, -1, columns, results);
  return true;
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
  std::map<std::pair<ValueId, DType>, std::vector<IntegerPart>> integers;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    if (const auto part = integer_part_of(graph, matcher, i)) {
      integers[{graph.nodes[i].inputs[0], graph.value(part->weights).type}].push_back(*part);
    }
  }
  bool changed = false;
  for (const auto& [key, parts] : by_input) {
    if (parts.size() < 2) continue;
    merge(graph, parts);
    changed = true;
  }
  for (const auto& [key, parts] : integers) changed |= parts.size() > 1 && merge_integers(graph, parts);
  if (!changed) return false;
  graph.sort_nodes();
  sweep(graph);
  return true;
}

}  // namespace graft::passes
