// SPDX-License-Identifier: Apache-2.0
#include "graph/evaluate_graph.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/compare.h"
#include "base/error.h"
#include "base/random.h"
#include "expr/interpreter.h"
#include "graph/evaluate_control_flow.h"
#include "graph/op_def.h"

namespace graft {
namespace {

void check_sizes(const Node& node, const NodeDefinition& definition, const Bindings& bindings) {
  for (const SizeCheck& check : definition.checks) {
    const int64_t value = check.value.evaluate(bindings);
    GRAFT_USER_CHECK(check.at_least_zero ? value >= 0 : value == 0, kInvalidArgument, check.message,
                     fmt::format("node '{}' ({})", node.name, node.op));
  }
}

/// A graph of one node whose inputs are constants.
Graph isolate(const Node& node, std::span<const TensorData> inputs) {
  Graph graph;
  graph.name = node.name;
  graph.opsets[""] = kOpset;
  Node copy = node;
  for (size_t i = 0; i < copy.inputs.size(); ++i) {
    copy.inputs[i] = inputs[i] ? graph.add_constant("input", inputs[i]) : kNoValue;
  }
  for (ValueId& output : copy.outputs) {
    if (output != kNoValue) output = graph.add_value("output", DType::kUndefined);
  }
  graph.add_node(std::move(copy));
  return graph;
}

/// Checks a tensor given for an input and binds the symbols of its shape. The input of a body may leave its type open.
void bind_input(const Value& value, const TensorData& data, Bindings& bindings) {
  if (value.type == DType::kUndefined) return;
  GRAFT_USER_CHECK(value.type == data.type(), kInvalidArgument,
                   fmt::format("a tensor {} is expected, {} was given", name_of(value.type), describe(data)),
                   fmt::format("input '{}'", value.name));
  if (value.shape) bind_shape({value.name, value.type, *value.shape}, data.type(), data.shape(), bindings);
}

TensorData random_tensor(const Value& value, const Bindings& symbols, Random& random) {
  GRAFT_USER_CHECK(value.shape && value.dynamic_type.empty(), kUnsupported, "its rank must be known to make up values",
                   fmt::format("input '{}'", value.name));
  std::vector<int64_t> shape;
  for (const Size& size : *value.shape) shape.push_back(size.evaluate(symbols));
  TensorData data = TensorData::zeros(value.type, std::move(shape));
  for (int64_t i = 0; i < data.element_count(); ++i) {
    if (is_float(value.type)) {
      data.write_double(i, random.uniform(-1, 1));
    } else {
      data.write_integer(i, random.integer(0, 1));
    }
  }
  return data;
}

}  // namespace

std::vector<TensorData> evaluate_node(const Node& node, std::span<const TensorData> inputs) {
  GRAFT_CHECK(inputs.size() == node.inputs.size(), "one tensor per input of the node");
  if (has_evaluated_bodies(node)) return evaluate_control_flow(node, inputs);
  const Graph graph = isolate(node, inputs);
  const NodeDefinition definition = define(graph.nodes[0], graph);
  GRAFT_CHECK(definition.size_sources.empty(), "every size is known when all inputs are");
  std::vector<TensorData> region_inputs;
  for (const int index : definition.inputs) region_inputs.push_back(inputs[index]);
  Bindings bindings;
  check_sizes(node, definition, bindings);
  std::vector<TensorData> results = interpret(definition.region, region_inputs, bindings);
  std::vector<TensorData> outputs(node.outputs.size());
  for (size_t k = 0; k < results.size(); ++k) outputs[definition.outputs[k]] = std::move(results[k]);
  return outputs;
}

std::vector<TensorData> evaluate_ordered(const Graph& graph, std::span<const TensorData> inputs) {
  GRAFT_CHECK(inputs.size() == graph.inputs.size(), "one tensor per input of the graph");
  std::vector<TensorData> known(graph.values.size());
  Bindings bindings;
  for (size_t i = 0; i < inputs.size(); ++i) {
    bind_input(graph.value(graph.inputs[i]), inputs[i], bindings);
    known[graph.inputs[i]] = inputs[i];
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].constant) known[i] = *graph.values[i].constant;
  }
  for (const Node& node : graph.nodes) {
    std::vector<TensorData> arguments;
    for (const ValueId id : node.inputs) arguments.push_back(id == kNoValue ? TensorData() : known[id]);
    std::vector<TensorData> results = evaluate_node(node, arguments);
    for (size_t k = 0; k < results.size(); ++k) {
      if (node.outputs[k] != kNoValue) known[node.outputs[k]] = std::move(results[k]);
    }
  }
  std::vector<TensorData> outputs;
  for (const ValueId id : graph.outputs) outputs.push_back(known[id]);
  return outputs;
}

std::vector<TensorData> evaluate(const Graph& graph, const TensorsByName& inputs) {
  std::vector<TensorData> ordered;
  for (const ValueId id : graph.inputs) {
    const auto it = inputs.find(graph.value(id).name);
    GRAFT_USER_CHECK(it != inputs.end(), kInvalidArgument, "no tensor is given for it",
                     fmt::format("input '{}'", graph.value(id).name));
    ordered.push_back(it->second);
  }
  return evaluate_ordered(graph, ordered);
}

TensorsByName random_inputs(const Graph& graph, uint64_t seed) {
  std::set<std::string, std::less<>> names;
  for (const ValueId id : graph.inputs) {
    if (!graph.value(id).shape) continue;
    for (const Size& size : *graph.value(id).shape) size.collect_symbols(names);
  }
  Bindings symbols;
  for (const std::string& symbol : names) {
    const auto range = graph.symbol_ranges.find(symbol);
    symbols[symbol] = range == graph.symbol_ranges.end() ? 3 : range->second.opt;
  }
  return random_inputs(graph, symbols, seed);
}

TensorsByName random_inputs(const Graph& graph, const Bindings& symbols, uint64_t seed) {
  Random random(seed);
  TensorsByName tensors;
  for (const ValueId id : graph.inputs) {
    tensors[graph.value(id).name] = random_tensor(graph.value(id), symbols, random);
  }
  return tensors;
}

std::optional<std::string> first_difference(const TensorData& expected, const TensorData& actual, double tolerance) {
  if (expected.type() != actual.type() || expected.shape() != actual.shape()) {
    return fmt::format("{} is expected, not {}", describe(expected), describe(actual));
  }
  if (expected.type() == DType::kString || kind_of(expected.type()) == DTypeKind::kComplex) {
    return expected == actual ? std::nullopt : std::optional<std::string>("the elements differ");
  }
  const double bound = tolerance * largest_magnitude(expected);
  const Comparison found = compare(actual, expected, {.absolute = bound});
  if (found.agrees()) return std::nullopt;
  return fmt::format("element {} is {}, expected {} within {:.3g}", found.first, show_element(actual, found.first),
                     show_element(expected, found.first), bound);
}

double usual_tolerance(DType type) {
  switch (type) {
    case DType::kFloat64:
      return 1e-12;
    case DType::kFloat32:
      return 1e-5;
    case DType::kFloat16:
      return 1e-2;
    default:
      return is_float(type) ? 6e-2 : 0;
  }
}

}  // namespace graft
