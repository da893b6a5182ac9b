// SPDX-License-Identifier: Apache-2.0
// From the fused program to an engine: layouts, schedules, kernels, constants, the memory plan's lifetimes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "fuse/fused_program.h"
#include "target/target.h"

namespace graft {

/// How much time the build may spend on measuring candidates.
enum class Tuning : uint8_t { kOff, kFast, kFull };

/// Compiles printed tile programs to code objects. Handed in by the driver, which knows the code generator modules and
/// the kernel cache. Throws Error{device} or {internal} with the generator's message.
using CompileKernels = std::function<std::vector<std::byte>(const std::string& programs, const Target& target)>;

struct BuildOptions {
  Target target;
  Tuning tuning = Tuning::kOff;
  CompileKernels compile_kernels;  ///< empty: every step runs in the interpreter
  std::function<void(const std::string& step, int done, int total)> progress;  ///< may throw Error{cancelled}
  bool keep_references = false;       ///< keep row-major constants too, so that runs can be validated
  std::vector<std::string> disabled;  ///< libraries and strategies by name (GRAFT_DISABLE)
};

/// Builds the engine. Consumes the program's constants.
Engine build_engine(FusedProgram program, const BuildOptions& options);

}  // namespace graft
