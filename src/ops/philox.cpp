// SPDX-License-Identifier: Apache-2.0
#include "ops/philox.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace graft {
namespace {

constexpr int kRounds = 10;

Expr word(uint32_t value) { return make_integer(DType::kUint32, static_cast<int64_t>(value)); }
Expr long_word(uint64_t value) { return make_integer(DType::kUint64, static_cast<int64_t>(value)); }
Expr low_half(const Expr& value) { return make_cast(DType::kUint32, value); }
Expr high_half(const Expr& value) { return make_cast(DType::kUint32, value >> long_word(32)); }
Expr widened(const Expr& value) { return make_cast(DType::kUint64, value); }

/// The two halves of the random bits of an f64, which has room for 53.
Expr real_of_53_bits(const RandomWords& words, int first) {
  const Expr bits = (widened(words[first]) << long_word(32)) | widened(words[first + 1]);
  return make_cast(DType::kFloat64, bits >> long_word(11));
}

}  // namespace

RandomWords philox(const RandomKey& key, const Expr& position) {
  const Expr at = make_bitcast(DType::kUint64, position);
  RandomWords x = {low_half(at), high_half(at), word(0), word(0)};
  Expr first = key.low, second = key.high;
  for (int round = 0; round < kRounds; ++round) {
    const Expr a = widened(x[0]) * long_word(0xD2511F53u), b = widened(x[2]) * long_word(0xCD9E8D57u);
    x = {high_half(b) ^ x[1] ^ first, low_half(b), high_half(a) ^ x[3] ^ second, low_half(a)};
    first = first + word(0x9E3779B9u);
    second = second + word(0xBB67AE85u);
  }
  return x;
}

RandomKey random_key(Definition& d, int state) {
  if (d.has("seed")) {
    const bool whole = d.node().attributes.contains("seed") &&
                       std::holds_alternative<int64_t>(d.node().attributes.find("seed")->second);
    const uint64_t bits = whole ? static_cast<uint64_t>(d.integer("seed"))
                                : std::bit_cast<uint32_t>(static_cast<float>(d.real("seed")));
    return {word(static_cast<uint32_t>(bits)), word(static_cast<uint32_t>(bits >> 32))};
  }
  if (!d.has_input(state)) return {word(0), word(0)};  // before the passes have given it one
  const Tensor t = d.in(state);
  if (t.rank() != 0) d.reject("its state should be a scalar");
  const Expr bits = make_bitcast(DType::kUint64, t({}));
  return {low_half(bits), high_half(bits)};
}

Expr random_unit(DType type, const RandomWords& words) {
  if (type == DType::kFloat64) return real_of_53_bits(words, 0) * make_constant(DType::kFloat64, 0x1p-53);
  const int bits = type == DType::kFloat16 ? 11 : type == DType::kBFloat16 ? 8 : 24;
  const Expr whole = make_cast(DType::kFloat32, words[0] >> word(static_cast<uint32_t>(32 - bits)));
  return whole * make_constant(DType::kFloat32, std::ldexp(1.0, -bits));
}

Expr random_normal(DType type, const RandomWords& words) {
  const DType wide = type == DType::kFloat64 ? type : DType::kFloat32;
  const auto real = [&](double value) { return make_constant(wide, value); };
  const bool is_double = wide == DType::kFloat64;
  const double step = is_double ? 0x1p-53 : 0x1p-32;
  const auto whole = [&](int first) {
    return is_double ? real_of_53_bits(words, first) : make_cast(wide, words[first / 2]);
  };
  const Expr above_zero = whole(0) * real(step) + real(step / 2);  // no logarithm of 0
  const Expr turn = whole(2) * real(step);
  return sqrt(real(-2) * log(above_zero)) * cos(real(2 * std::numbers::pi) * turn);
}

}  // namespace graft
