// SPDX-License-Identifier: Apache-2.0
// What is known of an engine before it is built: what goes in and what comes out.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driver/compile_options.h"
#include "engine/engine.h"
#include "graph/graph.h"

namespace graft {

/// What was chosen when compiling, as Engine::options has it.
using EngineOptions = std::vector<std::pair<std::string, std::string>>;
/// The rows of the sizes that the options fix.
EngineOptions fixed_sizes(const CompileOptions& options);

/// An engine without steps that has the inputs, outputs and sizes of the graph's own, by which files and options of a
/// run are checked before minutes of compiling. Nothing where the graph does not tell the shape of an input in sizes
/// that a run chooses. Types of outputs that only inference knows are missing.
std::optional<Engine> signature_of(const Graph& graph, const EngineOptions& options);

}  // namespace graft
