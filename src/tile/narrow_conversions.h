// SPDX-License-Identifier: Apache-2.0
// Conversions from and to elements of at most 8 bits that no machine computes with, as integer arithmetic.
#pragma once

#include "expr/expr.h"

namespace graft::tile {

/// Whether a type has no arithmetic of its own in generated code: floats of at most 8 bits, and integers narrower than
/// a byte. In expressions such a float is its code and such an integer itself, both as i32.
bool is_narrow(DType type);
/// Whether it is one of the floats of 8 bits that GPUs convert by instructions: f8e4m3fn, f8e5m2.
bool is_common_float8(DType type);

/// `bits`, of which the lowest stand for an element of `type`, as what the element is in expressions.
Expr narrow_of_bits(DType type, const Expr& bits);
/// The element's bits, the others 0.
Expr bits_of_narrow(DType type, const Expr& value);
/// The constant `node` of a narrow type.
Expr narrow_constant(const ExprNode& node);
/// What Intrinsic::kCast means for `value`, one of its ends being narrow.
Expr convert_narrow(DType from, DType to, const Expr& value);
/// What Intrinsic::kBitcast means for `value`, one of its ends being narrow.
Expr bitcast_narrow(DType from, DType to, const Expr& value);

}  // namespace graft::tile
