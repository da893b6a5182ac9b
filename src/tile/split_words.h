// SPDX-License-Identifier: Apache-2.0
// Operands of units that multiply parts of f32 (ContractUnit::splits on a CPU). x * 2^24 = x0 + x1 + x2 exactly, each
// part rounded to the 8 bits of a bf16, halves away from zero. The scale keeps the parts of every f32, denormals
// included, at 2^-125 or above, so that units that flush denormals lose nothing; sums are scaled back by 2^-48. Where
// |x| >= 2^103, infinite or NaN, some part is NaN, and so is each sum that it enters: those are computed again by
// multiply-adds. Two elements of k lie in a word of 32 bits: of a step of 32, word i holds elements i (in its low
// half) and i + 16, so that a vector of words is made of two vectors of elements.
#pragma once

#include <array>
#include <cstdint>

#include "expr/build.h"

namespace graft::tile {

inline constexpr int64_t kParts = 3;       ///< of an operand
inline constexpr int64_t kSplitStep = 32;  ///< elements of k whose words lie together
inline constexpr int64_t kSplitWords = kSplitStep / 2;
inline constexpr double kSplitScale = 0x1p24;     ///< of an operand
inline constexpr double kSumScale = 0x1p-48;      ///< of a sum of products of two such operands
inline constexpr float kSplitLimit = 0x1p103F;    ///< of magnitudes that can be split

using SplitExprs = std::array<Expr, kParts>;
using SplitBits = std::array<uint16_t, kParts>;

/// The words (f32 by type) of the parts of two elements.
SplitExprs split_words(const Expr& low, const Expr& high);
/// The same, from which joined_word gets every f32 back: of what cannot be split, the first part is NaN and the others
/// are the halves of its bits.
SplitExprs lossless_words(const Expr& low, const Expr& high);
/// The f32 of which lossless_words made the words: the one in the high halves where `is_high` holds.
Expr joined_word(const SplitExprs& words, const Expr& is_high);

/// What lossless_words does to one element, and back.
SplitBits split_bits(float x);
float joined_bits(const SplitBits& parts);

}  // namespace graft::tile
