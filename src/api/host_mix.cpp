// SPDX-License-Identifier: Apache-2.0
// The C interface of mixed precision inside a framework.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "amp/mixed_precision.h"
#include "amp/narrowing.h"
#include "amp/request.h"
#include "api/handles.h"
#include "api/host_handles.h"
#include "driver/precision_lists.h"
#include "export/pt2/aten_node.h"
#include "import/aten/rows.h"

namespace graft::api_detail {
namespace {

using frontend::ForeignGraph;
using frontend::ForeignNode;

/// Arguments by position under the names that the row of the operator has.
std::vector<pt2::NamedArgument> named_arguments(const ForeignNode& node) {
  const frontend::Converters::Entry* entry = aten::converters().find(node.op);
  std::vector<pt2::NamedArgument> arguments;
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    const bool named = entry && i < entry->signature.parameters.size();
    arguments.push_back({named ? entry->signature.parameters[i].name : "", &node.arguments[i]});
  }
  for (const auto& [name, argument] : node.attributes) arguments.push_back({name, &argument});
  return arguments;
}

bool is_unknown(const ForeignGraph& foreign, const amp::Graph& graph, int value) {
  const auto id = static_cast<size_t>(value);
  return foreign.values[id].tensor && graph.values[id].type == pt2::kNoFloat &&
         foreign.values[id].type == DType::kUndefined;
}

/// Contractions take and give one type: what is not known is that of the weights.
void add_demands(const ForeignGraph& foreign, const ForeignNode& node, const amp::DefaultLists& lists,
                 amp::Graph& graph) {
  if (lists.rule(node.op) != amp::Rule::kLow) return;
  bool has_f32 = false;
  std::vector<int> unknown;
  frontend::visit_references(node, [&](int value) {
    has_f32 |= graph.values[static_cast<size_t>(value)].type == DType::kFloat32;
    if (is_unknown(foreign, graph, value)) unknown.push_back(value);
  });
  for (const int output : node.outputs) {
    if (is_unknown(foreign, graph, output)) unknown.push_back(output);
  }
  for (const int value : unknown) {
    if (has_f32) graph.values[static_cast<size_t>(value)].type = DType::kFloat32;
  }
}

/// Behind control flow the framework does not say types: what computes there stays as it is.
bool has_unknown(const ForeignGraph& foreign, const amp::Graph& graph, const amp::Node& node) {
  const auto unknown = [&](int value) { return is_unknown(foreign, graph, value); };
  return std::ranges::any_of(node.inputs, unknown) || std::ranges::any_of(node.outputs, unknown);
}

amp::Graph view_of(const ForeignGraph& foreign, const amp::DefaultLists& lists) {
  amp::Graph graph;
  for (const frontend::ForeignValue& from : foreign.values) {
    const bool tensor = from.tensor && from.type != DType::kUndefined;
    graph.values.push_back({.name = from.name, .type = tensor ? from.type : pt2::kNoFloat,
                            .is_parameter = static_cast<bool>(from.constant)});
  }
  for (const ForeignNode& node : foreign.nodes) add_demands(foreign, node, lists, graph);
  for (const ForeignNode& node : foreign.nodes) {
    graph.nodes.push_back(pt2::aten_node(node, named_arguments(node), graph.values, lists));
    if (has_unknown(foreign, graph, graph.nodes.back())) graph.nodes.back().kind = amp::NodeKind::kClosed;
  }
  graph.outputs = foreign.outputs;
  return graph;
}

int32_t code_of(DType type) { return onnx_code(type); }

std::vector<graft_host_reading> readings_of(const amp::Graph& graph, const amp::Decision& decision, DType low) {
  std::vector<graft_host_reading> readings;
  const auto add = [&](int32_t node, int value, const amp::Reading& reading) {
    const int32_t type = reading.cast < 0 ? 0 : code_of(decision.casts[static_cast<size_t>(reading.cast)].type);
    if (type != 0 || reading.value != value) readings.push_back({node, value, reading.value, type});
  };
  for (size_t id = 0; id < graph.values.size(); ++id) {
    const amp::Value& value = graph.values[id];
    if (!value.is_parameter || value.type != DType::kFloat32 || decision.types[id] != low) continue;
    const auto index = static_cast<int32_t>(id);
    readings.push_back({GRAFT_READING_PARAMETER, index, index, code_of(low)});
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (size_t i = 0; i < graph.nodes[n].inputs.size(); ++i) {
      add(static_cast<int32_t>(n), graph.nodes[n].inputs[i], decision.readings[n][i]);
    }
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) add(GRAFT_READING_RESULT, graph.outputs[i], decision.outputs[i]);
  return readings;
}

}  // namespace
}  // namespace graft::api_detail

graft_status graft_host_graph_mix(const graft_host_graph* graph, const char* request, void* context,
                                  void (*take)(void* context, const graft_host_reading* readings, size_t count),
                                  graft_error* error) {
  using namespace graft;
  return api_detail::guarded(error, [&] {
    GRAFT_USER_CHECK(graph && take, kInvalidArgument, "an argument is NULL", "graft_host_graph_mix");
    GRAFT_USER_CHECK(graph->graph.frontend == "aten", kInvalidArgument, "the front end is not aten",
                     "graft_host_graph_mix");
    const amp::Request asked = request ? amp::parse_request(request, "request") : amp::Request();
    GRAFT_USER_CHECK(!asked.data_names && asked.input_types.empty(), kInvalidArgument,
                     "the graph says itself what its inputs are: leave out data_names and input_dtypes", "request");
    const frontend::ForeignGraph& foreign = graph->graph.foreign;
    const amp::DefaultLists lists = default_lists("aten", asked.low);
    const amp::Graph view = api_detail::view_of(foreign, lists);
    amp::Options options{.low = asked.low, .convert_parameters = asked.convert_parameters};
    options.why_not = [&](int value) {
      return amp::conversion_fault(foreign.values[static_cast<size_t>(value)].constant, asked.low);
    };
    const amp::Decision decision = amp::decide(view, amp::Rules(lists, asked.lists, view), options);
    const auto readings = api_detail::readings_of(view, decision, asked.low);
    take(context, readings.data(), readings.size());
  });
}
