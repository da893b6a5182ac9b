// SPDX-License-Identifier: Apache-2.0
// Expressions of several calls that code generators have one function for.
#pragma once

#include "expr/expr.h"

namespace graft {

/// x where `e` is 1 + erf(x), of floats, or null: erfc(-x), which is cheaper than both.
Expr argument_of_raised_erf(const ExprNode& e);

}  // namespace graft
