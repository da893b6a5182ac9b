// SPDX-License-Identifier: Apache-2.0
#include "driver/check_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "driver/record_use.h"
#include "graph/bodies.h"
#include "graph/custom_operator.h"
#include "graph/host_operator.h"
#include "graph/op_def.h"
#include "graph/undecided_rank.h"
#include "graph/unknown_operator.h"
#include "kernels/host_kernel.h"
#include "modules/host_source.h"
#include "modules/kernel_source.h"

namespace graft {
namespace {

std::string full_name(const Node& node) { return node.domain.empty() ? node.op : node.domain + "." + node.op; }

/// Why a node cannot run on the host, or nothing.
std::optional<std::string> host_obstacle(const Node& node, const Graph& graph) {
  const HostKernelInfo* kernel = find_host_kernel(node.domain, node.op);
  if (kernel && !kernel->module.empty()) {
    if (auto reason = why_no_host_kernel(*kernel); !reason.empty()) return reason;
  }
  for (const ValueId output : node.outputs) {
    if (output == kNoValue || !graph.value(output).dynamic_type.empty() || graph.value(output).shape) continue;
    return fmt::format("the rank of its output '{}' is unknown", graph.value(output).name);
  }
  return std::nullopt;
}

/// Why an If cannot run, or nothing.
std::optional<std::string> branch_obstacle(const Node& node, const Graph& graph) {
  const auto open = [&](ValueId id) {
    return id != kNoValue && graph.is_output(id) && !graph.value(id).shape && graph.value(id).dynamic_type.empty();
  };
  if (!differs_in_rank(node) || std::none_of(node.outputs.begin(), node.outputs.end(), open)) return std::nullopt;
  return undecided_rank(graph, node);
}

/// Why a node cannot run, or nothing.
std::optional<std::string> obstacle(const Node& node, const Graph& graph) {
  if (is_control_flow(node)) return branch_obstacle(node, graph);  // what stands in its bodies may be one too
  if (runs_on_host(node, graph)) return host_obstacle(node, graph);
  if (!operator_of(node)) return no_definition(node);
  for (const ValueId input : node.inputs) {
    if (input == kNoValue || graph.value(input).shape || !graph.value(input).dynamic_type.empty()) continue;
    const Node* unknown = unknown_operator_behind(graph, input);
    const std::string& name = graph.value(input).name;
    if (unknown) return fmt::format("it reads '{}', which follows from node '{}'", name, unknown->name);
    if (const Node* undecided = if_behind(graph, input)) return undecided_rank(graph, *undecided);
    return fmt::format("the rank of its input '{}' is unknown: give --shapes", name);
  }
  try {
    define(node, graph);
  } catch (const Error& error) {
    return error.message();
  }
  return std::nullopt;
}

/// Counts the nodes that it looks at, those of bodies among them.
void find_obstacles(const Graph& graph, std::vector<Obstacle>& found, size_t& nodes) {
  for (const Node& node : graph.nodes) {
    ++nodes;
    if (auto reason = obstacle(node, graph)) found.push_back({node.name, full_name(node), *reason});
    if (!is_control_flow(node)) continue;
    for (const NodeBody& body : bodies_of(node)) find_obstacles(*body.graph, found, nodes);
  }
}

ModelCheck check_stages(const ModelSource& source, CompileOptions options, CheckDepth depth) {
  ModelCheck check;
  Graph graph = import_model(source, options);
  check.nodes = graph.nodes.size();
  rewrite(graph, options, &check.notes);
  check.nodes_after_passes = graph.nodes.size();
  size_t nodes = 0;
  find_obstacles(graph, check.obstacles, nodes);
  if (!check.obstacles.empty()) {
    check.nodes_after_passes = nodes;  // the obstacles are of these
    return check;
  }
  const Target target = targets_of(options)[0];
  if (depth == CheckDepth::kChoices) {
    options.tuning = Tuning::kOff;
    options.choices_only = !options.interpret && why_no_generator(target).empty();
  }
  const Plan known = read_known_choices(options, {&target, 1});
  BuiltEngine built = plan(fuse(std::move(graph), options, &check.notes), target, options, &known);
  check_use(known, {&built.record, 1}, options);
  check.engine = std::move(built.engine);
  return check;
}

}  // namespace

ModelCheck check_model(const ModelSource& source, const CompileOptions& options, CheckDepth depth) {
  ModelCheck check;
  run_by_deadline(options, [&](const CompileOptions& timed) { check = check_stages(source, timed, depth); });
  return check;
}

}  // namespace graft
