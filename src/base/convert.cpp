// SPDX-License-Identifier: Apache-2.0
#include "base/convert.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/small_format.h"

namespace graft {
namespace {

constexpr SmallFormat kE4M3FN{4, 3, 7, 0x7e, 0x7f, 0x7f, true, false};
constexpr SmallFormat kE4M3FNUZ{4, 3, 8, 0x7f, 0x80, 0x80, false, false};
constexpr SmallFormat kE5M2{5, 2, 15, 0x7b, 0x7c, 0x7e, true, false};
constexpr SmallFormat kE5M2FNUZ{5, 2, 16, 0x7f, 0x80, 0x80, false, false};
constexpr SmallFormat kE2M1{2, 1, 1, 0x7, 0x7, 0x8, true, true};

}  // namespace

const SmallFormat& small_format(DType type) {
  switch (type) {
    case DType::kFloat8E4M3FN:
      return kE4M3FN;
    case DType::kFloat8E4M3FNUZ:
      return kE4M3FNUZ;
    case DType::kFloat8E5M2:
      return kE5M2;
    case DType::kFloat8E5M2FNUZ:
      return kE5M2FNUZ;
    case DType::kFloat4E2M1:
      return kE2M1;
    default:
      throw_internal(__FILE__, __LINE__, "type", "not a small float: " + std::string(name_of(type)));
  }
}

namespace {

/// The float next to `value` whose last bit records that something was lost, so that rounding it again to fewer
/// bits gives what rounding `value` once would have given.
float round_to_odd(double value) {
  float nearest = static_cast<float>(value);
  const double back = nearest;
  if (back == value || std::isnan(value)) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(back) > std::fabs(value)) --bits;  // now the neighbour towards zero; from inf the largest float
  return std::bit_cast<float>(bits | 1u);
}

uint8_t encode_small(const SmallFormat& format, float value, bool saturate) {
  const uint8_t sign_bit = static_cast<uint8_t>(1u << (format.exponent_bits + format.mantissa_bits));
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const bool negative = (bits >> 31) != 0;
  if (std::isnan(value)) {
    return format.negative_zero && negative ? format.not_a_number | sign_bit : format.not_a_number;
  }
  const uint8_t sign = negative ? sign_bit : 0;
  const auto signed_code = [&](uint32_t code) {
    if (!format.negative_zero && (code == 0 || code == format.not_a_number)) return static_cast<uint8_t>(code);
    return static_cast<uint8_t>(code | sign);
  };
  uint32_t code = std::numeric_limits<uint32_t>::max();
  if (std::isfinite(value)) {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(static_cast<double>(value)), &exponent);  // in [0.5, 1)
    const int smallest = 1 - format.bias;
    const bool denormal = fraction == 0 || exponent - 1 < smallest;
    const int scale = (denormal ? smallest : exponent - 1) - format.mantissa_bits;
    const double units = std::nearbyint(std::ldexp(fraction, exponent - scale));
    // Units carry into the exponent field by themselves, from denormals too.
    const int field = scale + format.mantissa_bits - smallest;
    code = static_cast<uint32_t>(units) + (static_cast<uint32_t>(field) << format.mantissa_bits);
  }
  if (code > format.largest) code = saturate || format.clamps ? format.largest : format.overflow;
  return signed_code(code);
}

double decode_small(const SmallFormat& format, uint32_t bits) {
  const int width = format.exponent_bits + format.mantissa_bits;
  const uint32_t code = bits & ((1u << width) - 1);
  const bool negative = (bits >> width) & 1;
  if (!format.negative_zero && negative && code == 0) return std::numeric_limits<double>::quiet_NaN();
  double value = 0;
  if (code > format.largest) {
    const bool infinite = format.overflow != format.not_a_number && code == format.overflow;
    value = infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    const uint32_t mantissa = code & ((1u << format.mantissa_bits) - 1);
    const int field = static_cast<int>(code >> format.mantissa_bits);
    const uint32_t units = field ? mantissa | (1u << format.mantissa_bits) : mantissa;
    value = std::ldexp(units, std::max(field, 1) - format.bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

}  // namespace

uint16_t float_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t result = 0;
  if (magnitude >= 0x47800000u) {  // 2^16 and more, inf, NaN
    result = magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x1ffu) : 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: the adder aligns and rounds the denormal
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    result = std::bit_cast<uint32_t>(aligned) - std::bit_cast<uint32_t>(0.5f);
  } else {
    result = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return static_cast<uint16_t>(sign | result);
}

float f16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = (bits & 0x7fffu) << 13;
  if (magnitude >= 0x0f800000u) return std::bit_cast<float>(sign | (magnitude + 0x70000000u));  // inf, NaN
  if (magnitude < 0x00800000u) {  // denormal: 2^-24 times the mantissa
    const float value = static_cast<float>(bits & 0x7fffu) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | (magnitude + 0x38000000u));
}

uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

void floats_to_f16(std::span<const float> values, uint16_t* bits) {
  for (size_t i = 0; i < values.size(); ++i) bits[i] = float_to_f16(values[i]);
}
void f16_to_floats(std::span<const uint16_t> bits, float* values) {
  for (size_t i = 0; i < bits.size(); ++i) values[i] = f16_to_float(bits[i]);
}
void floats_to_bf16(std::span<const float> values, uint16_t* bits) {
  for (size_t i = 0; i < values.size(); ++i) bits[i] = float_to_bf16(values[i]);
}
void bf16_to_floats(std::span<const uint16_t> bits, float* values) {
  for (size_t i = 0; i < bits.size(); ++i) values[i] = bf16_to_float(bits[i]);
}

uint8_t float_to_f8e8m0(float value, PowerRounding rounding, bool saturate) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = (bits >> 23) & 0xffu;
  const uint32_t fraction = bits & 0x7fffffu;
  if (exponent == 0xffu) return 0xff;
  bool up = false;
  if (rounding == PowerRounding::kUp) up = fraction != 0;
  if (rounding == PowerRounding::kNearest) up = fraction > 0x400000u || (fraction == 0x400000u && exponent > 0);
  if (up && exponent == 0xfeu && saturate) up = false;
  return static_cast<uint8_t>(exponent + (up ? 1 : 0));
}

uint64_t encode_float(DType type, double value, bool saturate) {
  switch (type) {
    case DType::kFloat64:
      return std::bit_cast<uint64_t>(value);
    case DType::kFloat32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case DType::kFloat16:
      return float_to_f16(round_to_odd(value));
    case DType::kBFloat16:
      return float_to_bf16(round_to_odd(value));
    case DType::kFloat8E8M0:
      return float_to_f8e8m0(round_to_odd(value), PowerRounding::kNearest, saturate);
    default: {
      // Only a true infinity may reach the overflow rule of inf; what a float cannot hold is beyond every format.
      return encode_small(small_format(type), round_to_odd(value), saturate);
    }
  }
}

double decode_float(DType type, uint64_t bits) {
  switch (type) {
    case DType::kFloat64:
      return std::bit_cast<double>(bits);
    case DType::kFloat32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case DType::kFloat16:
      return f16_to_float(static_cast<uint16_t>(bits));
    case DType::kBFloat16:
      return bf16_to_float(static_cast<uint16_t>(bits));
    case DType::kFloat8E8M0:
      return bits == 0xff ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, static_cast<int>(bits) - 127);
    default:
      return decode_small(small_format(type), static_cast<uint32_t>(bits));
  }
}

double round_to_float(DType type, double value) {
  if (type == DType::kFloat64) return value;
  if (type == DType::kFloat32) return static_cast<float>(value);
  return decode_float(type, encode_float(type, value));
}

int64_t wrap_integer(DType type, int64_t value) {
  if (type == DType::kBool) return value != 0;
  const int shift = 64 - bit_width(type);
  if (shift <= 0) return value;
  const uint64_t high = static_cast<uint64_t>(value) << shift;
  if (is_unsigned(type)) return static_cast<int64_t>(high >> shift);
  return static_cast<int64_t>(high) >> shift;
}

int64_t double_to_integer(DType type, double value) {
  if (type == DType::kBool) return value != 0;
  if (std::isnan(value)) return 0;
  const int bits = bit_width(type);
  if (is_unsigned(type)) {
    const uint64_t largest = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    if (value <= 0) return 0;
    if (value >= std::ldexp(1.0, bits)) return static_cast<int64_t>(largest);
    return static_cast<int64_t>(static_cast<uint64_t>(value));
  }
  const int64_t largest = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  if (value >= std::ldexp(1.0, bits - 1)) return largest;
  if (value < -std::ldexp(1.0, bits - 1)) return -largest - 1;
  return static_cast<int64_t>(value);
}

double integer_to_double(DType type, int64_t value) {
  if (type == DType::kUint64) return static_cast<double>(static_cast<uint64_t>(value));
  return static_cast<double>(value);
}

}  // namespace graft
