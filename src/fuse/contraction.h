// SPDX-License-Identifier: Apache-2.0
// Recognition of contractions (matrix products, convolutions) among the forms of a region.
#pragma once

#include <optional>

#include "expr/region.h"

namespace graft {

/// A sum of products seen as a matrix product: result[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n].
/// Axes that both operands use are batch axes; the operand that varies along the innermost result axis is `b`.
struct Contraction {
  std::vector<Axis> batch, m, n, k;  ///< in the order of the form's axes
  Expr a, b;                         ///< operands: loads, perhaps cast or guarded by a select
};

/// The contraction that the reduction is, or nothing: more than one product, an axis that belongs to no operand,
/// a reduced axis that only one operand uses, or operands that share nothing to sum over.
std::optional<Contraction> find_contraction(const Reduce& reduce);

/// Sorts the reduced axes so that those along which `a` is contiguous run innermost; sums may be re-associated.
void order_reduced_axes(Contraction& contraction);
/// The operand without a conversion from a narrower type, which matrix units of a GPU do themselves; also of a load
/// that is zero where a condition does not hold.
Expr unwidened(const Expr& operand);

/// Multiplications of a contraction (half its FLOPs).
Size multiplications(const Contraction& contraction);

}  // namespace graft
