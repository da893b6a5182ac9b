// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "expr/expr.h"

namespace graft {

/// The parts of an i64 sum, which are no sums themselves: one where it is none.
std::vector<Expr> addends(const Expr& e);

}  // namespace graft
