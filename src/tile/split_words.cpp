// SPDX-License-Identifier: Apache-2.0
#include "tile/split_words.h"

#include <bit>
#include <cmath>

namespace graft::tile {
namespace {

constexpr uint32_t kHighHalf = 0xffff0000, kHalfStep = 0x8000, kNan = 0x7fc00000;
constexpr int64_t kHalfBits = 16;

Expr unsigned_constant(uint32_t value) { return make_integer(DType::kUint32, value); }
Expr to_bits(const Expr& e) {
  return e->type == DType::kUint32 ? e : make_bitcast(DType::kUint32, e);
}
Expr to_float(const Expr& e) { return make_bitcast(DType::kFloat32, e); }
Expr high_bits(const Expr& bits) { return bits & unsigned_constant(kHighHalf); }
Expr moved_up(const Expr& bits) { return bits << unsigned_constant(kHalfBits); }
Expr moved_down(const Expr& bits) { return bits >> unsigned_constant(kHalfBits); }

/// The value with the 8 bits of a bf16, as an f32.
Expr rounded(const Expr& x) { return to_float(high_bits(to_bits(x) + unsigned_constant(kHalfStep))); }

/// Parts as bits of f32, of which the lower half does not count.
SplitExprs parts_of(const Expr& x) {
  const Expr scaled = x * make_constant(DType::kFloat32, kSplitScale);
  const Expr first = rounded(scaled), rest = scaled - first, second = rounded(rest);
  // What is left fits; it is cut off, not rounded, because rounding may turn the bits of a NaN into a zero.
  return {to_bits(first), to_bits(second), to_bits(rest - second)};
}

SplitExprs lossless_parts(const Expr& x) {
  const Expr fits = lt(abs(x), make_constant(DType::kFloat32, static_cast<double>(kSplitLimit)));
  const SplitExprs parts = parts_of(x);
  const Expr bits = to_bits(x);
  return {select(fits, parts[0], unsigned_constant(kNan)), select(fits, parts[1], bits),
          select(fits, parts[2], moved_up(bits))};
}

SplitExprs in_words(const SplitExprs& low, const SplitExprs& high) {
  SplitExprs words;
  for (size_t p = 0; p < words.size(); ++p) words[p] = to_float(moved_down(low[p]) | high_bits(high[p]));
  return words;
}

float rounded(float x) { return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + kHalfStep) & kHighHalf); }
uint16_t high_half(float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> kHalfBits); }
float from_half(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << kHalfBits); }

}  // namespace

SplitExprs split_words(const Expr& low, const Expr& high) { return in_words(parts_of(low), parts_of(high)); }

SplitExprs lossless_words(const Expr& low, const Expr& high) {
  return in_words(lossless_parts(low), lossless_parts(high));
}

Expr joined_word(const SplitExprs& words, const Expr& is_high) {
  SplitExprs bits;
  for (size_t p = 0; p < words.size(); ++p) {
    const Expr word = to_bits(words[p]);
    bits[p] = high_bits(word << select(is_high, unsigned_constant(0), unsigned_constant(kHalfBits)));
  }
  const Expr first = to_float(bits[0]);
  const Expr sum = (first + to_float(bits[1])) + to_float(bits[2]);
  return select(is_nan(first), to_float(bits[1] | moved_down(bits[2])),
                sum * make_constant(DType::kFloat32, 1 / kSplitScale));
}

SplitBits split_bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (!(std::fabs(x) < kSplitLimit)) {
    return {static_cast<uint16_t>(kNan >> kHalfBits), static_cast<uint16_t>(bits >> kHalfBits),
            static_cast<uint16_t>(bits)};
  }
  const float scaled = x * static_cast<float>(kSplitScale);
  const float first = rounded(scaled), rest = scaled - first, second = rounded(rest);
  return {high_half(first), high_half(second), high_half(rest - second)};
}

float joined_bits(const SplitBits& parts) {
  const float first = from_half(parts[0]);
  if (std::isnan(first)) return std::bit_cast<float>(uint32_t{parts[1]} << kHalfBits | parts[2]);
  return (first + from_half(parts[1]) + from_half(parts[2])) * static_cast<float>(1 / kSplitScale);
}

}  // namespace graft::tile
