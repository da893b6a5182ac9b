// SPDX-License-Identifier: Apache-2.0
// NVIDIA's run-time compiler, opened when the first kernel is compiled.
#pragma once

#include <string>

#include "codegen/progress.h"

namespace graft::cuda {

/// "NVRTC 13.0", or empty when no NVRTC was found.
std::string nvrtc_version();
/// Why NVRTC cannot be used and how to get it, or empty.
std::string nvrtc_problem();
/// How a unit is compiled.
struct CompileMode {
  bool ptx = false;    ///< to PTX text, not to a cubin
  bool quick = false;  ///< with less optimisation: only to see that it compiles
  std::string* report = nullptr;  ///< gets what the assembler says of each kernel: registers, stack frame and spills
};

/// Compiles a unit for an architecture ("sm_90a"). Throws a device Error when NVRTC is absent, an internal one with the
/// compiler's log when it rejects the source, and a cancelled one when `progress` wants to stop: at once from
/// NVRTC 12.9 on, before that when NVRTC is done. Thread-safe.
std::string compile_source(const std::string& source, const std::string& architecture, codegen::Progress& progress,
                           const CompileMode& mode = {});

}  // namespace graft::cuda
