// SPDX-License-Identifier: Apache-2.0
#include "graph/host_operator.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/symbols.h"

namespace graft {

bool runs_on_host(const Node& node, const Graph& graph) {
  const HostOp* op = find_host_op(node.domain, node.op);
  return op && (!op->when || op->when(node, graph));
}

bool has_dynamic_values(const Node& node, const Graph& graph) {
  const auto is_dynamic = [&](ValueId id) { return id != kNoValue && !graph.value(id).dynamic_type.empty(); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is_dynamic) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is_dynamic);
}

const Value& HostInference::input(size_t index) const {
  if (!has_input(index)) reject(fmt::format("its input '{}' is left out", operand_name(op_.inputs, index)));
  return graph_.value(node_.inputs[index]);
}

DynamicType HostInference::element_type(size_t index) const {
  const DynamicType given = type(index);
  if (given.kind == DynamicType::Kind::kSequence) return *given.element;
  if (given.is_tensor() && given.type == DType::kUndefined) return given;  // nobody has said what it is
  reject(fmt::format("its input '{}' is {}, not a sequence", operand_name(op_.inputs, index), print(given)));
}

void HostInference::require_type(size_t index, DType type) const {
  const Value& value = input(index);
  if (value.dynamic_type.empty() && (value.type == type || value.type == DType::kUndefined)) return;
  reject(fmt::format("its input '{}' is {}, not {}", operand_name(op_.inputs, index), print(type_of(value)),
                     name_of(type)));
}

const Attribute* HostInference::attribute(std::string_view name) const {
  const auto it = node_.attributes.find(name);
  if (it != node_.attributes.end()) return &it->second;
  for (const AttributeSpec& spec : op_.attributes) {
    if (spec.name == name && !std::holds_alternative<std::monostate>(spec.default_value)) return &spec.default_value;
  }
  return nullptr;
}

int64_t HostInference::integer(std::string_view name) const {
  const Attribute* given = attribute(name);
  const auto* value = given ? std::get_if<int64_t>(given) : nullptr;
  if (!value) reject(fmt::format("its attribute '{}' is missing or no integer", name));
  return *value;
}

std::string HostInference::text(std::string_view name) const {
  const Attribute* given = attribute(name);
  const auto* value = given ? std::get_if<std::string>(given) : nullptr;
  if (!value) reject(fmt::format("its attribute '{}' is missing or no text", name));
  return *value;
}

Size HostInference::counted(size_t output, size_t axis) const {
  return Size::symbol(count_symbol(node_.name, fmt::format("{}.{}", output, axis)));
}

void HostInference::give(size_t output, DType type, std::optional<Shape> shape) const {
  if (output >= node_.outputs.size() || node_.outputs[output] == kNoValue) return;
  Value& value = graph_.value(node_.outputs[output]);
  value.type = type;
  value.dynamic_type.clear();
  value.content.reset();
  if (shape) {
    value.shape = std::move(shape);
    for (Size& size : *value.shape) size = graph_.derived.shortened(size);
    return;
  }
  for (size_t axis = 0; value.shape && axis < value.shape->size(); ++axis) {
    Size& declared = (*value.shape)[axis];
    if (!declared.is_constant()) declared = counted(output, axis);
  }
}

void HostInference::give_counted(size_t output, DType type, int rank) const {
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) shape.push_back(counted(output, static_cast<size_t>(axis)));
  give(output, type, std::move(shape));
}

void HostInference::give(size_t output, const DynamicType& type) const {
  if (type.is_tensor()) {
    if (!type.shape) return give(output, type.type, std::nullopt);
    Shape shape;
    for (const auto& size : *type.shape) shape.push_back(size ? Size(*size) : counted(output, shape.size()));
    return give(output, type.type, std::move(shape));
  }
  if (output >= node_.outputs.size() || node_.outputs[output] == kNoValue) return;
  Value& value = graph_.value(node_.outputs[output]);
  value.type = DType::kUndefined;
  value.shape.reset();
  value.content.reset();
  value.dynamic_type = print(type);
}

Shape HostInference::broadcast(const Shape& a, const Shape& b, size_t output) const {
  Shape shape(std::max(a.size(), b.size()));
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const size_t behind = shape.size() - axis;
    const Size first = behind > a.size() ? Size(1) : a[a.size() - behind];
    const Size second = behind > b.size() ? Size(1) : b[b.size() - behind];
    if (first == second || second.is(1)) {
      shape[axis] = first;
    } else if (first.is(1)) {
      shape[axis] = second;
    } else if (first.is_constant() && second.is_constant()) {
      reject(fmt::format("its inputs have {} and {} elements along an axis", first.to_string(), second.to_string()));
    } else {
      shape[axis] = first.is_constant() ? first : second.is_constant() ? second : counted(output, axis);
    }
  }
  return shape;
}

void HostInference::reject(const std::string& message) const {
  throw Error(ErrorKind::kInvalidModel, message, fmt::format("node '{}' ({})", node_.name, node_.op));
}

void HostInference::unsupported(const std::string& reason) const {
  throw Error(ErrorKind::kUnsupported, reason, fmt::format("node '{}' ({})", node_.name, node_.op));
}

std::optional<std::string> infer_host_node(Graph& graph, int index) {
  const Node node = graph.nodes[static_cast<size_t>(index)];
  const HostOp* op = find_host_op(node.domain, node.op);
  HostInference inference(*op, node, graph);
  if (const std::string fault = arity_fault(op->inputs, op->outputs, op->attributes, node); !fault.empty()) {
    inference.reject(fault);
  }
  try {
    op->infer(inference);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnsupported) return error.message();
    throw;
  }
  return std::nullopt;
}

}  // namespace graft
