// SPDX-License-Identifier: Apache-2.0
// graft compare: two models, plans or precisions tensor by tensor, by the model's names.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "commands.h"
#include "comparison_report.h"
#include "console.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "json_output.h"
#include "model_options.h"
#include "output.h"
#include "roundings.h"
#include "signature.h"
#include "tensor_set.h"

namespace graft {
namespace {

using Names = std::set<std::string, std::less<>>;

/// Choices that may be different on the two sides.
constexpr const char* kOwnKeys[] = {"precision", "device", "mode", "disable", "record"};

struct Sides;

struct CompareCommand {
  ModelOptions common;
  std::string paths[2];
  ModelOptions::Choices own[2];
  InputOptions inputs;
  ToleranceOptions tolerance;
  JsonOutput json;
  bool all = false, results_only = false;

  int run() const;
  ModelOptions side(int number) const;
  Sides build_sides(const CompileOptions& limit) const;
};

/// One of the two: the graph that its engine is built from.
struct Side {
  std::string path;
  CompileOptions options;
  std::optional<Plan> plan;  ///< without its graph
  Graph graph;
  DType rounds_to = DType::kUndefined;  ///< what an f32 network computes in

  std::shared_ptr<const LoadedEngine> load() const;
};

/// Both engines, which give the tensors of `names` as results.
struct Sides {
  Side a, b;
  std::vector<std::string> names;
  std::shared_ptr<const LoadedEngine> first, second;
};

/// `limit`: the time that both sides have.
Side open_side(const ModelOptions& model, const CompileOptions& limit) {
  Side side{.path = model.path(), .options = model.compile_options(), .plan = {}, .graph = {}};
  side.options.deadline = limit.deadline;
  side.options.cancelled = limit.cancelled, side.options.progress = limit.progress;
  if (model.is_plan()) {
    model.check_plan_choices();
    side.plan = open_plan(model.path());
    side.options.device = model.device_for(*side.plan);
    side.graph = std::move(side.plan->graph);
    side.rounds_to = rounding_of(options_of(*side.plan).precision);
    return side;
  }
  check_precision(side.options);
  side.graph = import_model({.path = model.path()}, side.options);
  rewrite(side.graph, side.options);
  side.rounds_to = rounding_of(side.options.precision);
  if (low_type(side.options.precision) != DType::kUndefined) side.options.precision = Precision::kFp32;  // done
  clear_progress();
  return side;
}

std::shared_ptr<const LoadedEngine> Side::load() const {
  if (!plan) {
    auto engine = graft::load(compile_from(graph, Stage::kPasses, options).engine, options.device, options.threads);
    clear_progress();
    return engine;
  }
  Plan changed = *plan;
  changed.graph = graph;
  return graft::load(changed, options.device, options.threads);
}

bool can_be_compared(const Value& value) {
  return !value.constant && value.dynamic_type.empty() && value.type != DType::kString && value.shape;
}

/// The tensors between the steps of an engine that would be built from the graph.
Names between_steps(const Side& side) {
  Names names;
  const FusedProgram program = fuse(side.graph, side.options);
  for (const FusedStep& step : program.steps) {
    for (const int tensor : step.outputs) names.insert(program.tensors[static_cast<size_t>(tensor)].name);
  }
  return names;
}

/// Which tensors are compared, beside the results.
enum class Shown : uint8_t { kResults, kBetweenSteps, kAll };

/// What both have, in the order in which `a` computes it: all of it, or what `b` has between steps, and its outputs.
std::vector<std::string> common_values(const Side& a, const Side& b, Shown what) {
  const bool all = what == Shown::kAll;
  const Names shown = what == Shown::kBetweenSteps ? between_steps(b) : Names();
  std::vector<std::string> names;
  for (const Node& node : a.graph.nodes) {
    for (const ValueId id : node.outputs) {
      if (id == kNoValue || !can_be_compared(a.graph.value(id))) continue;
      const std::string& name = a.graph.value(id).name;
      const ValueId other = b.graph.find_value(name);
      if (other == kNoValue || !can_be_compared(b.graph.value(other)) || b.graph.value(other).producer < 0) continue;
      if (all || shown.count(name) || a.graph.is_output(id) || b.graph.is_output(other)) names.push_back(name);
    }
  }
  return names;
}

/// Makes results of tensors that lie between nodes.
void give_out(Graph& graph, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const ValueId id = graph.find_value(name);
    if (!graph.is_output(id)) graph.outputs.push_back(id);
  }
}

using Results = std::map<std::string, TensorData, std::less<>>;

Results run_engine(const std::shared_ptr<const LoadedEngine>& engine, std::vector<TensorData> given) {
  OutputBuffers buffers(*engine->engine);
  Session session(engine);
  const InterruptibleSession interruptible(session);
  buffers.run(session, given);
  Results results;
  for (auto& [name, tensor] : buffers.tensors()) results[name] = std::move(tensor);
  return results;
}

/// The inputs of one engine in the order of another one's, by their names.
std::vector<TensorData> reordered(const std::vector<TensorData>& given, const Engine& from, const Engine& to,
                                  const std::string& path) {
  std::vector<std::string> names;
  for (const int input : from.inputs) names.push_back(from.tensors[static_cast<size_t>(input)].name);
  std::vector<TensorData> ordered;
  for (const int input : to.inputs) {
    const std::string& name = to.tensors[static_cast<size_t>(input)].name;
    const auto found = std::find(names.begin(), names.end(), name);
    GRAFT_USER_CHECK(found != names.end(), kInvalidArgument,
                     fmt::format("only one of the two has it; the other one has {}: compare models with the same "
                                 "inputs", fmt::join(names, ", ")), fmt::format("{}: input '{}'", path, name));
    ordered.push_back(given[static_cast<size_t>(found - names.begin())]);
  }
  return ordered;
}

/// `MatMul multiply`
std::string node_text(const Graph& graph, const std::string& value) {
  const int producer = graph.value(graph.find_value(value)).producer;
  if (producer < 0) return "";
  const Node& node = graph.nodes[static_cast<size_t>(producer)];
  return fmt::format("{} {}", node.op, node.name);
}

std::string type_text(const TensorData& a, const TensorData& b) {
  const bool same = a.type() == b.type() && a.shape() == b.shape();
  return same ? describe(b) : fmt::format("{} / {}", describe(b), describe(a));
}

ModelOptions CompareCommand::side(int number) const {
  ModelOptions::Choices choices = own[number];
  const bool plan = common.with(paths[number], {}).is_plan();
  // Whether results are right does not depend on which candidate is fastest.
  if (!plan && !common.has("tune")) choices.emplace_back("tune", "off");
  return common.with(paths[number], choices);
}

Sides CompareCommand::build_sides(const CompileOptions& limit) const {
  Sides sides{.a = open_side(side(0), limit), .b = open_side(side(1), limit), .names = {}, .first = {}, .second = {}};
  Side &a = sides.a, &b = sides.b;
  const Shown shown = all ? Shown::kAll : results_only ? Shown::kResults : Shown::kBetweenSteps;
  sides.names = common_values(a, b, shown);
  GRAFT_USER_CHECK(!sides.names.empty(), kInvalidArgument,
                   "no tensor that is computed has the same name in both; compare models that were made of one",
                   fmt::format("{} and {}", a.path, b.path));
  give_out(a.graph, sides.names);
  give_out(b.graph, sides.names);
  const EngineOptions chosen = a.plan ? a.plan->options : fixed_sizes(a.options);
  if (const auto signature = signature_of(a.graph, chosen)) inputs.check(*signature);
  sides.first = a.load();
  sides.second = b.load();
  return sides;
}

int CompareCommand::run() const {
  std::vector<std::string> files = inputs.files();
  files.insert(files.end(), std::begin(paths), std::end(paths));
  json.check(files);
  Sides sides;
  run_by_deadline(common.time_limit(), [&](const CompileOptions& limit) { sides = build_sides(limit); });
  const auto& [a, b, names, first, second] = sides;
  const std::vector<TensorData> given = inputs.read(*first->engine);
  const std::vector<TensorData> other = reordered(given, *first->engine, *second->engine, b.path);
  const Results reference = run_engine(first, given);
  const Results results = run_engine(second, other);
  const auto roundings = {roundings_of(a.graph, a.rounds_to), roundings_of(b.graph, b.rounds_to)};
  std::vector<ComparedTensor> rows;
  int wrong = -1;
  for (const std::string& name : names) {
    const TensorData &expected = reference.at(name), &found = results.at(name);
    ToleranceChoice choice = tolerance.choice;
    for (const Roundings& each : roundings) choice.rounds_to = coarser(choice.rounds_to, each.at(name));
    rows.push_back({name, node_text(a.graph, name), type_text(expected, found),
                    judge(found, expected, choice, stop_if_interrupted)});
    if (wrong < 0 && !rows.back().judgement.agrees) wrong = static_cast<int>(rows.size()) - 1;
  }
  const auto agreeing = std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.judgement.agrees; });
  if (json.leaves_text()) {
    print_comparison(rows, "tensor", wrong);
    print_to(stdout, "{} of {} tensors agree", agreeing, rows.size());
    if (wrong >= 0) {
      const ComparedTensor& row = rows[static_cast<size_t>(wrong)];
      print_to(stdout, "; the first that goes wrong is '{}' ({})", row.name, row.node);
    }
    print_to(stdout, "\n");
  }
  nlohmann::json results_json = {{"a", a.path}, {"b", b.path}, {"agrees", wrong < 0}, {"first_wrong", nullptr}};
  if (wrong >= 0) results_json["first_wrong"] = rows[static_cast<size_t>(wrong)].name;
  results_json["tensors"] = comparison_json(rows);
  json.write(results_json);
  return wrong < 0 ? 0 : 1;
}

}  // namespace

