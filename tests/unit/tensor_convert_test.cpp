// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/convert.h"
#include "base/random.h"

namespace graft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kSmallFloats[] = {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2,
                                  DType::kFloat8E5M2FNUZ, DType::kFloat4E2M1};

/// All finite non-negative values of a type of at most 16 bits, in the order of their codes.
std::vector<double> finite_values(DType type) {
  std::vector<double> values;
  for (uint64_t code = 0; code < (uint64_t{1} << (bit_width(type) - 1)); ++code) {
    const double value = decode_float(type, code);
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

/// Nearest of `values` by comparing distances, ties to the even code; what encode_float must agree with.
double nearest(const std::vector<double>& values, double x) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const double here = std::fabs(values[i] - x), before = std::fabs(values[best] - x);
    if (here < before || (here == before && i % 2 == 0)) best = i;
  }
  return values[best];
}

TEST(Convert, known_codes_have_their_published_values) {
  EXPECT_EQ(decode_float(DType::kFloat8E4M3FN, 0x7e), 448);
  EXPECT_EQ(decode_float(DType::kFloat8E4M3FN, 0x01), 0x1p-9);
  EXPECT_TRUE(std::isnan(decode_float(DType::kFloat8E4M3FN, 0x7f)));
  EXPECT_EQ(decode_float(DType::kFloat8E4M3FNUZ, 0x7f), 240);
  EXPECT_TRUE(std::isnan(decode_float(DType::kFloat8E4M3FNUZ, 0x80)));
  EXPECT_EQ(decode_float(DType::kFloat8E5M2, 0x7b), 57344);
  EXPECT_EQ(decode_float(DType::kFloat8E5M2, 0xfc), -kInfinity);
  EXPECT_EQ(decode_float(DType::kFloat8E5M2FNUZ, 0x7f), 57344);
  EXPECT_EQ(decode_float(DType::kFloat4E2M1, 0x7), 6);
  EXPECT_EQ(decode_float(DType::kFloat4E2M1, 0x9), -0.5);
  EXPECT_EQ(decode_float(DType::kFloat8E8M0, 0), 0x1p-127);
  EXPECT_EQ(decode_float(DType::kFloat16, 0x3555), 0.333251953125);
  EXPECT_EQ(decode_float(DType::kFloat16, 0x7bff), 65504);
  EXPECT_EQ(decode_float(DType::kBFloat16, 0x4049), 3.140625);
}

TEST(Convert, every_code_of_every_narrow_float_reads_back) {
  for (const DType type : {DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ,
                           DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ, DType::kFloat4E2M1, DType::kFloat8E8M0}) {
    for (uint64_t code = 0; code < (uint64_t{1} << bit_width(type)); ++code) {
      const double value = decode_float(type, code);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(decode_float(type, encode_float(type, value)))) << name_of(type) << " " << code;
      } else {
        EXPECT_EQ(encode_float(type, value, false), code) << name_of(type) << " " << value;
      }
    }
  }
}

TEST(Convert, rounds_to_the_nearest_value_with_ties_to_even) {
  for (const DType type : kSmallFloats) {
    const std::vector<double> values = finite_values(type);
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      const double middle = (values[i] + values[i + 1]) / 2;
      for (const double x : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, kInfinity)}) {
        EXPECT_EQ(round_to_float(type, x), nearest(values, x)) << name_of(type) << " " << x;
      }
    }
  }
}

TEST(Convert, half_precision_rounds_once_even_from_double) {
  for (const DType type : {DType::kFloat16, DType::kBFloat16}) {
    Random random(7);
    for (int i = 0; i < 20000; ++i) {
      const uint64_t code = static_cast<uint64_t>(random.integer(0, type == DType::kFloat16 ? 0x7bfe : 0x7f7e));
      const double low = decode_float(type, code), high = decode_float(type, code + 1);
      const double middle = low + (high - low) / 2;
      EXPECT_EQ(encode_float(type, middle), code + code % 2);
      EXPECT_EQ(encode_float(type, std::nextafter(middle, 0.0)), code);
      EXPECT_EQ(encode_float(type, std::nextafter(middle, kInfinity)), code + 1);
    }
  }
}

