// SPDX-License-Identifier: Apache-2.0
// Maps that enlarge what they read by whole factors, as images are by interpolation: neighbours read the same elements,
// with weights that repeat.
#pragma once

#include "expr/expr.h"

namespace graft::tile {

/// The points along a variable after which what an expression reads moves on by whole elements: 1 when its value is not
/// divided, 0 when there is no such number. `i / 2` has 2, `(2 * i - 1) / 4` too.
int64_t period_of(const Expr& e, int variable);

/// The most rows of a period that one thread makes, and of the expressions of all that it makes.
inline constexpr int64_t kMostPhases = 4;
inline constexpr int kMostPieceNodes = 4096;

}  // namespace graft::tile
