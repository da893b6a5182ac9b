// SPDX-License-Identifier: Apache-2.0
// The sizes that candidates are judged and measured at.
#pragma once

#include "fuse/fused_program.h"

namespace graft {

/// A value for every symbol of the program: the usual one of its range. Without a range, batches are one sample, and
/// other symbols neither tiny nor large.
Bindings typical_sizes(const FusedProgram& program);

}  // namespace graft
