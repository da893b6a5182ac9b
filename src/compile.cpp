// SPDX-License-Identifier: Apache-2.0
#include "compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/log.h"
#include "import/onnx/import.h"
#include "kernel_source.h"
#include "plan/build_engine.h"
#include "shape_choices.h"

namespace graft {
namespace {

constexpr std::string_view kStageNames[] = {"import", "passes", "fuse", "plan"};

void dump(std::string_view kind, std::string_view name, const std::string& text) {
  if (environment().wants_dump(kind, name)) write_dump(environment(), kind, name, text);
}

/// The process's environment with the caller's own exclusions.
Environment with_disabled(const CompileOptions& options) {
  Environment merged = environment();
  merged.disabled.insert(merged.disabled.end(), options.disabled.begin(), options.disabled.end());
  return merged;
}

/// Everything that changes the result, as the plan records it.
std::vector<std::pair<std::string, std::string>> recorded(const CompileOptions& options) {
  constexpr std::string_view kTuningNames[] = {"off", "fast", "full"};
  std::vector<std::pair<std::string, std::string>> rows = {
      {"version", GRAFT_VERSION},
      {"target", options.target},
      {"threads", std::to_string(options.threads)},
      {"tune", std::string(kTuningNames[static_cast<int>(options.tuning)])},
      {"mode", options.interpret ? "interpret" : "generated"}};
  const Environment merged = with_disabled(options);
  if (!merged.disabled.empty()) rows.emplace_back("disable", fmt::format("{}", fmt::join(merged.disabled, ",")));
  return rows;
}

/// GRAFT_DUMP=tile and kernels: the tile programs, and what the code generator makes of them.
void dump_kernels(const Engine& engine, const Target& target) {
  for (const EngineKernel& kernel : engine.kernels) {
    dump("tile", kernel.name, kernel.program);
    if (!environment().wants_dump("kernels", kernel.name)) continue;
    write_dump(environment(), "kernels", kernel.name, kernel_source_text(kernel.program, target));
  }
}

/// No generator, no kernels: then the interpreter runs everything, and the user is told.
CompileKernels kernels_for(const Target& target, const CompileOptions& options) {
  if (options.interpret) return {};
  const std::string missing = why_no_generator(target);
  if (missing.empty()) return kernel_code;
  log(LogLevel::kWarning, "{}; the interpreter runs everything, slowly", missing);
  return {};
}

}  // namespace

std::string_view name_of(Stage stage) { return kStageNames[static_cast<int>(stage)]; }

std::optional<Stage> parse_stage(std::string_view name) {
  for (int stage = 0; stage < 4; ++stage) {
    if (name == kStageNames[stage]) return static_cast<Stage>(stage);
  }
  return std::nullopt;
}

Target target_of(const CompileOptions& options) { return find_target(options.target, options.threads); }

Graph import_model(const ModelSource& source, const CompileOptions& options) {
  report(options, name_of(Stage::kImport), source.bytes ? "from memory" : source.path);
  Graph graph = source.bytes ? import_onnx_bytes(*source.bytes, source.path) : import_onnx(source.path);
  apply_shape_choices(graph, options);
  dump("graph", "import", print(graph));
  return graph;
}

void rewrite(Graph& graph, const CompileOptions& options, CompileNotes* notes) {
  const Environment merged = with_disabled(options);
  PassContext context{.cancelled = options.cancelled, .environment = &merged};
  if (notes) context.statistics = &notes->passes, context.reasons = &notes->reasons;
  report(options, name_of(Stage::kPasses), fmt::format("{} nodes", graph.nodes.size()));
  run_passes(graph, context);
  dump("graph", "passes", print(graph));
}

FusedProgram fuse(Graph graph, const CompileOptions& options, CompileNotes* notes) {
  report(options, name_of(Stage::kFuse), fmt::format("{} nodes", graph.nodes.size()));
  FusedProgram program = fuse(graph);
  if (notes) notes->reasons.insert(notes->reasons.end(), program.notes.begin(), program.notes.end());
  if (environment().wants_dump("region", "fuse")) write_dump(environment(), "region", "fuse", print(program));
  return program;
}

Engine plan(FusedProgram program, const CompileOptions& options) {
  BuildOptions build{.target = target_of(options), .tuning = options.tuning};
  build.compile_kernels = kernels_for(build.target, options);
  build.keep_references = environment().validate;
  build.disabled = with_disabled(options).disabled;
  build.progress = [&](const std::string& step, int done, int total) {
    report(options, name_of(Stage::kPlan), step, done, total);
  };
  Engine engine = build_engine(std::move(program), build);
  engine.options = recorded(options);
  dump("plan", "plan", print(engine));
  dump_kernels(engine, build.target);
  return engine;
}

Engine compile_from(Graph graph, Stage done, const CompileOptions& options) {
  const std::string name = graph.name;
  if (done < Stage::kPasses) rewrite(graph, options);
  Engine engine = plan(fuse(std::move(graph), options), options);
  engine.name = name;
  return engine;
}

Engine compile(const ModelSource& source, const CompileOptions& options) {
  return compile_from(import_model(source, options), Stage::kImport, options);
}

}  // namespace graft
