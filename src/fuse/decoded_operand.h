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
std::optional<DecodedOperand> decoded_operand(const Contraction& contraction);

}  // namespace graft
