// SPDX-License-Identifier: Apache-2.0
// Convolutions whose windows are better summed after their channels: transposed ones, and those of few results.
#pragma once

#include <vector>

#include "fuse/fused_program.h"

namespace graft {

/// y[o, c] = sum over (k, i) of x[at(o, k), i] * w[i, k, c]  ->  t[p, (k, c)] = sum over i of x[p, i] * w'[i, (k, c)];
/// y[o, c] = sum over k of t[at(o, k), (k, c)], and what follows. A transposed convolution multiplies each element with
/// each tap once that way, and need not ask which taps meet a place; one of few columns c gets as many more as it has
/// taps along its last window, so that vectors and matrix units are full. Weights must be constant; w' is made of them
/// now. New tensors are appended to `tensors`; other steps come back as they are.
std::vector<FusedStep> move_taps(FusedStep step, std::vector<FusedTensor>& tensors);

}  // namespace graft
