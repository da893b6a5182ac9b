// SPDX-License-Identifier: Apache-2.0
// graft check: will the model run here, how, and what stands in the way.
#include <CLI/CLI.hpp>

#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "api/describe.h"
#include "base/error.h"
#include "commands.h"
#include "console.h"
#include "driver/compile.h"
#include "driver/record_use.h"
#include "graph/op_def.h"
#include "json_output.h"
#include "model_options.h"
#include "output.h"

namespace graft {
namespace {

struct CheckCommand {
  ModelOptions model;
  JsonOutput json;
  bool reasons = false;

  int run() const;
};

/// A node that cannot run, and why.
struct Obstacle {
  const Node* node;
  std::string reason;
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

std::vector<Obstacle> obstacles_of(const Graph& graph) {
  std::vector<Obstacle> obstacles;
  for (const Node& node : graph.nodes) {
    if (std::optional<std::string> reason = obstacle(node, graph)) obstacles.push_back({&node, std::move(*reason)});
  }
  return obstacles;
}

void print_obstacles(const std::vector<Obstacle>& obstacles, size_t nodes) {
  Table table("lll");
  table.add({"node", "operator", "cannot run, because"});
  for (const Obstacle& row : obstacles) table.add({row.node->name, full_name(*row.node), row.reason});
  print_to(stdout, "{}\n{} of {} nodes cannot run.\n", table, obstacles.size(), nodes);
}

nlohmann::json json_of(const std::vector<Obstacle>& obstacles) {
  nlohmann::json list = nlohmann::json::array();
  for (const Obstacle& row : obstacles) {
    list.push_back({{"node", row.node->name}, {"operator", full_name(*row.node)}, {"reason", row.reason}});
  }
  return list;
}

/// What was fused into each step, and why it does not run another way.
nlohmann::json steps_json(const Engine& engine) {
  nlohmann::json list = nlohmann::json::array();
  for (size_t s = 0; s < engine.steps.size(); ++s) {
    const EngineStep& step = engine.steps[s];
    nlohmann::json refused = nlohmann::json::array();
    for (const Candidate& candidate : step.candidates) {
      if (step.kind == StepKind::kInterpreter) {
        refused.push_back({{"name", candidate.name}, {"reason", candidate.reason}});
      }
    }
    list.push_back({{"step", s},
                    {"kind", name_of(step.kind)},
                    {"node", step.name},
                    {"operators", step.operators},
                    {"refused", refused}});
  }
  return list;
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
  check_output("--json", json.path(), {model.path()});
  const CompileOptions options = model.compile_options();
  CompileNotes notes;
  Graph graph = import_model({.path = model.path()}, options);
  const size_t nodes = graph.nodes.size();
  rewrite(graph, options, &notes);
  clear_progress();
  const std::vector<Obstacle> obstacles = obstacles_of(graph);
  nlohmann::json report = {{"model", model.path()},
                           {"nodes", nodes},
                           {"nodes_after_passes", graph.nodes.size()},
                           {"obstacles", json_of(obstacles)},
                           {"steps", nlohmann::json::array()},
                           {"ways", nlohmann::json::object()},
                           {"reasons", nlohmann::json::array()}};
  if (!obstacles.empty()) {
    if (json.leaves_text()) print_obstacles(obstacles, graph.nodes.size());
    json.write(report);
    return 1;
  }
  const size_t rewritten = graph.nodes.size();
  const Target target = targets_of(options)[0];
  const Plan known = read_known_choices(options, {&target, 1});
  const BuiltEngine built = plan(fuse(std::move(graph), options, &notes), target, options, &known);
  check_use(known, {&built.record, 1}, options);
  const Engine& engine = built.engine;
  clear_progress();
  report["steps"] = steps_json(engine);
  report["ways"] = count_ways(engine);
  if (reasons) report["reasons"] = notes.reasons;
  json.write(report);
  if (!json.leaves_text()) return 0;
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
  command->json.add_to(*sub);
  sub->footer("\nThe exit status is 1 when a node cannot run.\nExample: graft check model.onnx --dim batch=1:8");
  sub->callback([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
