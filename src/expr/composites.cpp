// SPDX-License-Identifier: Apache-2.0
#include "expr/composites.h"

namespace graft {

Expr argument_of_raised_erf(const ExprNode& e) {
  if (e.kind != ExprKind::kCall || e.intrinsic != Intrinsic::kAdd) return {};
  for (const size_t one : {0, 1}) {
    const Expr &constant = e.args[one], &other = e.args[1 - one];
    if (constant->kind == ExprKind::kConstant && constant->real == 1 && is_call(other, Intrinsic::kErf)) {
      return other->args[0];
    }
  }
  return {};
}

}  // namespace graft
