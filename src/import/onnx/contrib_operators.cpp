// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/contrib_operators.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "base/checked_size.h"
#include "base/error.h"
#include "graph/infer.h"
#include "graph/insert_graph.h"
#include "graph/unknown_operator.h"

namespace graft {
namespace {

std::string where(const Node& node) {
  return fmt::format("node '{}' ({}{}{})", node.name, node.domain, node.domain.empty() ? "" : ".", node.op);
}

}  // namespace

ValueId ContribCall::in(size_t input) const {
  if (!has(input)) reject(fmt::format("its input {} is left out; export the model again", input));
  return node_.inputs[input];
}

template <class T>
const T* ContribCall::attribute(std::string_view name) const {
  const auto it = node_.attributes.find(name);
  if (it == node_.attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&it->second);
  if (!value) reject(fmt::format("the attribute '{}' has the wrong type; export the model again", name));
  return value;
}

int64_t ContribCall::integer(std::string_view name, int64_t otherwise) const {
  const auto* value = attribute<int64_t>(name);
  return value ? *value : otherwise;
}

double ContribCall::real(std::string_view name, double otherwise) const {
  const auto* value = attribute<double>(name);
  return value ? *value : otherwise;
}

std::string ContribCall::text(std::string_view name, std::string_view otherwise) const {
  const auto* value = attribute<std::string>(name);
  return value ? *value : std::string(otherwise);
}

std::vector<int64_t> ContribCall::integers(std::string_view name) const {
  const auto* value = attribute<std::vector<int64_t>>(name);
  return value ? *value : std::vector<int64_t>();
}

std::vector<double> ContribCall::reals(std::string_view name) const {
  const auto* value = attribute<std::vector<double>>(name);
  return value ? *value : std::vector<double>();
}

std::vector<std::string> ContribCall::texts(std::string_view name) const {
  const auto* value = attribute<std::vector<std::string>>(name);
  return value ? *value : std::vector<std::string>();
}

const TensorData* ContribCall::tensor(std::string_view name) const { return attribute<TensorData>(name); }

const Shape& ContribCall::shape(ValueId id) const {
  const Value& value = writer_.graph().value(id);
  const Node* unknown = value.shape ? nullptr : unknown_operator_behind(writer_.graph(), id);
  if (unknown) throw Error(ErrorKind::kUnsupported, no_definition(*unknown), fmt::format("node '{}'", unknown->name));
  if (!value.shape) unsupported(fmt::format("the rank of '{}' is unknown; state the shapes of the model", value.name));
  return *value.shape;
}

std::optional<std::vector<int64_t>> ContribCall::known_integers(ValueId id) const {
  const auto content = known_content(writer_.graph().value(id));
  if (!content) return std::nullopt;
  std::vector<int64_t> values;
  for (const Size& size : *content) {
    if (!size.is_constant()) return std::nullopt;
    values.push_back(size.constant());
  }
  return values;
}

int64_t ContribCall::constant_size(ValueId id, int axis) const {
  const Shape& sizes = shape(id);
  const int at = axis < 0 ? axis + static_cast<int>(sizes.size()) : axis;
  if (at < 0 || at >= static_cast<int>(sizes.size())) reject("an input has too few axes; export the model again");
  const auto size = sizes[static_cast<size_t>(at)].as_constant();
  if (!size) {
    unsupported(fmt::format("axis {} of '{}' has no fixed size; state its size", at, writer_.graph().value(id).name));
  }
  return *size;
}

std::vector<ValueId> ContribCall::emit(size_t outputs, std::string_view op, std::vector<ValueId> inputs,
                                       Attributes attributes) {
  return add_node("", outputs, op, std::move(inputs), std::move(attributes));
}

std::vector<ValueId> ContribCall::emit_own(size_t outputs, std::string_view op, std::vector<ValueId> inputs,
                                           Attributes attributes) {
  writer_.graph().opsets.try_emplace("graft", 1);
  return add_node("graft", outputs, op, std::move(inputs), std::move(attributes));
}

std::vector<ValueId> ContribCall::add_node(std::string_view domain, size_t outputs, std::string_view op,
                                           std::vector<ValueId> inputs, Attributes attributes) {
  while (!inputs.empty() && inputs.back() == kNoValue) inputs.pop_back();
  std::vector<ValueId> values;
  for (size_t i = 0; i < outputs; ++i) {
    values.push_back(writer_.graph().add_value(fmt::format("{}/{}", node_.name, op), DType::kUndefined));
  }
  writer_.add({.name = fmt::format("{}/{}", node_.name, op),
               .domain = std::string(domain),
               .op = std::string(op),
               .attributes = std::move(attributes),
               .inputs = std::move(inputs),
               .outputs = values});
  return values;
}

std::vector<ValueId> ContribCall::compose(const Graph& part, const std::vector<ValueId>& arguments) {
  Graph& graph = writer_.graph();
  const size_t before = graph.nodes.size();
  graph.opsets.try_emplace("graft", 1);
  const std::vector<ValueId> copies = insert_graph(graph, part, arguments, node_.name);
  for (size_t n = before; n < graph.nodes.size(); ++n) infer_node(graph, static_cast<int>(n));
  std::vector<ValueId> outputs;
  for (const ValueId output : part.outputs) outputs.push_back(copies[static_cast<size_t>(output)]);
  return outputs;
}

ValueId ContribCall::constant(std::string_view name, TensorData data) {
  return writer_.graph().add_constant(fmt::format("{}/{}", node_.name, name), std::move(data));
}

ValueId ContribCall::cast(ValueId x, DType to) {
  return type(x) == to ? x : emit("Cast", {x}, {{"to", int64_t{onnx_code(to)}}});
}

ValueId ContribCall::transpose(ValueId x, std::vector<int64_t> permutation) {
  return emit("Transpose", {x}, {{"perm", std::move(permutation)}});
}

ValueId ContribCall::size_of(ValueId x, int64_t axis) {
  Attributes attributes = {{"start", axis}};
  if (axis != -1) attributes["end"] = axis + 1;
  return emit("Shape", {x}, std::move(attributes));
}

std::vector<ValueId> ContribCall::split(ValueId x, const std::vector<int64_t>& sizes, int64_t axis) {
  return emit(sizes.size(), "Split", {x, integers(sizes)}, {{"axis", axis}});
}

ValueId ContribCall::reread_constant(ValueId x, DType to, const std::vector<int64_t>& dims, int64_t taken) {
  Graph& graph = writer_.graph();
  const auto& constant = graph.value(x).constant;
  if (!constant || dims.empty()) return kNoValue;
  const std::string name = fmt::format("{}/{}", graph.value(x).name, name_of(to));
  int64_t count = 1;
  for (const int64_t extent : dims) count = checked_product(count, extent, "a tensor");
  if (count * bit_width(to) != constant->byte_count() * 8) return kNoValue;
  TensorData whole =
      TensorData::borrow(to, dims, constant->bytes(), std::make_shared<const TensorData>(*constant));
  if (taken < 0 || taken == dims.back()) return graph.add_constant(name, std::move(whole));
  std::vector<int64_t> shape = dims;
  shape.back() = taken;
  TensorData part = TensorData::zeros(to, shape);
  for (int64_t i = 0; i < part.element_count(); ++i) {
    part.write_integer(i, whole.read_integer(i / taken * dims.back() + i % taken));
  }
  return graph.add_constant(name, std::move(part));
}

void ContribCall::out(size_t output, ValueId value) {
  if (!wants(output)) return;
  writer_.add({.name = node_.name, .op = "Identity", .inputs = {value}, .outputs = {node_.outputs[output]}});
}

void ContribCall::reject(const std::string& message) const {
  throw Error(ErrorKind::kInvalidModel, message, where(node_));
}

void ContribCall::unsupported(const std::string& reason) const {
  throw Error(ErrorKind::kUnsupported, reason, where(node_));
}

const std::vector<ContribOperator>& contrib_operators() {
  static const std::vector<ContribOperator> table = [] {
    std::vector<ContribOperator> all;
    for (auto family : {contrib_activations, contrib_normalizations, contrib_products, contrib_attention,
                        contrib_quantization, contrib_quantized_layers, contrib_positions, contrib_experts,
                        contrib_standard, contrib_blocked, learning_features, learning_encoders, learning_linear,
                        learning_vectors, learning_trees}) {
      for (ContribOperator& op : family()) all.push_back(std::move(op));
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::tie(a.domain, a.name) < std::tie(b.domain, b.name);
    });
    return all;
  }();
  return table;
}

const ContribOperator* find_contrib_operator(std::string_view domain, std::string_view name) {
  if (domain.empty() && name == "SimplifiedLayerNormalization") domain = "com.microsoft";
  for (const ContribOperator& op : contrib_operators()) {
    if (op.domain == domain && op.name == name) return &op;
  }
  return nullptr;
}

void expand_contrib(const ContribOperator& op, NodeWriter& writer, const Node& node) {
  ContribCall call(writer, node);
  for (const auto& [name, value] : node.attributes) {
    if (std::find(op.attributes.begin(), op.attributes.end(), name) == op.attributes.end()) {
      call.unsupported(fmt::format("the attribute '{}' is not known here", name));
    }
  }
  if (call.input_count() < op.least_inputs) {
    call.reject(fmt::format("it needs {} inputs; export the model again", op.least_inputs));
  }
  op.expand(call);
}

}  // namespace graft