TEST(Convert, overflow_follows_the_saturate_flag) {
  for (const DType type : kSmallFloats) {
    const double largest = finite_values(type).back();
    for (const double x : {largest * 2, 1e300, kInfinity}) {
      EXPECT_EQ(decode_float(type, encode_float(type, x, true)), largest) << name_of(type);
      EXPECT_EQ(decode_float(type, encode_float(type, -x, true)), -largest) << name_of(type);
    }
  }
  EXPECT_EQ(decode_float(DType::kFloat8E5M2, encode_float(DType::kFloat8E5M2, 1e9, false)), kInfinity);
  EXPECT_TRUE(std::isnan(decode_float(DType::kFloat8E4M3FN, encode_float(DType::kFloat8E4M3FN, 465, false))));
  EXPECT_EQ(decode_float(DType::kFloat8E4M3FN, encode_float(DType::kFloat8E4M3FN, 464, false)), 448);
  EXPECT_EQ(encode_float(DType::kFloat8E4M3FNUZ, -1e9, false), 0x80u);
  EXPECT_EQ(decode_float(DType::kFloat4E2M1, encode_float(DType::kFloat4E2M1, 1e9, false)), 6);
  EXPECT_EQ(round_to_float(DType::kFloat16, 65520), kInfinity);
  EXPECT_EQ(round_to_float(DType::kFloat16, 65519), 65504);
  EXPECT_EQ(round_to_float(DType::kBFloat16, 1e300), kInfinity);
}

TEST(Convert, nan_and_negative_zero_survive_where_the_format_has_them) {
  for (const DType type : {DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ,
                           DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ, DType::kFloat8E8M0}) {
    EXPECT_TRUE(std::isnan(round_to_float(type, kNan))) << name_of(type);
  }
  EXPECT_TRUE(std::signbit(round_to_float(DType::kFloat8E4M3FN, -0.0)));
  EXPECT_FALSE(std::signbit(round_to_float(DType::kFloat8E4M3FNUZ, -0.0)));
  EXPECT_EQ(encode_float(DType::kFloat8E5M2FNUZ, -1e-30), 0u);
  EXPECT_EQ(encode_float(DType::kFloat4E2M1, kNan), 0x8u);
}

TEST(Convert, powers_of_two_round_as_asked) {
  EXPECT_EQ(float_to_f8e8m0(3.0f, PowerRounding::kUp), 129);
  EXPECT_EQ(float_to_f8e8m0(3.0f, PowerRounding::kDown), 128);
  EXPECT_EQ(float_to_f8e8m0(2.9f, PowerRounding::kNearest), 128);
  EXPECT_EQ(float_to_f8e8m0(3.1f, PowerRounding::kNearest), 129);
  EXPECT_EQ(float_to_f8e8m0(-4.0f, PowerRounding::kUp), 129);
  EXPECT_EQ(float_to_f8e8m0(3e38f, PowerRounding::kUp, true), 254);
  EXPECT_EQ(float_to_f8e8m0(3e38f, PowerRounding::kUp, false), 255);
  EXPECT_EQ(float_to_f8e8m0(std::numeric_limits<float>::infinity(), PowerRounding::kUp), 255);
}

TEST(Convert, bulk_conversions_agree_with_single_ones) {
  std::vector<float> floats;
  Random random(11);
  for (int i = 0; i < 5000; ++i) floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(random.next())));
  std::vector<uint16_t> halves(floats.size()), brains(floats.size());
  floats_to_f16(floats, halves.data());
  floats_to_bf16(floats, brains.data());
  std::vector<float> back(floats.size());
  f16_to_floats(halves, back.data());
  for (size_t i = 0; i < floats.size(); ++i) {
    EXPECT_EQ(halves[i], float_to_f16(floats[i]));
    EXPECT_EQ(brains[i], float_to_bf16(floats[i]));
    if (!std::isnan(floats[i])) {
      EXPECT_EQ(static_cast<double>(back[i]), round_to_float(DType::kFloat16, floats[i]));
    }
  }
}

TEST(Convert, floats_become_integers_towards_zero_and_saturate) {
  EXPECT_EQ(double_to_integer(DType::kInt8, -1.9), -1);
  EXPECT_EQ(double_to_integer(DType::kInt8, 300), 127);
  EXPECT_EQ(double_to_integer(DType::kInt4, -100), -8);
  EXPECT_EQ(double_to_integer(DType::kUint8, -3), 0);
  EXPECT_EQ(double_to_integer(DType::kUint64, 1e30), -1);  // the bits of the largest
  EXPECT_EQ(double_to_integer(DType::kInt64, kInfinity), INT64_MAX);
  EXPECT_EQ(double_to_integer(DType::kInt64, -kInfinity), INT64_MIN);
  EXPECT_EQ(double_to_integer(DType::kInt32, kNan), 0);
  EXPECT_EQ(double_to_integer(DType::kBool, 0.25), 1);
}

TEST(Convert, integers_wrap_to_their_width) {
  EXPECT_EQ(wrap_integer(DType::kInt8, 200), -56);
  EXPECT_EQ(wrap_integer(DType::kUint8, -1), 255);
  EXPECT_EQ(wrap_integer(DType::kInt4, 8), -8);
  EXPECT_EQ(wrap_integer(DType::kUint2, 7), 3);
  EXPECT_EQ(wrap_integer(DType::kBool, 2), 1);
  EXPECT_EQ(integer_to_double(DType::kUint64, -1), 0x1p64);
}

}  // namespace
}  // namespace graft
