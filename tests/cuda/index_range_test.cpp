// SPDX-License-Identifier: Apache-2.0
// What is claimed of an index holds for all values of its operands.
#include "codegen/cuda/index_range.h"

#include <algorithm>
#include <optional>

#include <gtest/gtest.h>

#include "base/random.h"

namespace graft::cuda {
namespace {

constexpr Intrinsic kPairs[] = {Intrinsic::kAdd, Intrinsic::kSub, Intrinsic::kMul, Intrinsic::kFloorDiv,
                                Intrinsic::kDiv, Intrinsic::kRem, Intrinsic::kMod, Intrinsic::kMin,
                                Intrinsic::kMax};

int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

/// The value by the rules of intrinsics.inc; division by zero gives 0.
int64_t value_of(Intrinsic intrinsic, int64_t a, int64_t b) {
  switch (intrinsic) {
    case Intrinsic::kAdd: return a + b;
    case Intrinsic::kSub: return a - b;
    case Intrinsic::kMul: return a * b;
    case Intrinsic::kMin: return std::min(a, b);
    case Intrinsic::kMax: return std::max(a, b);
    case Intrinsic::kFloorDiv: return b == 0 ? 0 : floor_quotient(a, b);
    case Intrinsic::kDiv: return b == 0 ? 0 : a / b;
    case Intrinsic::kRem: return b == 0 ? 0 : a % b;
    default: return b == 0 ? 0 : a - floor_quotient(a, b) * b;
  }
}

Range drawn(Random& random) {
  const int64_t a = random.integer(-9, 9), b = random.integer(-9, 9);
  return {std::min(a, b), std::max(a, b)};
}

void expect_in(const Range& range, int64_t value) {
  EXPECT_LE(range.low, value);
  EXPECT_GE(range.high, value);
}

TEST(IndexRange, holds_every_value_of_two_operands) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const Range a = drawn(random), b = drawn(random);
    for (const Intrinsic intrinsic : kPairs) {
      const Range range = range_of(intrinsic, {a, b});
      for (int64_t x = a.low; x <= a.high; ++x) {
        for (int64_t y = b.low; y <= b.high; ++y) expect_in(range, value_of(intrinsic, x, y));
      }
    }
  }
}

TEST(IndexRange, holds_every_value_of_one_operand_and_is_no_wider) {
  for (const auto& [from, absolute] : {std::pair(Range{-3, 5}, Range{0, 5}), std::pair(Range{-7, 5}, Range{0, 7}),
                                       std::pair(Range{2, 5}, Range{2, 5}), std::pair(Range{-5, -2}, Range{2, 5})}) {
    EXPECT_EQ(range_of(Intrinsic::kAbs, {from}), absolute);
    EXPECT_EQ(range_of(Intrinsic::kNeg, {from}), (Range{-from.high, -from.low}));
  }
  EXPECT_EQ(range_of(Intrinsic::kSelect, {{0, 1}, {3, 4}, {-2, 3}}), (Range{-2, 4}));
}

TEST(IndexRange, is_as_narrow_as_positive_operands_make_it) {
  const Range a{0, 20}, b{2, 4};
  EXPECT_EQ(range_of(Intrinsic::kFloorDiv, {a, b}), (Range{0, 10}));
  EXPECT_EQ(range_of(Intrinsic::kDiv, {a, b}), (Range{0, 10}));
  EXPECT_EQ(range_of(Intrinsic::kRem, {a, b}), (Range{0, 3}));
  EXPECT_EQ(range_of(Intrinsic::kMod, {{-5, 20}, b}), (Range{0, 3}));
  EXPECT_EQ(range_of(Intrinsic::kCheckIndex, {{-5, 20}, b}), (Range{0, 3}));
  EXPECT_EQ(range_of(Intrinsic::kCheckDivisor, {b}), b);
  EXPECT_EQ(range_of(Intrinsic::kMul, {{-3, 2}, b}), (Range{-12, 8}));
}

TEST(IndexRange, is_unknown_where_arithmetic_may_wrap) {
  const Range any, large{0, int64_t{1} << 40};
  for (const Intrinsic intrinsic : {Intrinsic::kAdd, Intrinsic::kSub, Intrinsic::kMul}) {
    EXPECT_EQ(range_of(intrinsic, {any, {1, 2}}), any);
    EXPECT_EQ(range_of(intrinsic, {{1, 2}, large}), any);
  }
  for (const Intrinsic intrinsic : {Intrinsic::kAbs, Intrinsic::kNeg}) EXPECT_EQ(range_of(intrinsic, {any}), any);
  EXPECT_FALSE(range_of(Intrinsic::kMod, {{0, 5}, large}).fits_int());
}

}  // namespace
}  // namespace graft::cuda
