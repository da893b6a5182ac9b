// SPDX-License-Identifier: Apache-2.0
#include "driver/compile.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"
#include "base/trim_memory.h"
#include "device/cuda/cuda_device.h"
#include "driver/record_use.h"
#include "driver/stages.h"
#include "graph/infer.h"
#include "target/units.h"

namespace graft {
namespace {

constexpr std::string_view kStageNames[] = {"import", "passes", "fuse", "plan"};

}  // namespace

std::string_view name_of(Stage stage) { return kStageNames[static_cast<int>(stage)]; }

std::optional<Stage> parse_stage(std::string_view name) {
  for (int stage = 0; stage < 4; ++stage) {
    if (name == kStageNames[stage]) return static_cast<Stage>(stage);
  }
  return std::nullopt;
}

std::vector<Target> targets_of(const CompileOptions& options) {
  std::vector<Target> targets;
  for (const std::string& name : options.targets) targets.push_back(find_target(name, options.threads));
  const int gpu = gpu_of(options.device);
  const bool any_gpu = std::any_of(targets.begin(), targets.end(),
                                   [](const Target& target) { return target.kind == TargetKind::kCuda; });
  GRAFT_USER_CHECK(gpu < 0 || targets.empty() || any_gpu, kInvalidArgument,
                   fmt::format("the device '{}' runs nothing that is compiled for {}: leave the device out, or name "
                               "the target of a GPU",
                               options.device, fmt::join(options.targets, " and ")),
                   "target");
  if (targets.empty() && gpu >= 0) targets.push_back(find_target(cuda_architecture(gpu), options.threads));
  if (targets.empty()) targets.push_back(host_cpu(options.threads));
  return targets;
}

void check_precision(const CompileOptions& options, Stage done) {
  GRAFT_USER_CHECK(low_type(options.precision) == DType::kUndefined || done < Stage::kPasses, kInvalidArgument,
                   "the passes lower the precision, and they have run already: choose it where they run", "precision");
  if (options.precision != Precision::kTf32) return;
  for (const Target& target : targets_of(options)) {
    GRAFT_USER_CHECK(multiplies_tf32(target), kInvalidArgument,
                     fmt::format("{} has no units that multiply tf32, which NVIDIA GPUs have from sm_80 on; choose "
                                 "fp32, fp16 or bf16, or such a --target or --device",
                                 target.name),
                     "precision");
  }
}

Engine build(const Plan& plan, const Target& target, const CompileOptions& options) {
  CompileOptions chosen = options;
  chosen.tuning = Tuning::kOff;
  if (!options.interpret && !record_for(plan.records, target)) {
    std::vector<std::string> names;
    for (const Record& record : plan.records) names.push_back(parse_target(record.target).name);
    const bool on_gpu = target.kind == TargetKind::kCuda;
    log(LogLevel::kWarning,
        "the plan was made for {} only; here it runs on {}, as the cost model chooses, which can be much slower: "
        "compile it for this machine too, or choose the device that it was made for",
        fmt::join(names, " and "), on_gpu ? target.name : fmt::format("the CPU with {} threads", target.threads));
  }
  Engine engine = plan_for_optima(plan.graph, target, chosen, plan).engine;
  engine.name = plan.graph.name;
  engine.options = plan.options;
  return engine;
}

namespace {

Compiled compile_stages(Graph graph, Stage done, const CompileOptions& options) {
  check_precision(options, done);
  if (done < Stage::kPasses) rewrite(graph, options);
  Compiled compiled;
  const std::vector<Target> targets = targets_of(options);
  const Plan known = read_known_choices(options, targets);
  compiled.plan.options = recorded_options(options);
  compiled.plan.metadata = options.metadata;
  infer_types(graph);
  bool first = true;
  for (const Target& target : targets) {
    BuiltEngine built = plan_for_optima(graph, target, options, known);
    compiled.plan.records.push_back(std::move(built.record));
    for (PackedConstant& packed : built.packed) compiled.plan.packed.push_back(std::move(packed));
    if (first) compiled.engine = std::move(built.engine);
    first = false;
  }
  check_use(known, compiled.plan.records, options);
  compiled.engine.name = graph.name;
  compiled.engine.options = compiled.plan.options;
  compiled.plan.graph = std::move(graph);
  share_weights(compiled.plan);
  return compiled;
}

}  // namespace

Compiled compile_from(Graph graph, Stage done, const CompileOptions& options) {
  Compiled compiled;
  run_by_deadline(options,
                  [&](const CompileOptions& timed) { compiled = compile_stages(std::move(graph), done, timed); });
  trim_memory();
  return compiled;
}

Compiled compile(const ModelSource& source, const CompileOptions& options) {
  Compiled compiled;
  run_by_deadline(options, [&](const CompileOptions& timed) {
    compiled = compile_stages(import_model(source, timed), Stage::kImport, timed);
  });
  trim_memory();
  return compiled;
}

}  // namespace graft
