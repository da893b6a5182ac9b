// SPDX-License-Identifier: Apache-2.0
#include "export/onnx/write_graph.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "base/free_name.h"
#include "export/onnx/opsets.h"
#include "export/onnx/write_type.h"
#include "graph/op_def.h"
#include "import/onnx/onnx.pb.h"

namespace graft {
namespace {

using graft_onnx::AttributeProto;
using graft_onnx::GraphProto;
using graft_onnx::NodeProto;
using Body = std::shared_ptr<const Graph>;

constexpr const char* kCaptures = "captures";

bool has_body(const Node& node) {
  return std::any_of(node.attributes.begin(), node.attributes.end(),
                     [](const auto& entry) { return std::holds_alternative<Body>(entry.second); });
}

/// How many values each body captures, by the order of their attributes.
std::vector<int64_t> captures_of(const Node& node) {
  const auto it = node.attributes.find(kCaptures);
  if (!has_body(node) || it == node.attributes.end()) return {};
  return std::get<std::vector<int64_t>>(it->second);
}

/// The one attribute of ONNX's operators that is a type; the graph has its text.
bool is_type(const Node& node, std::string_view attribute) {
  return node.domain.empty() && node.op == "Optional" && attribute == "type";
}

/// The opset with which ONNX got an element type that it did not have from the start.
int64_t opset_of(DType type) {
  switch (type) {
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
      return 19;
    case DType::kUint4:
    case DType::kInt4:
      return 21;
    case DType::kFloat4E2M1:
      return 23;
    case DType::kFloat8E8M0:
      return 24;
    case DType::kUint2:
    case DType::kInt2:
      return 25;
    default:
      return 1;
  }
}

template <class T, class Field>
void append(const std::vector<T>& values, Field& field) {
  field.Add(values.begin(), values.end());
}

/// Sets the field of an attribute that holds no graph, and its type.
struct AttributeSetter {
  AttributeProto& proto;
  TensorWriter& tensors;
  void operator()(std::monostate) { proto.set_type(AttributeProto::UNDEFINED); }
  void operator()(int64_t value) {
    proto.set_type(AttributeProto::INT);
    proto.set_i(value);
  }
  void operator()(double value) {
    proto.set_type(AttributeProto::FLOAT);
    proto.set_f(static_cast<float>(value));
  }
  void operator()(const std::string& value) {
    proto.set_type(AttributeProto::STRING);
    proto.set_s(value);
  }
  void operator()(const std::vector<int64_t>& values) {
    proto.set_type(AttributeProto::INTS);
    append(values, *proto.mutable_ints());
  }
  void operator()(const std::vector<double>& values) {
    proto.set_type(AttributeProto::FLOATS);
    for (const double value : values) proto.add_floats(static_cast<float>(value));
  }
  void operator()(const std::vector<std::string>& values) {
    proto.set_type(AttributeProto::STRINGS);
    for (const std::string& value : values) proto.add_strings(value);
  }
  void operator()(const TensorData& tensor) {
    proto.set_type(AttributeProto::TENSOR);
    tensors.write(tensor, TensorPlace::kInside, *proto.mutable_t());
  }
  void operator()(const Body&) {}  // the caller writes it
};

/// The id of the constant of this name and contents in a graph.
ValueId find_same_constant(const Graph& graph, const Value& value) {
  const ValueId id = graph.find_value(value.name);
  if (id == kNoValue || !graph.value(id).constant) return kNoValue;
  const TensorData& other = *graph.value(id).constant;
  const bool same = other.shape() == value.constant->shape() && other.type() == value.constant->type() &&
                    (other.shares_bytes_with(*value.constant) || other == *value.constant);
  return same ? id : kNoValue;
}

void write_value(const Value& value, const std::string& name, graft_onnx::ValueInfoProto& proto) {
  proto.set_name(name);
  graft_onnx::TypeProto type;
  if (write_type(value, type)) proto.mutable_type()->Swap(&type);
}

}  // namespace

void GraphWriter::write(const Graph& graph, GraphProto& proto) {
  Scope scope{.graph = graph, .outer = nullptr, .names = std::vector<std::string>(graph.values.size()), .outside = {}};
  write_scope(scope, proto);
}

void GraphWriter::name_values(Scope& scope) {
  const Graph& graph = scope.graph;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    opset_ = std::max(opset_, opset_of(value.type));
    if (!scope.names[i].empty()) continue;  // a captured value
    const ValueId outer = scope.outer && value.constant ? find_same_constant(scope.outer->graph, value) : kNoValue;
    if (outer != kNoValue) {
      scope.names[i] = scope.outer->names[static_cast<size_t>(outer)];
      scope.outside.insert(static_cast<ValueId>(i));
    } else {
      scope.names[i] = take_free_name(value.name, taken_);
    }
  }
}

void GraphWriter::write_scope(Scope& scope, GraphProto& proto) {
  const Graph& graph = scope.graph;
  name_values(scope);
  proto.set_name(graph.name.empty() ? "graph" : graph.name);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (!value.constant || scope.outside.count(static_cast<ValueId>(i))) continue;
    auto* tensor = proto.add_initializer();
    tensor->set_name(scope.names[i]);
    tensors_.write(*value.constant, TensorPlace::kAnywhere, *tensor);
  }
  for (const Node& node : graph.nodes) write_node(scope, node, *proto.add_node());
  write_interface(scope, proto);
  for (size_t i = 0; i < scope.names.size(); ++i) {
    if (!scope.outside.count(static_cast<ValueId>(i))) taken_.erase(scope.names[i]);
  }
}

