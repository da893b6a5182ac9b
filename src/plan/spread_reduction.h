// SPDX-License-Identifier: Apache-2.0
// Reductions that give fewer results than a device has work for: in several steps, parts first.
#pragma once

#include <vector>

#include "fuse/fused_program.h"
#include "target/target.h"

namespace graft {

/// y = fold over [n] -> partial[p] = fold over part p of n; y = fold over [p], where the results of the one reduction
/// of the step are too few for the device at typical sizes. A step of several reductions, or of one and what becomes of
/// each element, such as a normalisation of a whole image, becomes several first where its few blocks would read for
/// longer than the launches take. Steps that are better left alone come back as they are. New tensors are appended to
/// `tensors`. The parts depend on nothing but the step, the sizes and the target, so that results are the same in each
/// run.
std::vector<FusedStep> spread_reduction(FusedStep step, std::vector<FusedTensor>& tensors, const Bindings& typical,
                                        const Target& target);

}  // namespace graft
