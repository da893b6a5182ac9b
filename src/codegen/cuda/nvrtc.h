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
/// Compiles a unit for an architecture ("sm_90a") to a cubin, or to PTX text. Throws a device Error when NVRTC is
/// absent, an internal one with the compiler's log when it rejects the source, and a cancelled one when `progress`
/// wants to stop: at once from NVRTC 12.9 on, before that when NVRTC is done. `report` gets what the assembler says of
/// each kernel of a cubin: registers, stack frame and spills. Thread-safe.
std::string compile_source(const std::string& source, const std::string& architecture, codegen::Progress& progress,
                           bool ptx = false, std::string* report = nullptr);

}  // namespace graft::cuda
