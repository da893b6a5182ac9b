// SPDX-License-Identifier: Apache-2.0
// AMX where there is none: the processor raises SIGILL at each of its instructions, and a handler does what Intel's
// manual says that they do (Software Developer's Manual, volume 2: TDPBF16PS, TDPBUSD and the like), so that kernels
// run as they are. Slow: some microseconds an instruction.
#pragma once

#include <optional>

#include "target/target.h"

namespace graft::codegen {

/// This machine with AMX, whose instructions are emulated where it has none. Nothing where it has no AVX-512, or its
/// architecture is another one.
std::optional<Target> target_with_amx();

}  // namespace graft::codegen
