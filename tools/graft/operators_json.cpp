// SPDX-License-Identifier: Apache-2.0
#include "operators_json.h"

#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "graph/host_operator.h"
#include "graph/op_def.h"

namespace graft {
namespace {

using nlohmann::json;

json default_of(const Attribute& value) {
  return std::visit(
      [](const auto& held) -> json {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double> || std::is_same_v<T, std::string> ||
                      std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, std::vector<double>> ||
                      std::is_same_v<T, std::vector<std::string>>) {
          return held;
        } else {
          return nullptr;
        }
      },
      value);
}

json attributes_of(const std::vector<AttributeSpec>& attributes) {
  json list = json::array();
  for (const AttributeSpec& attribute : attributes) {
    const bool none = std::holds_alternative<std::monostate>(attribute.default_value);
    list.push_back({{"name", attribute.name},
                    {"required", none && !attribute.optional},
                    {"default", default_of(attribute.default_value)}});
  }
  return list;
}

/// The sample as a graph of one node whose inputs are those of a run, unless the sample says that they are constants.
Graph graph_of(const OpDef& op, const Sample& sample) {
  Graph graph;
  graph.opsets[""] = kOpset;
  Node node{.name = sample.name, .domain = std::string(op.domain), .op = std::string(op.name),
            .attributes = sample.attributes, .inputs = {}, .outputs = {}};
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const SampleInput& input = sample.inputs[i];
    const std::string name = fmt::format("input_{}", i);
    if (input.absent) {
      node.inputs.push_back(kNoValue);
    } else if (input.constant) {
      node.inputs.push_back(
          graph.add_constant(name, input.data ? *input.data : TensorData::zeros(input.type, input.shape)));
    } else {
      node.inputs.push_back(graph.add_value(name, input.type, Shape(input.shape.begin(), input.shape.end())));
    }
  }
  for (int i = 0; i < sample.outputs; ++i) {
    node.outputs.push_back(graph.add_value(fmt::format("output_{}", i), DType::kUndefined));
  }
  graph.add_node(std::move(node));
  return graph;
}

/// The forms of the definitions of all samples, in the order of their declaration.
json forms_of(const OpDef& op, const std::vector<Sample>& samples) {
  constexpr std::string_view kNames[] = {"compute", "reduce", "scan", "scatter", "sort", "compact"};
  static_assert(std::size(kNames) == std::variant_size_v<Form>);
  std::set<size_t> used;
  for (const Sample& sample : samples) {
    const Graph graph = graph_of(op, sample);
    const NodeDefinition definition = define(graph.nodes[0], graph);
    for (const Form& form : definition.region.forms) used.insert(form.index());
  }
  json names = json::array();
  for (const size_t form : used) names.push_back(kNames[form]);
  return names;
}

json types_of(const std::vector<Sample>& samples) {
  std::set<DType> used;
  for (const Sample& sample : samples) {
    for (const SampleInput& input : sample.inputs) {
      if (!input.absent) used.insert(input.type);
    }
  }
  json names = json::array();
  for (const DType type : used) names.push_back(name_of(type));
  return names;
}

}  // namespace

nlohmann::json operators_json() {
  json list = json::array();
  for (const OpDef& op : all_ops()) {
    const std::vector<Sample> samples = op.samples();
    list.push_back({{"domain", op.domain},
                    {"name", op.name},
                    {"since", op.since},
                    {"inputs", op.inputs},
                    {"outputs", op.outputs},
                    {"attributes", attributes_of(op.attributes)},
                    {"computes", op.doc},
                    {"forms", forms_of(op, samples)},
                    {"types", types_of(samples)},
                    {"samples", samples.size()}});
  }
  for (const HostOp& op : host_ops()) {
    if (op.when) continue;  // listed with its definition
    list.push_back({{"domain", op.domain},
                    {"name", op.name},
                    {"since", op.since},
                    {"inputs", op.inputs},
                    {"outputs", op.outputs},
                    {"attributes", attributes_of(op.attributes)},
                    {"computes", op.doc},
                    {"forms", json::array({"host"})},
                    {"types", json::array()},
                    {"samples", 0}});
  }
  return list;
}

}  // namespace graft
