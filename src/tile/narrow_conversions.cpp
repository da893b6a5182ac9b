// SPDX-License-Identifier: Apache-2.0
#include "tile/narrow_conversions.h"

#include "base/convert.h"
#include "base/small_format.h"

namespace graft::tile {
namespace {

constexpr int kMantissaBits = 23, kBias = 127;  // of f32

Expr word(int64_t value) { return make_integer(DType::kInt32, value); }
Expr bits_of(const Expr& f32) { return make_bitcast(DType::kInt32, f32); }
Expr f32_of(const Expr& bits) { return make_bitcast(DType::kFloat32, bits); }

/// The f32 next to `value` towards zero with its last bit set, where f32 cannot hold it: rounding that once more gives
/// what one rounding of the f64 gives.
Expr rounded_to_odd(const Expr& value) {
  const Expr nearest = make_cast(DType::kFloat32, value);
  const Expr back = make_cast(DType::kFloat64, nearest);
  const Expr zero = word(0), one = word(1);
  const Expr inexact = lt(back, value) || gt(back, value);
  const Expr towards_zero = bits_of(nearest) - select(gt(abs(back), abs(value)), one, zero);
  return f32_of(towards_zero | select(inexact, one, zero));
}

/// A number of any type as an f32 that rounds to a narrow float as the number does.
Expr source_f32(DType from, const Expr& value) {
  if (from == DType::kFloat64) return rounded_to_odd(value);
  const bool wide = is_integer(from) && bit_width(from) > 16;
  return wide ? rounded_to_odd(make_cast(DType::kFloat64, value)) : make_cast(DType::kFloat32, value);
}

/// The exponent byte of the nearest power of two, halves upwards but for the smallest.
Expr encode_power(const Expr& x) {
  const Expr bits = bits_of(x) & word(0x7fffffff);
  const Expr exponent = bits >> word(kMantissaBits), fraction = bits & word(0x7fffff);
  const Expr half = word(0x400000);
  const Expr up = gt(fraction, half) || (eq(fraction, half) && gt(exponent, word(0)));
  const Expr code = min(exponent + select(up, word(1), word(0)), word(254));
  return select(eq(exponent, word(255)), word(255), code);
}

Expr decode_power(const Expr& code) {
  const Expr bits = select(eq(code, word(0)), word(0x400000), code << word(kMantissaBits));
  return f32_of(select(eq(code, word(255)), word(0x7fc00000), bits));
}

/// Nearest, ties to even; what is too large becomes the largest.
Expr encode(const SmallFormat& format, const Expr& x) {
  const int shift = kMantissaBits - format.mantissa_bits;
  const int smallest = 1 - format.bias;  // exponent of the smallest normal number
  const Expr bits = bits_of(x), magnitude = bits & word(0x7fffffff);
  const Expr odd = (magnitude >> word(shift)) & word(1);
  const Expr rounded = magnitude + word((1 << (shift - 1)) - 1) + odd;
  const Expr normal = (rounded >> word(shift)) - word((kBias - format.bias) << format.mantissa_bits);
  // Added to a number whose last bit is the unit of denormals, x is rounded to that unit.
  const Expr aligner = word(static_cast<int64_t>(kBias + smallest + shift) << kMantissaBits);
  const Expr denormal = bits_of(f32_of(magnitude) + f32_of(aligner)) - aligner;
  const Expr is_denormal = lt(magnitude, word(static_cast<int64_t>(kBias + smallest) << kMantissaBits));
  const Expr finite = min(select(is_denormal, denormal, normal), word(format.largest));
  const Expr code = select(gt(magnitude, word(0x7f800000)), word(format.not_a_number), finite);
  const int sign = 1 << (format.exponent_bits + format.mantissa_bits);
  Expr signed_too = lt(bits, word(0));
  if (!format.negative_zero) signed_too = signed_too && ne(finite, word(0)) && le(magnitude, word(0x7f800000));
  return code | select(signed_too, word(sign), word(0));
}

Expr decode(const SmallFormat& format, const Expr& code) {
  const int shift = kMantissaBits - format.mantissa_bits, width = format.exponent_bits + format.mantissa_bits;
  const Expr magnitude = code & word((1 << width) - 1);
  const Expr normal = (magnitude << word(shift)) + word(static_cast<int64_t>(kBias - format.bias) << kMantissaBits);
  const Expr unit = f32_of(word(static_cast<int64_t>(kBias + 1 - format.bias - format.mantissa_bits) << kMantissaBits));
  const Expr denormal = bits_of(make_cast(DType::kFloat32, magnitude) * unit);
  Expr bits = select(lt(magnitude, word(1 << format.mantissa_bits)), denormal, normal);
  const Expr nan = word(0x7fc00000);
  const bool has_infinity = format.overflow != format.not_a_number;
  if (format.largest < (1 << width) - 1) {
    const Expr beyond = has_infinity ? select(eq(magnitude, word(format.overflow)), word(0x7f800000), nan) : nan;
    bits = select(gt(magnitude, word(format.largest)), beyond, bits);
  }
  const Expr sign = select(ne(code & word(1 << width), word(0)), word(INT32_MIN), word(0));
  bits = bits | sign;
  if (!format.negative_zero) bits = select(eq(code, word(1 << width)), nan, bits);
  return f32_of(bits);
}

/// The low bits of an i32 as an integer of `type`.
Expr wrapped(DType type, const Expr& value) {
  const int width = bit_width(type);
  if (is_unsigned(type)) return value & word((1 << width) - 1);
  return (value << word(32 - width)) >> word(32 - width);
}

/// Towards zero, saturating, NaN gives 0.
Expr saturated(DType type, const Expr& value) {
  const int width = bit_width(type);
  const int64_t low = is_unsigned(type) ? 0 : -(1 << (width - 1)), high = low + (1 << width) - 1;
  return min(max(make_cast(DType::kInt32, value), word(low)), word(high));
}

/// The value of a narrow element in a type of its own: f32 or i32.
Expr number_of(DType type, const Expr& value) {
  if (!is_float(type)) return value;
  return type == DType::kFloat8E8M0 ? decode_power(value) : decode(small_format(type), value);
}

}  // namespace

bool is_narrow(DType type) {
  return (is_float(type) && bit_width(type) <= 8) || (is_integer(type) && bit_width(type) < 8);
}

bool is_common_float8(DType type) { return type == DType::kFloat8E4M3FN || type == DType::kFloat8E5M2; }

Expr narrow_of_bits(DType type, const Expr& bits) {
  if (!is_float(type)) return wrapped(type, bits);
  return bits & word((1 << bit_width(type)) - 1);
}

Expr bits_of_narrow(DType type, const Expr& value) {
  return is_float(type) || is_unsigned(type) ? value : value & word((1 << bit_width(type)) - 1);
}

Expr narrow_constant(const ExprNode& node) {
  return word(is_float(node.type) ? static_cast<int64_t>(encode_float(node.type, node.real)) : node.integer);
}

Expr convert_narrow(DType from, DType to, const Expr& value) {
  const Expr number = is_narrow(from) ? number_of(from, value) : value;
  if (!is_narrow(to)) return make_cast(to, number);
  if (is_float(to)) {
    const Expr x = source_f32(is_narrow(from) && is_float(from) ? DType::kFloat32 : from, number);
    return to == DType::kFloat8E8M0 ? encode_power(x) : encode(small_format(to), x);
  }
  return is_float(number->type) ? saturated(to, number) : wrapped(to, make_cast(DType::kInt32, number));
}

Expr bitcast_narrow(DType from, DType to, const Expr& value) {
  const Expr bits = is_narrow(from) ? bits_of_narrow(from, value)
                                    : make_cast(DType::kInt32, make_bitcast(DType::kUint8, value));
  if (is_narrow(to)) return narrow_of_bits(to, bits);
  return make_bitcast(to, make_cast(DType::kUint8, bits));
}

}  // namespace graft::tile
