// SPDX-License-Identifier: Apache-2.0
// graft check: will the model run here, how, and what stands in the way.
#include <CLI/CLI.hpp>

#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/describe.h"
#include "base/error.h"
#include "commands.h"
#include "console.h"
#include "driver/compile.h"
#include "driver/record_use.h"
#include "graph/op_def.h"
#include "model_options.h"

namespace graft {
namespace {

struct CheckCommand {
  ModelOptions model;
  bool reasons = false;

  int run() const;
};

std::string full_name(const Node& node) { return node.domain.empty() ? node.op : node.domain + "." + node.op; }

/// Why a node cannot run, or nothing.
std::optional<std::string> obstacle(const Node& node, const Graph& graph) {
  if (!find_op(node.domain, node.op)) return fmt::format("Graft has no definition of {}", full_name(node));
  for (const ValueId input : node.inputs) {
    if (input != kNoValue && !graph.value(input).shape) {
      return fmt::format("the rank of its input '{}' is unknown: give --shapes", graph.value(input).name);
    }
  }
  try {
    define(node, graph);
  } catch (const Error& error) {
    return error.message();
  }
  return std::nullopt;
}

/// Lists the nodes that cannot run; true when there are none.
bool print_obstacles(const Graph& graph) {
  Table table("lll");
  table.add({"node", "operator", "cannot run, because"});
  int count = 0;
  for (const Node& node : graph.nodes) {
    const std::optional<std::string> reason = obstacle(node, graph);
    if (!reason) continue;
    table.add({node.name, full_name(node), *reason});
    ++count;
  }
  if (count > 0) print_to(stdout, "{}\n{} of {} nodes cannot run.\n", table, count, graph.nodes.size());
  return count == 0;
}

/// How often each operator runs which way.
void print_operators(const Engine& engine) {
  std::map<std::string, std::map<std::string, int>> ways;
  for (const EngineStep& step : engine.steps) {
    for (const std::string& op : step.operators) ++ways[op][std::string(name_of(step.kind))];
  }
  Table table("rll");
  table.add({"nodes", "operator", "runs as"});
  for (const auto& [op, counts] : ways) {
    int total = 0;
    std::vector<std::string> texts;
    for (const auto& [way, count] : counts) {
      total += count;
      texts.push_back(counts.size() == 1 ? way : fmt::format("{} {}", count, way));
    }
    table.add({std::to_string(total), op, fmt::format("{}", fmt::join(texts, ", "))});
  }
  print_to(stdout, "Operators, after the passes:\n{}\n", table);
}

/// What was fused into each step, and why a step was not generated.
void print_regions(const Engine& engine) {
  Table table("rlll");
  table.add({"step", "runs as", "node", "fused"});
  for (size_t s = 0; s < engine.steps.size(); ++s) {
    const EngineStep& step = engine.steps[s];
    table.add({std::to_string(s), std::string(name_of(step.kind)), step.name,
               fmt::format("{}", fmt::join(step.operators, " + "))});
    if (step.kind != StepKind::kInterpreter) continue;
    for (const Candidate& candidate : step.candidates) {
      table.add({"", "", "", fmt::format("  not {}: {}", candidate.name, candidate.reason)});
    }
  }
  print_to(stdout, "Steps:\n{}\n", table);
}

int CheckCommand::run() const {
  if (model.is_plan()) throw UsageError("a plan has been checked when it was compiled; `graft inspect` shows it");
  const CompileOptions options = model.compile_options();
  CompileNotes notes;
  Graph graph = import_model({.path = model.path()}, options);
  const size_t nodes = graph.nodes.size();
  rewrite(graph, options, &notes);
  clear_progress();
  if (!print_obstacles(graph)) return 1;
  const size_t rewritten = graph.nodes.size();
  const Target target = targets_of(options)[0];
  const Plan known = read_known_choices(options, {&target, 1});
  const BuiltEngine built = plan(fuse(std::move(graph), options, &notes), target, options, &known);
  check_use(known, {&built.record, 1}, options);
  const Engine& engine = built.engine;
  clear_progress();
  print_operators(engine);
  print_regions(engine);
  if (reasons) {
    print_to(stdout, "What was left as it is, and why:\n");
    if (notes.reasons.empty()) print_to(stdout, "  nothing\n");
    for (const std::string& reason : notes.reasons) print_to(stdout, "  {}\n", reason);
    print_to(stdout, "\n");
  }
  const auto ways = count_ways(engine);
  print_to(stdout, "{} nodes, {} after the passes, {} steps: {} generated, {} library, {} interpreter.\n", nodes,
           rewritten, engine.steps.size(), ways.at("generated"), ways.at("library"), ways.at("interpreter"));
  if (ways.at("interpreter") > 0) {
    print_to(stdout, "warning: the interpreter is slow; the list of steps says why it runs\n");
  }
  return 0;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  CLI::App* sub = app.add_subcommand("check", "say how each operator will run, or why it will not");
  const auto command = std::make_shared<CheckCommand>();
  command->model.add_to(*sub, "an ONNX file");
  sub->add_flag("--reasons", command->reasons, "also list what the passes left as it is, what runs apart, and why");
  sub->footer("\nThe exit status is 1 when a node cannot run.\nExample: graft check model.onnx --dim batch=1:8");
  sub->callback([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
