// SPDX-License-Identifier: Apache-2.0
// Scatters that set elements, for devices with many threads: who writes an element last is found first.
#pragma once

#include <vector>

#include "fuse/fused_program.h"

namespace graft {

/// y = x; y[index(n)] = u(n) for n in order
///   -> last[c] = -1; last[index(n)] = max(n), in any order; y[c] = last[c] < 0 ? x[c] : u(last[c]).
/// The second step has as many independent points as y has elements, and moves each once; the last update of an
/// element wins as if they came one after the other. Steps that are better left alone come back as they are. New
/// tensors are appended to `tensors`.
std::vector<FusedStep> spread_scatter(FusedStep step, std::vector<FusedTensor>& tensors, const Bindings& typical);

}  // namespace graft