/// Inputs, outputs and what is known of the values between them.
void GraphWriter::write_interface(Scope& scope, GraphProto& proto) {
  const Graph& graph = scope.graph;
  std::set<ValueId> named(graph.inputs.begin(), graph.inputs.end());
  for (const ValueId id : graph.inputs) {
    if (scope.outside.count(id)) continue;
    write_value(graph.value(id), scope.names[static_cast<size_t>(id)], *proto.add_input());
  }
  std::set<ValueId> given;
  for (const ValueId id : graph.outputs) {
    std::string name = scope.names[static_cast<size_t>(id)];
    if (!given.insert(id).second) {
      const std::string copy = take_free_name(name, taken_);
      NodeProto* node = proto.add_node();
      node->set_name(copy);
      node->set_op_type("Identity");
      node->add_input(name);
      node->add_output(copy);
      name = copy;
    }
    write_value(graph.value(id), name, *proto.add_output());
    named.insert(id);
  }
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.outputs) {
      if (id == kNoValue || !named.insert(id).second) continue;
      graft_onnx::ValueInfoProto info;
      write_value(graph.value(id), scope.names[static_cast<size_t>(id)], info);
      // ONNX has no type for lists that have no element so far, only ones that tell less: inference finds theirs again.
      const bool tells = graph.value(id).dynamic_type.find('!') == std::string::npos;
      if (info.has_type() && tells) proto.add_value_info()->Swap(&info);
    }
  }
}

void GraphWriter::note_operator(const Graph& graph, const Node& node) {
  domains_.insert(node.domain);
  if (!node.domain.empty()) return;
  const OpDef* op = find_op(node.domain, node.op);
  opset_ = std::max(opset_, oldest_opset(graph, node, op ? op->since : kOpset));
}

void GraphWriter::write_node(const Scope& scope, const Node& node, NodeProto& proto) {
  note_operator(scope.graph, node);
  proto.set_name(node.name);
  proto.set_op_type(node.op);
  if (!node.domain.empty()) proto.set_domain(node.domain);
  const auto name = [&](ValueId id) { return id == kNoValue ? std::string() : scope.names[static_cast<size_t>(id)]; };
  const std::vector<int64_t> captures = captures_of(node);
  const auto captured = static_cast<size_t>(std::accumulate(captures.begin(), captures.end(), int64_t{0}));
  GRAFT_CHECK(captured <= node.inputs.size(), fmt::format("node '{}' captures more than it is given", node.name));
  const size_t own = node.inputs.size() - captured;
  for (size_t i = 0; i < own; ++i) proto.add_input(name(node.inputs[i]));
  while (proto.input_size() > 0 && proto.input(proto.input_size() - 1).empty()) proto.mutable_input()->RemoveLast();
  for (const ValueId id : node.outputs) proto.add_output(name(id));
  write_attributes(scope, node, own, proto);
}

void GraphWriter::write_attributes(const Scope& scope, const Node& node, size_t own_inputs, NodeProto& proto) {
  const std::vector<int64_t> captures = captures_of(node);
  size_t next = own_inputs, body = 0;
  for (const auto& [name, attribute] : node.attributes) {
    if (std::holds_alternative<std::monostate>(attribute) || (name == kCaptures && has_body(node))) continue;
    AttributeProto& written = *proto.add_attribute();
    if (const auto* graph = std::get_if<Body>(&attribute)) {
      const auto count = static_cast<size_t>(body < captures.size() ? captures[body] : 0);
      written.set_name(name);
      written.set_type(AttributeProto::GRAPH);
      write_body(scope, node, **graph, next, count, *written.mutable_g());
      next += count;
      ++body;
    } else {
      write_attribute(node, name, attribute, written);
    }
  }
}

void GraphWriter::write_attribute(const Node& node, const std::string& name, const Attribute& attribute,
                                  AttributeProto& proto) {
  proto.set_name(name);
  if (is_type(node, name) && std::holds_alternative<std::string>(attribute)) {
    proto.set_type(AttributeProto::TYPE_PROTO);
    write_type(std::get<std::string>(attribute), *proto.mutable_tp());
    return;
  }
  std::visit(AttributeSetter{proto, tensors_}, attribute);
}

/// The last inputs of a body are what it captures, and have the names that the values have around it.
void GraphWriter::write_body(const Scope& scope, const Node& node, const Graph& body, size_t first_captured,
                             size_t count, GraphProto& proto) {
  GRAFT_CHECK(count <= body.inputs.size(), fmt::format("a body of node '{}' has too few inputs", node.name));
  Scope inner{
      .graph = body, .outer = &scope, .names = std::vector<std::string>(body.values.size()), .outside = {}};
  const size_t own = body.inputs.size() - count;
  for (size_t k = 0; k < count; ++k) {
    const ValueId outer = node.inputs[first_captured + k], id = body.inputs[own + k];
    GRAFT_CHECK(outer != kNoValue, fmt::format("a body of node '{}' captures nothing", node.name));
    inner.names[static_cast<size_t>(id)] = scope.names[static_cast<size_t>(outer)];
    inner.outside.insert(id);
  }
  write_scope(inner, proto);
}

}  // namespace graft
