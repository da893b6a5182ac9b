// SPDX-License-Identifier: Apache-2.0
// A small step whose result a reduction in parts reads, computed by each of the parts.
#pragma once

#include <vector>

#include "fuse/fused_program.h"

namespace graft {

/// y[k] = f(...); z[p, k] = fold over part p of g(x, y[k]) -> z and y[p, k] = f(...) in one step, where `small` makes y
/// from little, and `reader` z. Whoever else reads y (`others`) reads that of the first part. Returns whether it was
/// done; false leaves everything as it was: the reader reads y at other places than its own.
bool repeat_in_parts(const FusedStep& small, FusedStep& reader, const std::vector<FusedStep*>& others,
                     std::vector<FusedTensor>& tensors);

}  // namespace graft
