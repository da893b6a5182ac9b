// SPDX-License-Identifier: Apache-2.0
// Weights that are stored as codes: what a contraction's operand is made of.
#pragma once

#include <optional>

#include "fuse/contraction.h"

namespace graft {

/// An operand that is (code - zero) * scale, all three in the type of the sums. Zero and scale, each null where it is
/// not there, stand still along the reduced axes from number `outer` on.
struct DecodedOperand {
  Expr code, zero, scale;
  size_t outer = 0;
};

/// The right operand of a contraction as codes; nothing where it is a load as it is multiplied, or no reduced axis is
/// left along which scales stand still. Differences of integers are exact, so that each may be converted by itself.
/// That the product may be rounded to 16 bits before it is multiplied is left out.
std::optional<DecodedOperand> decoded_operand(const Contraction& contraction);

/// Elements along the reduced axes, numbered through, that a matrix unit of 16-bit operands takes together where it
/// decodes the right operand: the multiple of 64 and of a block next to `about`, of 1,024 at most. Nothing where there
/// is none, the right operand is no code that is rounded to the type of the left one, or the left one does not run
/// along all reduced axes as along one.
std::optional<int64_t> decoded_step(const Contraction& contraction, int64_t about);

}  // namespace graft
