// SPDX-License-Identifier: Apache-2.0
// From the fused program to an engine: layouts, schedules, kernels, constants, the memory plan's lifetimes.
#pragma once

#include <vector>

#include "engine/engine.h"
#include "engine/record.h"
#include "fuse/fused_program.h"
#include "plan/build_options.h"

namespace graft {

/// An engine and what a plan keeps of its making.
struct BuiltEngine {
  Engine engine;
  Record record;
  std::vector<PackedConstant> packed;
};

/// Builds the engine, and warns of steps that the interpreter runs. Consumes the program's constants.
BuiltEngine build_engine(FusedProgram program, const BuildOptions& options);
/// The same without the warning, and without comparing whole networks: a candidate to be measured.
BuiltEngine build_candidate(FusedProgram program, const BuildOptions& options);

}  // namespace graft
