// SPDX-License-Identifier: Apache-2.0
#include "passes/normalization.h"

#include <algorithm>

namespace graft::passes {

Pattern squared(const Pattern& x) { return either({node("Mul", {x, x}), node("Pow", {x, number(2)})}); }

Pattern inverse_deviation(const Pattern& variance) {
  const Pattern sum = node("Add", {variance, scalar("epsilon")});
  const Pattern root = either({node("Sqrt", {sum}), node("Pow", {sum, number(0.5)})});
  return either({node("Reciprocal", {root}), node("Div", {number(1), root}), node("Pow", {sum, number(-0.5)})});
}

Pattern divided_by_deviation(const Pattern& x, const Pattern& variance) {
  const Pattern sum = node("Add", {variance, scalar("epsilon")});
  const Pattern root = either({node("Sqrt", {sum}), node("Pow", {sum, number(0.5)})});
  return either({node("Div", {x, root}), node("Mul", {x, inverse_deviation(variance)})});
}

int64_t first_trailing_axis(const Graph& graph, const Node& reduction) {
  const auto axes = reduced_axes(graph, reduction);
  if (!axes || integer(reduction, "keepdims", 1) != 1) return -1;
  const int64_t first = rank_of(graph, reduction.inputs[0]) - static_cast<int64_t>(axes->size());
  for (size_t i = 0; i < axes->size(); ++i) {
    if ((*axes)[i] != first + static_cast<int64_t>(i)) return -1;
  }
  return first;
}

void absorb_casts(const Graph& graph, const Matcher& matcher, Normalization& found) {
  const Node* before = producer(graph, found.x);
  const int after = matcher.only_consumer(graph.nodes[found.root].outputs[0]);
  if (!before || after < 0 || !is_op(*before, {"Cast"}) || !is_op(graph.nodes[after], {"Cast"})) return;
  const DType type = graph.value(before->inputs[0]).type;
  const bool narrow = type == DType::kFloat16 || type == DType::kBFloat16;
  if (!narrow || graph.value(found.x).type != DType::kFloat32) return;
  if (graph.value(graph.nodes[after].outputs[0]).type != type) return;
  found.x = before->inputs[0];
  found.root = after;
  found.nodes.push_back(after);
}

ValueId absorb_operand(const Graph& graph, const Matcher& matcher, std::string_view op, Normalization& found) {
  const ValueId result = graph.nodes[found.root].outputs[0];
  const int index = matcher.only_consumer(result);
  if (index < 0 || !is_op(graph.nodes[index], {op}) || graph.nodes[index].inputs.size() != 2) return kNoValue;
  const Node& consumer = graph.nodes[index];
  const ValueId operand = consumer.inputs[consumer.inputs[0] == result ? 1 : 0];
  const auto& shape = graph.value(found.x).shape;
  const auto& own = graph.value(operand).shape;
  if (operand == result || !shape || !own || graph.value(operand).type != graph.value(found.x).type) return kNoValue;
  if (!std::equal(own->begin(), own->end(), shape->begin() + found.axis, shape->end())) return kNoValue;
  found.root = index;
  found.nodes.push_back(index);
  return operand;
}

ValueId add_ones(Graph& graph, const Normalization& found) {
  const auto& shape = graph.value(found.x).shape;
  if (!shape) return kNoValue;
  std::vector<int64_t> extents;
  for (auto it = shape->begin() + found.axis; it != shape->end(); ++it) {
    if (!it->is_constant()) return kNoValue;
    extents.push_back(it->constant());
  }
  TensorData ones = TensorData::zeros(graph.value(found.x).type, std::move(extents));
  for (int64_t i = 0; i < ones.element_count(); ++i) ones.write_double(i, 1);
  return graph.add_constant("ones", std::move(ones));
}

std::string replace_normalization(Graph& graph, const Normalization& found, std::string_view op) {
  std::vector<ValueId> inputs = {found.x, found.scale};
  if (found.bias != kNoValue) inputs.push_back(found.bias);
  Attributes attributes{{"axis", found.axis - rank_of(graph, found.x)}, {"epsilon", found.epsilon}};
  if (graph.value(found.x).type == DType::kFloat64) {
    attributes["stash_type"] = static_cast<int64_t>(onnx_code(DType::kFloat64));
  }
  std::vector<Value> values;
  for (const ValueId id : inputs) values.push_back(graph.value(id));
  std::string fault = definition_fault(op, values, attributes);
  if (!fault.empty()) return fault;
  replace_node(graph, found.root, op, std::move(inputs), std::move(attributes));
  take_first_name(graph, found.root, found.nodes);
  return "";
}

}  // namespace graft::passes
