// SPDX-License-Identifier: Apache-2.0
// Maps that enlarge what they read by whole factors, as images are by interpolation: neighbours read the same elements,
// with weights that repeat.
#pragma once

#include "expr/region.h"

namespace graft::tile {

/// The points along a variable after which what an expression reads moves on by whole elements: 1 when its value is not
/// divided, 0 when there is no such number. `i / 2` has 2, `(2 * i - 1) / 4` too.
int64_t period_of(const Expr& e, int variable);

/// The most rows of a period that one thread makes, and of the expressions of all that it makes.
inline constexpr int64_t kMostPhases = 4;
inline constexpr int kMostPieceNodes = 4096;

/// t[i, j] = f(x[i, j]); y[i, k] = g(t[i, k / 2]) -> y[i, k] = g(f(x[i, k / 2])): a map of few elements of inputs that
/// one map enlarges along its last axis is computed where it is read. A thread has neighbours, which read most of it
/// together, so that this costs little beside memory that a block shares and waits for. Bits stay the same.
Region inline_enlarged(const Region& region);

}  // namespace graft::tile
