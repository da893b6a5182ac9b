// SPDX-License-Identifier: Apache-2.0
// graft check: will the model run here, how, and what stands in the way.

#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "api/describe.h"
#include "commands.h"
#include "console.h"
#include "driver/check_model.h"
#include "json_output.h"
#include "model_options.h"
#include "output.h"
#include "plugin/generate.h"

namespace graft {
namespace {

struct CheckCommand {
  ModelOptions model;
  JsonOutput json;
  bool reasons = false, generate = false;
  std::string engine, parser;

  int run() const;
  int run_for_tensorrt() const;
};

/// What is refused and what would become of it, in the form of docs/schemas/check-tensorrt.json.
nlohmann::json json_of(const plugin::Generated& made, const std::map<std::string, std::string>& plugin_of,
                       const std::map<std::string, std::string>& why_none, const std::string& model) {
  nlohmann::json refused = nlohmann::json::array(), plugins = nlohmann::json::array();
  for (const plugin::Refusal& each : made.refused) {
    const auto found = plugin_of.find(each.node);
    const auto why = why_none.find(each.node);
    refused.push_back({{"node", each.node}, {"operator", each.op}, {"reason", each.reason},
                       {"plugin", found == plugin_of.end() ? "" : found->second},
                       {"why_none", why == why_none.end() ? "" : why->second}});
  }
  for (const plugin::Definition& each : made.plugins) {
    plugins.push_back({{"name", each.name}, {"operators", each.operators}});
  }
  return {{"model", model}, {"by", made.refused_by}, {"refused", refused}, {"plugins", plugins}};
}

/// Which nodes TensorRT refuses, and which plugins `graft plugin --all-unsupported` would make.
int CheckCommand::run_for_tensorrt() const {
  if (engine != "tensorrt") throw UsageError(fmt::format("--for: '{}' is not tensorrt", engine));
  plugin::Request request{.model = model.path(), .selection = {}, .name = {}, .names = {}, .batch = {},
                          .parser = parser, .options = model.compile_options(), .folder = {}};
  request.selection.unsupported = true;
  const plugin::Generated made = plugin::propose(request);
  clear_progress();
  std::map<std::string, std::string> plugin_of, why_none;
  for (const plugin::PlacedPlugin& placed : made.nodes) {
    for (const std::string& node : placed.nodes) plugin_of[node] = made.plugins[placed.plugin].name;
  }
  for (const plugin::LeftNode& left : made.left) why_none[left.node] = left.why;
  json.write(json_of(made, plugin_of, why_none, model.path()));
  if (json.leaves_text()) {
    Table table("llll");
    table.add({"node", "operator", "refused, because", "plugin"});
    for (const plugin::Refusal& each : made.refused) {
      const auto found = plugin_of.find(each.node);
      table.add({each.node, each.op, each.reason,
                 found == plugin_of.end() ? "none: " + why_none[each.node] : found->second});
    }
    if (!made.refused.empty()) print_to(stdout, "{}\n", table);
    print_to(stdout, "{} refuses {} node{}; {} plugin{} would be made{}.\n", made.refused_by, made.refused.size(),
             made.refused.size() == 1 ? "" : "s", made.plugins.size(), made.plugins.size() == 1 ? "" : "s",
             made.plugins.empty() ? "" : " (graft plugin --all-unsupported)");
  }
  return why_none.empty() ? 0 : 1;
}

/// Lists the nodes that cannot run.
void print_obstacles(const ModelCheck& check) {
  Table table("lll");
  table.add({"node", "operator", "cannot run, because"});
  for (const Obstacle& obstacle : check.obstacles) table.add({obstacle.node, obstacle.op, obstacle.reason});
  print_to(stdout, "{}\n{} of {} nodes cannot run.\n", table, check.obstacles.size(), check.nodes_after_passes);
}

/// The steps of the engine, each with its number and followed by those of its bodies: `3`, `3.0`, `3.1`.
std::vector<std::pair<std::string, const EngineStep*>> all_steps(const Engine& engine, const std::string& prefix = "") {
  std::vector<std::pair<std::string, const EngineStep*>> steps;
  int inner = 0;
  for (const EngineStep& step : engine.steps) {
    const std::string number = fmt::format("{}{}", prefix, inner++);
    steps.emplace_back(number, &step);
    for (size_t b = 0; b < step.bodies.size(); ++b) {
      const std::string body = step.bodies.size() > 1 ? fmt::format("{}.{}.", number, b) : number + ".";
      for (auto& each : all_steps(*step.bodies[b], body)) steps.push_back(std::move(each));
    }
  }
  return steps;
}

/// How often each operator runs which way.
void print_operators(const Engine& engine) {
  std::map<std::string, std::map<std::string, int>> ways;
  for (const auto& entry : all_steps(engine)) {
    for (const std::string& op : entry.second->operators) ++ways[op][std::string(name_of(entry.second->kind))];
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
  for (const auto& [number, each] : all_steps(engine)) {
    const EngineStep& step = *each;
    table.add({number, std::string(name_of(step.kind)), step.name,
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
  json.check({model.path()});
  if (!engine.empty()) return run_for_tensorrt();
  const CompileOptions options = model.compile_options();
  const bool tunes = model.has("tune") && options.tuning != Tuning::kOff;  // measuring takes code
  const ModelCheck check =
      check_model({.path = model.path()}, options, generate || tunes ? CheckDepth::kCode : CheckDepth::kChoices);
  clear_progress();
  nlohmann::json report = nlohmann::json::parse(describe(check));
  report["model"] = model.path();
  json.write(report);
  if (!check.engine) {
    if (json.leaves_text()) print_obstacles(check);
    return 1;
  }
  const Engine& engine = *check.engine;
  if (!json.leaves_text()) return 0;
  print_operators(engine);
  print_regions(engine);
  if (reasons) {
    print_to(stdout, "What was left as it is, and why:\n");
    if (check.notes.reasons.empty()) print_to(stdout, "  nothing\n");
    for (const std::string& reason : check.notes.reasons) print_to(stdout, "  {}\n", reason);
    print_to(stdout, "\n");
  }
  const auto ways = count_ways(engine);
  print_to(stdout, "{} nodes, {} after the passes, {} steps: {} generated, {} library, {} interpreter.\n", check.nodes,
           check.nodes_after_passes, all_steps(engine).size(), ways.at("generated"), ways.at("library"),
           ways.at("interpreter"));
  if (ways.at("interpreter") > 0) {
    print_to(stdout, "warning: the interpreter is slow; the list of steps says why it runs\n");
  }
  return 0;
}

}  // namespace

void add_check(Command app, Action& action) {
  Command sub = app.add_command("check", "list how each operator runs, or why it cannot");
  const auto command = std::make_shared<CheckCommand>();
  command->model.add_to(sub, "a model, as of graft compile");
  command->model.add_deadline(sub);
  sub.add_flag("--reasons", command->reasons,
                "also list near misses of passes and steps that were not fused, with the reasons\n"
                "(--json always has them)");
  sub.add_flag("--generate", command->generate,
                "also generate code and tune, as graft compile does: shows refusals of the code generator and\n"
                "measured choices; without it the cost model chooses, as with --tune off");
  sub.add_option("--for", command->engine,
                  "tensorrt: list the nodes that TensorRT refuses, and the plugins that\n"
                  "`graft plugin --all-unsupported` makes of them").type_name("ENGINE");
  sub.add_option("--parser", command->parser,
                  "for tensorrt: the folder of TensorRT's or TensorRT-RTX's libraries, whose parser decides, or\n"
                  "`none`: use the documentation of TensorRT 11 (libraries that the loader finds, else none)")
      .type_name("FOLDER");
  command->json.add_to(sub);
  sub.footer("\nExit status 1 if a node cannot run, or, with --for, if there is no plugin for one.\n"
              "Example: graft check model.onnx --dim batch=1:8");
  sub.on_chosen([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
