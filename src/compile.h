// SPDX-License-Identifier: Apache-2.0
// The driver of compiling: from a model to an engine, stage by stage.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile_options.h"
#include "engine/engine.h"
#include "fuse/fused_program.h"
#include "graph/graph.h"
#include "passes/pass.h"

namespace graft {

/// The stages, in order. The result of each can be printed; that of the first two can be read back.
enum class Stage : uint8_t { kImport, kPasses, kFuse, kPlan };
std::string_view name_of(Stage stage);
std::optional<Stage> parse_stage(std::string_view name);

/// A model in a file, or in memory when `bytes` is given (then `path` is the folder of its external data, or empty).
struct ModelSource {
  std::string path;
  std::optional<std::span<const std::byte>> bytes;
};

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
/// Chooses kernels, generates them, packs weights.
Engine plan(FusedProgram program, const CompileOptions& options);

/// All stages. Throws Error naming node, cause and remedy; `cancelled` when the caller stops it. Thread-safe.
Engine compile(const ModelSource& source, const CompileOptions& options);
/// The stages after `done`, from a graph that was stopped there.
Engine compile_from(Graph graph, Stage done, const CompileOptions& options);

/// The machine that the options name, with its threads.
Target target_of(const CompileOptions& options);

/// The canonical text of an engine, for dumps and `--compile-to plan`.
std::string print(const Engine& engine);

}  // namespace graft
