// SPDX-License-Identifier: Apache-2.0
// The table of float formats of at most 8 bits that have a sign and a mantissa.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace graft {

/// A float format of at most 8 bits: sign, exponent and mantissa, all codes finite but for the special ones.
struct SmallFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  uint8_t largest;       ///< code of the largest finite value
  uint8_t overflow;      ///< code (without sign) beyond it when not saturating
  uint8_t not_a_number;  ///< code of NaN
  bool negative_zero;    ///< false: the code of -0 is NaN, and NaN has no sign
  bool clamps;           ///< saturates whatever the caller says
};

/// The row of a type; an internal error for others, f8e8m0 among them, which has powers of two alone.
const SmallFormat& small_format(DType type);

}  // namespace graft
