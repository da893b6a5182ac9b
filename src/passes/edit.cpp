// SPDX-License-Identifier: Apache-2.0
#include "passes/edit.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/bodies.h"
#include "graph/custom_operator.h"
#include "graph/infer.h"
#include "graph/op_def.h"
#include "graph/random_state.h"

namespace graft::passes {
namespace {

bool is_numeric(DType type) { return is_float(type) || is_integer(type) || type == DType::kBool; }

template <class T>
const T* find_attribute(const Node& node, std::string_view name) {
  const auto it = node.attributes.find(name);
  return it == node.attributes.end() ? nullptr : std::get_if<T>(&it->second);
}

/// Drops optional outputs that nobody reads, so that definitions need not compute them.
bool drop_unread_outputs(Node& node, const std::vector<bool>& wanted) {
  const std::shared_ptr<const OpDef> op = operator_of(node);
  if (!op) return false;
  bool changed = false;
  for (size_t i = 0; i < node.outputs.size() && i < op->outputs.size(); ++i) {
    ValueId& output = node.outputs[i];
    if (output == kNoValue || wanted[output] || !op->outputs[i].ends_with('?')) continue;
    output = kNoValue;
    changed = true;
  }
  while (!node.outputs.empty() && node.outputs.back() == kNoValue) node.outputs.pop_back();
  return changed;
}

}  // namespace

size_t input_count(const Node& node) {
  size_t count = node.inputs.size();
  while (count > 0 && node.inputs[count - 1] == kNoValue) --count;
  return count;
}

ValueId input(const Node& node, size_t index) { return index < node.inputs.size() ? node.inputs[index] : kNoValue; }

bool is_op(const Node& node, std::initializer_list<std::string_view> ops) {
  return node.domain.empty() && std::find(ops.begin(), ops.end(), node.op) != ops.end();
}

int64_t integer(const Node& node, std::string_view attribute, int64_t otherwise) {
  const auto* value = find_attribute<int64_t>(node, attribute);
  return value ? *value : otherwise;
}

double real(const Node& node, std::string_view attribute, double otherwise) {
  const auto* value = find_attribute<double>(node, attribute);
  return value ? *value : otherwise;
}

std::string_view text(const Node& node, std::string_view attribute, std::string_view otherwise) {
  const auto* value = find_attribute<std::string>(node, attribute);
  return value ? std::string_view(*value) : otherwise;
}

std::vector<int64_t> integers(const Node& node, std::string_view attribute) {
  const auto* value = find_attribute<std::vector<int64_t>>(node, attribute);
  return value ? *value : std::vector<int64_t>();
}

bool same_attributes(const Attributes& a, const Attributes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && equal(x.second, y.second); });
}

std::optional<size_t> random_state_input(const Node& node) {
  const OpDef* op = find_op(node.domain, node.op);
  if (!op) return std::nullopt;
  const auto state = std::find(op->inputs.begin(), op->inputs.end(), kRandomState);
  if (state == op->inputs.end()) return std::nullopt;
  const bool infers = is_op(node, {"Dropout"}) && input(node, 2) == kNoValue;
  return infers ? std::nullopt : std::optional<size_t>(state - op->inputs.begin());
}

bool is_random(const Node& node) {
  const std::optional<size_t> state = random_state_input(node);
  if (state) return !node.attributes.contains("seed") && input(node, *state) == kNoValue;
  return is_drawn(node);
}

bool has_subgraph(const Node& node) {
  return std::any_of(node.attributes.begin(), node.attributes.end(), [](const auto& entry) {
    return std::holds_alternative<std::shared_ptr<const Graph>>(entry.second);
  });
}

const Node* producer(const Graph& graph, ValueId value) {
  const int index = value == kNoValue ? -1 : graph.value(value).producer;
  return index < 0 ? nullptr : &graph.nodes[index];
}

const TensorData* constant_of(const Graph& graph, ValueId value) {
  if (value == kNoValue || !graph.value(value).constant) return nullptr;
  return &*graph.value(value).constant;
}

std::optional<double> scalar_of(const Graph& graph, ValueId value) {
  const TensorData* data = constant_of(graph, value);
  if (!data || !is_numeric(data->type()) || data->element_count() != 1) return std::nullopt;
  return data->read_double(0);
}

std::optional<double> uniform_of(const Graph& graph, ValueId value) {
  const TensorData* data = constant_of(graph, value);
  if (!data || !is_numeric(data->type()) || data->element_count() == 0) return std::nullopt;
  const double first = data->read_double(0);
  for (int64_t i = 1; i < data->element_count(); ++i) {
    if (data->read_double(i) != first) return std::nullopt;
  }
  return first;
}

std::optional<std::vector<int64_t>> integers_of(const Graph& graph, ValueId value) {
  const TensorData* data = constant_of(graph, value);
  if (!data || !is_integer(data->type())) return std::nullopt;
  std::vector<int64_t> result(static_cast<size_t>(data->element_count()));
  data->read_integers(0, result);
  return result;
}

bool same_shape(const Graph& graph, ValueId a, ValueId b) {
  if (a == kNoValue || b == kNoValue) return false;
  const auto& first = graph.value(a).shape;
  return first && graph.value(b).shape && *first == *graph.value(b).shape;
}

int rank_of(const Graph& graph, ValueId value) {
  if (value == kNoValue || !graph.value(value).shape) return -1;
  return static_cast<int>(graph.value(value).shape->size());
}

std::optional<std::vector<int64_t>> constant_shape(const Graph& graph, ValueId value) {
  if (rank_of(graph, value) < 0) return std::nullopt;
  std::vector<int64_t> result;
  for (const Size& size : *graph.value(value).shape) {
    if (!size.is_constant()) return std::nullopt;
    result.push_back(size.constant());
  }
  return result;
}

