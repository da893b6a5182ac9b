// SPDX-License-Identifier: Apache-2.0
#include "passes/quantized_operand.h"

#include "passes/edit.h"

namespace graft::passes {

std::optional<Quantized> dequantized(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value);
  bool transposed = false;
  if (node && is_op(*node, {"Transpose"}) && integers(*node, "perm") == std::vector<int64_t>{1, 0}) {
    transposed = true;
    node = producer(graph, node->inputs[0]);
  }
  if (!node || !is_op(*node, {"DequantizeLinear"}) || integer(*node, "block_size", 0) != 0) return std::nullopt;
  if (integer(*node, "output_dtype", 0) != 0) return std::nullopt;
  const DType type = graph.value(node->inputs[1]).type;
  if (type != DType::kFloat32 && type != DType::kFloat16 && type != DType::kBFloat16) return std::nullopt;
  Quantized found{node->inputs[0], node->inputs[1], input(*node, 2), integer(*node, "axis", 1), transposed};
  const int rank = rank_of(graph, found.codes);
  if (rank < 0) return std::nullopt;
  if (found.axis < 0) found.axis += rank;
  if (transposed) found.axis = 1 - found.axis;
  return found;
}

ValueId in_f32(Graph& graph, const std::string& name, ValueId value) {
  if (value == kNoValue || graph.value(value).type == DType::kFloat32) return value;
  return append_node(graph, name, "Cast", {value}, DType::kFloat32, graph.value(value).shape, {{"to", int64_t{1}}});
}

void finish_from_f32(Graph& graph, int index, std::string_view op, std::vector<ValueId> inputs,
                     Attributes attributes) {
  const DType type = graph.value(graph.nodes[index].outputs[0]).type;
  if (type == DType::kFloat32) return replace_node(graph, index, op, std::move(inputs), std::move(attributes));
  const ValueId wide = append_node(graph, graph.nodes[index].name + "/wide", op, std::move(inputs), DType::kFloat32,
                                   std::nullopt, std::move(attributes));
  replace_node(graph, index, "Cast", {wide}, {{"to", int64_t{onnx_code(type)}}});
}

int64_t count_of(const Graph& graph, ValueId value) {
  const auto shape = constant_shape(graph, value);
  if (!shape) return 0;
  int64_t count = 1;
  for (const int64_t extent : *shape) count *= extent;
  return shape->size() <= 1 ? count : 0;
}

}  // namespace graft::passes
