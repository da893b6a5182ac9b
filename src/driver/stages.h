// SPDX-License-Identifier: Apache-2.0
// What the stages of compiling share, each in a file of its own: import_stage, pass_stage, fuse_stage, plan_stage.
#pragma once

#include <string_view>

#include "base/environment.h"
#include "driver/compile.h"

namespace graft {

/// `text` gives it where it is wanted: the text of a graph reads all its constants.
template <class Text>
void dump(std::string_view kind, std::string_view name, const Text& text) {
  if (environment().wants_dump(kind, name)) write_dump(environment(), kind, name, text());
}

/// The process's environment with the caller's own exclusions.
Environment with_disabled(const CompileOptions& options);

/// fuse() for one of the targets.
FusedProgram fuse_for(const Target& target, const Graph& graph, const CompileOptions& options, CompileNotes* notes);

/// plan() for each combination of the optima of the graph's dimensions (graph/optima.h): the engine for the main one,
/// with the others as its variants, and one record for all.
BuiltEngine plan_for_optima(const Graph& graph, const Target& target, const CompileOptions& options,
                            const Plan& known);

/// Weights that an engine holds packed are made from there again when somebody asks for them: in memory once.
void share_weights(Plan& plan);

/// Everything that changes the result, as the plan records it.
std::vector<std::pair<std::string, std::string>> recorded_options(const CompileOptions& options);

}  // namespace graft