std::string definition_fault(std::string_view op, const std::vector<Value>& inputs, const Attributes& attributes) {
  if (!find_op("", op)) return fmt::format("{} has no definition", op);
  Graph trial;
  Node node;
  node.op = op;
  node.attributes = attributes;
  for (const Value& value : inputs) node.inputs.push_back(trial.add_value(value.name, value.type, value.shape));
  node.outputs = {trial.add_value("result", DType::kUndefined)};
  try {
    define(trial.add_node(std::move(node)), trial);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return error.message();
  }
  return "";
}

std::optional<std::vector<int64_t>> reduced_axes(const Graph& graph, const Node& node) {
  const int rank = rank_of(graph, input(node, 0));
  std::optional<std::vector<int64_t>> axes = integers_of(graph, input(node, 1));
  if (rank < 0 || !axes || axes->empty()) return std::nullopt;
  for (int64_t& axis : *axes) axis += axis < 0 ? rank : 0;
  std::sort(axes->begin(), axes->end());
  return axes;
}

void replace_node(Graph& graph, int index, std::string_view op, std::vector<ValueId> inputs, Attributes attributes) {
  Node& node = graph.nodes[index];
  node.domain.clear();
  node.op = op;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != kNoValue) graph.value(node.outputs[i]).producer = -1;
  }
  node.outputs.resize(1);
}

void take_first_name(Graph& graph, int index, const std::vector<int>& matched) {
  const int first = *std::min_element(matched.begin(), matched.end());
  if (first < index) std::swap(graph.nodes[first].name, graph.nodes[index].name);
}

ValueId append_node(Graph& graph, std::string_view name, std::string_view op, std::vector<ValueId> inputs, DType type,
                    std::optional<Shape> shape, Attributes attributes) {
  Node node;
  node.name = name;
  node.op = op;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  const ValueId output = graph.add_value(name, type, std::move(shape));
  node.outputs = {output};
  graph.add_node(std::move(node));
  return output;
}

void give_result(Graph& graph, int index, size_t output, std::string_view op, std::vector<ValueId> inputs,
                 Attributes attributes) {
  const ValueId result = std::exchange(graph.nodes[index].outputs[output], kNoValue);
  if (result == kNoValue) return;
  graph.add_node({.name = graph.nodes[index].name + "/result",
                  .domain = "",
                  .op = std::string(op),
                  .attributes = std::move(attributes),
                  .inputs = std::move(inputs),
                  .outputs = {result}});
}

ValueId add_integers(Graph& graph, std::string_view name, const std::vector<int64_t>& values) {
  const auto count = static_cast<int64_t>(values.size());
  return graph.add_constant(name, TensorData::from_values<int64_t>(DType::kInt64, {count}, values));
}

bool bypass(Graph& graph, int index, ValueId to) {
  const ValueId from = graph.nodes[index].outputs[0];
  if (!graph.is_output(from)) {
    graph.replace_uses(from, to);
    return true;
  }
  const int source = graph.value(to).producer;
  if (source < 0 || graph.is_output(to)) {
    if (is_op(graph.nodes[index], {"Identity"})) return false;
    replace_node(graph, index, "Identity", {to});
    return true;
  }
  // The node that computes `to` computes the output itself from now on, so that its name stays.
  graph.replace_uses(to, from);
  for (ValueId& output : graph.nodes[source].outputs) {
    if (output == to) output = from;
  }
  graph.nodes[index].outputs[0] = to;
  graph.nodes[index].inputs.clear();
  graph.value(from).producer = source;
  graph.value(to).producer = index;
  return true;
}

bool sweep(Graph& graph) {
  std::vector<bool> wanted(graph.values.size(), false);
  for (const ValueId output : graph.outputs) wanted[output] = true;
  std::vector<bool> dead(graph.nodes.size(), false);
  bool changed = false;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    Node& node = graph.nodes[i];
    dead[i] = std::none_of(node.outputs.begin(), node.outputs.end(),
                           [&](ValueId output) { return output != kNoValue && wanted[output]; });
    changed |= dead[i];
    if (dead[i]) continue;
    changed |= drop_unread_outputs(node, wanted);
    for (const ValueId id : node.inputs) {
      if (id != kNoValue) wanted[id] = true;
    }
  }
  if (changed) graph.erase_nodes(dead);
  const size_t before = graph.values.size();
  graph.remove_unused_values();
  return changed || graph.values.size() != before;
}

bool rewrite_nodes(Graph& graph, const Rewrite& rewrite) {
  bool changed = false;
  for (bool again = true; again; changed |= again) {
    again = false;
    const Matcher matcher(graph);
    const int count = static_cast<int>(graph.nodes.size());
    for (int i = 0; i < count; ++i) again |= rewrite(graph, matcher, i);
    if (again) {
      graph.sort_nodes();
      sweep(graph);
    }
  }
  return changed;
}

bool rewrite_with_bodies(Graph& graph, const std::function<bool(Graph&)>& rewrite) {
  bool changed = rewrite(graph);
  if (changed) infer_types(graph);  // what bodies know of their inputs follows
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_control_flow(graph.nodes[i])) continue;
    for (const NodeBody& body : bodies_of(graph.nodes[i])) {
      auto copy = std::make_shared<Graph>(*body.graph);
      if (!rewrite_with_bodies(*copy, rewrite)) continue;
      graph.nodes[i].attributes[body.attribute] = std::shared_ptr<const Graph>(std::move(copy));
      changed = true;
      infer_types(graph);
    }
  }
  return changed;
}

}  // namespace graft::passes
