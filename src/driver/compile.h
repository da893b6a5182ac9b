// SPDX-License-Identifier: Apache-2.0
// The driver of compiling: from a model to an engine, stage by stage.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driver/compile_options.h"
#include "driver/model_source.h"
#include "driver/plan.h"
#include "engine/engine.h"
#include "fuse/fused_program.h"
#include "graph/graph.h"
#include "passes/pass.h"
#include "plan/build_engine.h"
#include "target/target.h"

namespace graft {

/// The stages, in order. The result of each can be printed. The graph of the first two can be read back, and the record
/// of the last; regions follow from the graph.
enum class Stage : uint8_t { kImport, kPasses, kFuse, kPlan };
std::string_view name_of(Stage stage);
std::optional<Stage> parse_stage(std::string_view name);

/// What was left undone and why, for `graft check`.
struct CompileNotes {
  std::vector<PassStatistics> passes;
  std::vector<std::string> reasons;  ///< near misses of passes, and why nodes were not fused
};

/// Imports a model and applies the caller's shapes.
Graph import_model(const ModelSource& source, const CompileOptions& options);
/// Runs the passes.
void rewrite(Graph& graph, const CompileOptions& options, CompileNotes* notes = nullptr);
/// Groups nodes into regions.
FusedProgram fuse(Graph graph, const CompileOptions& options, CompileNotes* notes = nullptr);

/// Chooses kernels for a target, generates them, packs weights. `known`: what earlier builds of this program chose.
BuiltEngine plan(FusedProgram program, const Target& target, const CompileOptions& options,
                 const Plan* known = nullptr);
/// Builds the engine of a plan for a target: as its record says, or, where it has none for this kind of machine, anew
/// by the cost model, which is said in the log.
Engine build(const Plan& plan, const Target& target, const CompileOptions& options);

/// A plan, and the engine for the first of its targets.
struct Compiled {
  Plan plan;
  Engine engine;
};

/// All stages. Throws Error naming node, cause and remedy; `cancelled` when the caller stops it. Thread-safe.
Compiled compile(const ModelSource& source, const CompileOptions& options);
/// The stages after `done`, from a graph that was stopped there.
Compiled compile_from(Graph graph, Stage done, const CompileOptions& options);

/// Throws invalid_argument when the options ask for a precision that a target of theirs does not have, or that can no
/// longer be given to a graph of that stage.
void check_precision(const CompileOptions& options, Stage done = Stage::kImport);
/// The machines that the options name, with their threads.
std::vector<Target> targets_of(const CompileOptions& options);

/// The text of an engine, for dumps and `graft inspect --text`.
std::string print(const Engine& engine);

}  // namespace graft
