// SPDX-License-Identifier: Apache-2.0
// Algebra that expression constructors apply: constants fold, neutral elements of integer arithmetic go.
#pragma once

#include "expr/expr.h"

namespace graft {

/// A simpler equivalent of `intrinsic(args)`, or a null Expr. Never changes a float result: float arithmetic is
/// folded only where the operation is exact by IEEE on the operand type (f32, f64), and nothing is re-associated.
Expr fold_call(Intrinsic intrinsic, const std::vector<Expr>& args);
/// The constant converted to `type`, or a null Expr when that is left to run time (low-precision targets).
Expr fold_cast(DType type, const ExprNode& constant);

}  // namespace graft