void add_compare(Command app, Action& action) {
  Command sub = app.add_command("compare", "compare two models, plans or precisions tensor by tensor");
  const auto command = std::make_shared<CompareCommand>();
  sub.add_option("A", command->paths[0], "the reference: an ONNX file or a plan").required().type_name("FILE");
  sub.add_option("B", command->paths[1], "the other one: an ONNX file or a plan").required()
      .type_name("FILE");
  for (const int number : {0, 1}) {
    for (const std::string key : kOwnKeys) {
      const std::string side = number == 0 ? "a" : "b";
      sub.add_option_value(
             fmt::format("--{}-{}", key, side),
             [command, number, key](const std::string& value) { command->own[number].emplace_back(key, value); },
             fmt::format("--{} for {} alone", key, number == 0 ? "A" : "B"))
          .group("One side").type_name("TEXT");
    }
  }
  sub.add_flag("--all", command->all,
                "compare all common tensors, without fusion; default: tensors between the steps of B, fused as usual");
  sub.add_flag("--results", command->results_only,
                "compare only the results of the models: engines and plans have their usual kernels")
      .excludes("--all");
  command->tolerance.add_to(sub);
  command->json.add_to(sub);
  command->common.add_choices(sub);
  command->common.add_deadline(sub);
  command->inputs.add_to(sub);
  sub.footer(R"(
Both run on the same inputs. Tensors are listed in the order in which A computes them, by the model's names. An arrow
marks the first wrong one, and the exit status is then 1. The cost model chooses kernels unless --tune says otherwise;
a plan has its own choices.
Examples:
  graft compare model.onnx model.onnx --precision-b fp16
  graft compare model.onnx model.graft --size batch=8
  graft compare model.onnx model.onnx --mode-a interpret --all)");
  sub.on_chosen([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
