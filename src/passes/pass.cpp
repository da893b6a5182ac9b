// SPDX-License-Identifier: Apache-2.0
#include "passes/pass.h"

#include <chrono>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "base/stop_if_cancelled.h"
#include "graph/infer.h"
#include "passes/validation.h"

namespace graft {
namespace {

/// Brings types up to date and checks the result of a pass. What contradicts itself now that more is known is the
/// model's fault; that the result is no graph any more is the pass's.
void check_result(Graph& graph, const Pass& pass) {
  try {
    infer_types(graph);
    verify(graph);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInternal) throw;
    throw Error(ErrorKind::kInternal,
                fmt::format("pass {} left a graph that is not valid: {}", pass.name, error.what()),
                fmt::format("GRAFT_DISABLE={} goes round it", pass.name));
  }
}

void dump(const Graph& graph, const Pass& pass, size_t position, bool changed, const Environment& environment) {
  const std::string name = fmt::format("{:02}-{}", position, pass.name);
  if (environment.wants_dump("graph", name))
    write_dump(environment, "graph", name, changed ? print(graph) : "(unchanged)\n");
}

void run_counted(Graph& graph, const Pass& pass, const PassContext& context, PassStatistics& statistics) {
  const auto start = std::chrono::steady_clock::now();
  const Environment& environment = *context.environment;
  const bool first = pass.name == "infer";
  const std::optional<Graph> before = environment.validate && !first ? std::optional<Graph>(graph) : std::nullopt;
  statistics.changed = pass.function(graph, context);
  if (statistics.changed && !first) check_result(graph, pass);
  if (before && statistics.changed) {
    const DType rounded_to = pass.rounds ? context.low_type : DType::kUndefined;
    validate_pass(*before, graph, {pass.name, rounded_to}, environment.seed);
  }
  statistics.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

bool run_at(Graph& graph, const Pass& pass, const PassContext& context, size_t position) {
  stop_if_cancelled(context.cancelled, std::string(pass.name));
  PassStatistics statistics{.pass = pass.name};
  statistics.nodes_before = static_cast<int>(graph.nodes.size());
  statistics.disabled = context.environment->is_disabled(pass.name);
  if (!statistics.disabled) run_counted(graph, pass, context, statistics);
  statistics.nodes_after = static_cast<int>(graph.nodes.size());
  dump(graph, pass, position, statistics.changed, *context.environment);
  if (statistics.disabled) {
    log(LogLevel::kStep, "pass {}: disabled", pass.name);
  } else {
    log(LogLevel::kStep, "pass {}: {} -> {} nodes in {:.2f} ms{}", pass.name, statistics.nodes_before,
        statistics.nodes_after, statistics.milliseconds, statistics.changed ? "" : " (unchanged)");
  }
  if (context.statistics) context.statistics->push_back(statistics);
  return statistics.changed;
}

}  // namespace

void PassContext::left(std::string_view pass, const Node& node, std::string_view reason) const {
  log(LogLevel::kReason, "{}: '{}' ({}) is left as it is: {}", pass, node.name, node.op, reason);
  if (reasons) reasons->push_back(fmt::format("{}: {}: {}", pass, node.name, reason));
}

const Pass* find_pass(std::string_view name) {
  for (const Pass& pass : pipeline()) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

bool run_pass(Graph& graph, const Pass& pass, const PassContext& context) { return run_at(graph, pass, context, 0); }

void run_passes(Graph& graph, const PassContext& context) {
  size_t position = 0;
  for (const Pass& pass : pipeline()) run_at(graph, pass, context, position++);
}

}  // namespace graft
