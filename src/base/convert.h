// SPDX-License-Identifier: Apache-2.0
// Conversions between numbers and the bits of every element type: what a store, a cast and a file mean.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace graft {

// Narrowing rounds to nearest, ties to even, with denormals kept and NaN staying NaN. What lies beyond the largest
// finite value follows ONNX Cast: f16 and bf16 become inf; the float8 types clamp to their largest value when
// `saturate`, and otherwise become inf (f8e5m2) or NaN; f4e2m1 always clamps and turns NaN into -0.

uint16_t float_to_f16(float value);
float f16_to_float(uint16_t bits);
uint16_t float_to_bf16(float value);
float bf16_to_float(uint16_t bits);
void floats_to_f16(std::span<const float> values, uint16_t* bits);
void f16_to_floats(std::span<const uint16_t> bits, float* values);
void floats_to_bf16(std::span<const float> values, uint16_t* bits);
void bf16_to_floats(std::span<const uint16_t> bits, float* values);

/// How f8e8m0, which has powers of two only, takes the values between them (ONNX Cast's `round_mode`).
enum class PowerRounding : uint8_t { kNearest, kUp, kDown };
/// The exponent byte: the sign is dropped, zero becomes 2^-127, inf and NaN become NaN.
uint8_t float_to_f8e8m0(float value, PowerRounding rounding, bool saturate = true);

/// The bits of `value` in the float type `type` with a single rounding; f8e8m0 rounds to the nearest power.
uint64_t encode_float(DType type, double value, bool saturate = true);
/// The exact value that `bits` stand for in the float type `type`.
double decode_float(DType type, uint64_t bits);
/// `value` rounded to what the float type `type` can hold.
double round_to_float(DType type, double value);

/// `value` wrapped (two's complement) to the width of an integer type; bool becomes 0 or 1.
int64_t wrap_integer(DType type, int64_t value);
/// Towards zero, saturating, NaN gives 0; for bool `value != 0`. Bits of u64 are kept in the int64.
int64_t double_to_integer(DType type, double value);
/// The number that an element kept as int64 stands for (u64 is unsigned).
double integer_to_double(DType type, int64_t value);

}  // namespace graft
