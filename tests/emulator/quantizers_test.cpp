// SPDX-License-Identifier: Apache-2.0
// Codes of emulated GPUs are those of a correctly rounded quotient: at ties and their neighbours, for values and scales
// at the ends of the range of f32, and for scales that make the quotient nearly the middle of two floats.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "emulator/gpu_run.h"

namespace graft {
namespace {

constexpr int64_t kValues = 4096;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

float next(float x, int steps) { return std::bit_cast<float>(std::bit_cast<int32_t>(x) + steps); }

/// Values around all ties of codes, and others of any size.
std::vector<float> values_around_ties(float scale, std::mt19937& random) {
  std::vector<float> values = {0.0F, -0.0F, kInf, -kInf, kNan, 1e-45F, -1e-40F, 3.4e38F, -3.4e38F};
  for (int half = -520; half <= 520 && values.size() + 3 < kValues; ++half) {
    const auto tie = static_cast<float>(half * 0.5 * static_cast<double>(scale));
    for (const int steps : {-1, 0, 1}) values.push_back(next(tie, tie == 0 ? 0 : steps));
  }
  while (values.size() < kValues) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  return values;
}

/// Scales and values whose quotient lies within 2^-48 of it beside the middle between a tie and the next float: a scale
/// times the middle, an integer of 25 bits, is 1 more or less than a multiple of 2^24.
std::vector<std::pair<float, float>> nearly_halfway() {
  std::vector<std::pair<float, float>> found;
  for (uint64_t half = 1; half < 512; half += 2) {
    const int exponent = std::bit_width(half) - 2;  // of half / 2
    for (const int side : {-1, 1}) {
      const uint64_t middle = (half << (23 - exponent)) + static_cast<uint64_t>(side);
      uint64_t inverse = 1;
      for (int i = 0; i < 6; ++i) inverse *= 2 - middle * inverse;
      for (const int rest : {-1, 1}) {
        const uint64_t scale = inverse * static_cast<uint64_t>(rest) & 0xffffff;
        const uint64_t product = middle * scale - static_cast<uint64_t>(rest);
        if (scale < 1 << 23 || product >> 24 << 24 != product) continue;
        found.emplace_back(std::ldexp(static_cast<float>(scale), -24),
                           static_cast<float>(std::ldexp(static_cast<double>(product), exponent - 24 - 24)));
      }
    }
  }
  return found;
}

/// The codes of `values`, and what they stand for, on a GPU as in the interpreter.
void expect_same_codes(const std::string& type, float scale, int zero, const std::vector<float>& values) {
  for (const char* output : {"codes", "near"}) {  // alone, codes that nobody else reads are no integers
    SCOPED_TRACE(fmt::format("{} of {} by {} from {}", output, type, scale, zero));
    GpuCase here(fmt::format(R"(graph "quantizers" {{
  input %x: f32[{}]
  input %scale: f32[]
  constant %zero: {}[] = {{{}}}
  constant %one: f32[] = {{1}}
  %codes: ? = QuantizeLinear "codes" (%x, %scale, %zero)
  %near: ? = DequantizeLinear "near" (%codes, %one, %zero)
  output %{}
}})",
                             kValues, type, zero, output),
                 {});
    here.replace("x", TensorData::from_values<float>(DType::kFloat32, {kValues}, values));
    here.replace("scale", TensorData::from_values<float>(DType::kFloat32, {}, {scale}));
    const std::vector<TensorData> actual = here.run("sm_80", "", "");
    ASSERT_EQ(actual.size(), 1U);
    EXPECT_EQ(here.difference(actual), 0);
  }
}

TEST(Quantizers, codes_are_those_of_the_rounded_quotient) {
  std::mt19937 random(7);
  const std::pair<const char*, int> zeros[] = {{"u8", 0}, {"u8", 131}, {"i8", 0}, {"i8", -128}};
  for (const auto& [type, zero] : zeros) {
    for (const float scale : {0.1F, next(2.0F, -1) / 256, 0.0123F, 3e-39F, 2e-18F, 7e37F, 0.5F}) {
      expect_same_codes(type, scale, zero, values_around_ties(scale, random));
    }
  }
}

TEST(Quantizers, scales_that_are_none_give_what_the_quotient_gives) {
  std::mt19937 random(8);
  for (const char* type : {"u8", "i8"}) {
    for (const float scale : {0.0F, kInf, kNan, -0.25F}) {
      expect_same_codes(type, scale, 3, values_around_ties(0.25F, random));
    }
  }
}

TEST(Quantizers, quotients_beside_the_middle_of_two_floats) {
  const std::vector<std::pair<float, float>> all = nearly_halfway();
  ASSERT_GT(all.size(), 100U);
  for (size_t i = 0; i < all.size(); i += all.size() / 24) {
    const auto& [scale, value] = all[i];
    std::vector<float> values(kValues, 0);
    for (size_t k = 0; k < values.size(); ++k) {
      const int steps = static_cast<int>(k % 5) - 2, exponent = static_cast<int>(k / 5 % 3) - 1;
      values[k] = std::ldexp(next(value, steps), exponent);
    }
    expect_same_codes("u8", scale, 0, values);
  }
}

}  // namespace
}  // namespace graft
