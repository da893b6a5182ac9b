// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "expr/evaluate.h"

namespace graft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double real(Intrinsic f, std::initializer_list<double> args) {
  std::vector<Scalar> scalars;
  for (const double x : args) scalars.push_back({x, 0});
  return evaluate_scalar(f, DType::kFloat32, DType::kFloat32, scalars).real;
}
int64_t predicate(Intrinsic f, std::initializer_list<double> args) {
  std::vector<Scalar> scalars;
  for (const double x : args) scalars.push_back({x, 0});
  return evaluate_scalar(f, DType::kFloat32, DType::kBool, scalars).integer;
}
int64_t whole(Intrinsic f, DType type, std::initializer_list<int64_t> args) {
  std::vector<Scalar> scalars;
  for (const int64_t x : args) scalars.push_back({0, x});
  return evaluate_scalar(f, type, type, scalars).integer;
}
int64_t to_integer(DType from, DType to, double real, int64_t integer) {
  const Scalar args[] = {{real, integer}};
  return evaluate_scalar(Intrinsic::kCast, from, to, args).integer;
}
double to_real(Intrinsic f, DType from, DType to, double real, int64_t integer) {
  const Scalar args[] = {{real, integer}};
  return evaluate_scalar(f, from, to, args).real;
}

TEST(Evaluate, integer_arithmetic_wraps) {
  EXPECT_EQ(whole(Intrinsic::kAdd, DType::kInt8, {127, 1}), -128);
  EXPECT_EQ(whole(Intrinsic::kSub, DType::kUint8, {0, 1}), 255);
  EXPECT_EQ(whole(Intrinsic::kMul, DType::kInt32, {1 << 20, 1 << 20}), 0);
  EXPECT_EQ(whole(Intrinsic::kAdd, DType::kInt64, {INT64_MAX, 1}), INT64_MIN);
  EXPECT_EQ(whole(Intrinsic::kNeg, DType::kInt32, {INT32_MIN}), INT32_MIN);
  EXPECT_EQ(whole(Intrinsic::kAbs, DType::kInt64, {INT64_MIN}), INT64_MIN);
  EXPECT_EQ(whole(Intrinsic::kNeg, DType::kUint16, {1}), 65535);
}

TEST(Evaluate, integer_division_is_total) {
  EXPECT_EQ(whole(Intrinsic::kDiv, DType::kInt32, {-7, 2}), -3);
  EXPECT_EQ(whole(Intrinsic::kDiv, DType::kInt32, {7, 0}), 0);
  EXPECT_EQ(whole(Intrinsic::kDiv, DType::kInt32, {INT32_MIN, -1}), INT32_MIN);
  EXPECT_EQ(whole(Intrinsic::kDiv, DType::kInt64, {INT64_MIN, -1}), INT64_MIN);
  EXPECT_EQ(whole(Intrinsic::kFloorDiv, DType::kInt32, {-7, 2}), -4);
  EXPECT_EQ(whole(Intrinsic::kFloorDiv, DType::kInt32, {-7, 0}), 0);
  EXPECT_EQ(whole(Intrinsic::kRem, DType::kInt32, {-7, 3}), -1);
  EXPECT_EQ(whole(Intrinsic::kMod, DType::kInt32, {-7, 3}), 2);
  EXPECT_EQ(whole(Intrinsic::kMod, DType::kInt32, {7, -3}), -2);
  EXPECT_EQ(whole(Intrinsic::kMod, DType::kInt64, {INT64_MIN, -1}), 0);
  EXPECT_EQ(whole(Intrinsic::kMod, DType::kInt32, {7, 0}), 0);
  EXPECT_EQ(whole(Intrinsic::kDiv, DType::kUint64, {-1, 2}), INT64_MAX);
}

TEST(Evaluate, unsigned_64_bit_values_compare_as_large) {
  EXPECT_EQ(whole(Intrinsic::kMax, DType::kUint64, {-1, 1}), -1);
  EXPECT_EQ(whole(Intrinsic::kMin, DType::kInt64, {-1, 1}), -1);
  const Scalar args[] = {{0, 1}, {0, -1}};
  EXPECT_EQ(evaluate_scalar(Intrinsic::kLt, DType::kUint64, DType::kBool, args).integer, 1);
  EXPECT_EQ(evaluate_scalar(Intrinsic::kLt, DType::kInt64, DType::kBool, args).integer, 0);
}

TEST(Evaluate, integer_powers_wrap_and_negative_exponents_vanish) {
  EXPECT_EQ(whole(Intrinsic::kPow, DType::kInt32, {3, 4}), 81);
  EXPECT_EQ(whole(Intrinsic::kPow, DType::kInt32, {2, 32}), 0);
  EXPECT_EQ(whole(Intrinsic::kPow, DType::kInt32, {2, -1}), 0);
  EXPECT_EQ(whole(Intrinsic::kPow, DType::kInt32, {-1, -3}), -1);
  EXPECT_EQ(whole(Intrinsic::kPow, DType::kInt32, {-1, -4}), 1);
  EXPECT_EQ(whole(Intrinsic::kPow, DType::kInt32, {1, -9}), 1);
  EXPECT_EQ(whole(Intrinsic::kPow, DType::kInt32, {0, 0}), 1);
}

TEST(Evaluate, shifts_by_the_width_or_more_leave_no_bits) {
  EXPECT_EQ(whole(Intrinsic::kShl, DType::kInt32, {1, 31}), INT32_MIN);
  EXPECT_EQ(whole(Intrinsic::kShl, DType::kInt32, {1, 32}), 0);
  EXPECT_EQ(whole(Intrinsic::kShl, DType::kUint8, {1, 64}), 0);
  EXPECT_EQ(whole(Intrinsic::kShr, DType::kInt32, {-8, 1}), -4);
  EXPECT_EQ(whole(Intrinsic::kShr, DType::kInt32, {-8, 40}), -1);
  EXPECT_EQ(whole(Intrinsic::kShr, DType::kInt32, {8, 40}), 0);
  EXPECT_EQ(whole(Intrinsic::kShr, DType::kUint64, {-1, 63}), 1);
  EXPECT_EQ(whole(Intrinsic::kShr, DType::kUint64, {-1, 64}), 0);
}

TEST(Evaluate, logic_is_bitwise_for_integers_and_logical_for_bool) {
  EXPECT_EQ(whole(Intrinsic::kAnd, DType::kInt32, {6, 3}), 2);
  EXPECT_EQ(whole(Intrinsic::kOr, DType::kInt32, {6, 3}), 7);
  EXPECT_EQ(whole(Intrinsic::kXor, DType::kBool, {1, 1}), 0);
  EXPECT_EQ(whole(Intrinsic::kNot, DType::kUint8, {1}), 254);
  EXPECT_EQ(whole(Intrinsic::kNot, DType::kBool, {1}), 0);
}

TEST(Evaluate, nan_spreads_through_min_and_max_and_fails_comparisons) {
  EXPECT_TRUE(std::isnan(real(Intrinsic::kMin, {kNan, 1})));
  EXPECT_TRUE(std::isnan(real(Intrinsic::kMax, {1, kNan})));
  EXPECT_EQ(real(Intrinsic::kMax, {-kInfinity, 1}), 1);
  for (const Intrinsic f : {Intrinsic::kEq, Intrinsic::kLt, Intrinsic::kLe, Intrinsic::kGt, Intrinsic::kGe}) {
    EXPECT_EQ(predicate(f, {kNan, 1}), 0);
    EXPECT_EQ(predicate(f, {1, kNan}), 0);
  }
  EXPECT_EQ(predicate(Intrinsic::kNe, {kNan, kNan}), 1);
  EXPECT_EQ(predicate(Intrinsic::kEq, {0.0, -0.0}), 1);
  EXPECT_EQ(predicate(Intrinsic::kIsNan, {kNan}), 1);
  EXPECT_EQ(predicate(Intrinsic::kIsInf, {-kInfinity}), 1);
  EXPECT_EQ(predicate(Intrinsic::kIsInf, {kNan}), 0);
}

TEST(Evaluate, float_division_and_remainders_follow_their_signs) {
  EXPECT_EQ(real(Intrinsic::kDiv, {1, 0}), kInfinity);
  EXPECT_EQ(real(Intrinsic::kDiv, {-1, 0}), -kInfinity);
  EXPECT_TRUE(std::isnan(real(Intrinsic::kDiv, {0, 0})));
  EXPECT_EQ(real(Intrinsic::kFloorDiv, {-7, 2}), -4);
  EXPECT_EQ(real(Intrinsic::kRem, {-7, 3}), -1);
  EXPECT_EQ(real(Intrinsic::kMod, {-7, 3}), 2);
  EXPECT_TRUE(std::isnan(real(Intrinsic::kRem, {1, 0})));
  EXPECT_TRUE(std::isnan(real(Intrinsic::kMod, {1, 0})));
}

TEST(Evaluate, functions_have_the_limits_that_the_table_states) {
  EXPECT_EQ(real(Intrinsic::kExp, {1000}), kInfinity);
  EXPECT_EQ(real(Intrinsic::kExp, {-kInfinity}), 0);
  EXPECT_EQ(real(Intrinsic::kLog, {0}), -kInfinity);
  EXPECT_TRUE(std::isnan(real(Intrinsic::kLog, {-1})));
  EXPECT_TRUE(std::isnan(real(Intrinsic::kSqrt, {-1})));
  EXPECT_TRUE(std::isnan(real(Intrinsic::kSin, {kInfinity})));
  EXPECT_TRUE(std::isnan(real(Intrinsic::kCos, {kInfinity})));
  EXPECT_EQ(real(Intrinsic::kTanh, {100}), 1);
  EXPECT_EQ(real(Intrinsic::kErf, {-100}), -1);
  EXPECT_EQ(real(Intrinsic::kAtanh, {1}), kInfinity);
  EXPECT_EQ(real(Intrinsic::kRound, {2.5}), 2);
  EXPECT_EQ(real(Intrinsic::kRound, {-3.5}), -4);
  EXPECT_EQ(real(Intrinsic::kTrunc, {-3.5}), -3);
  EXPECT_EQ(real(Intrinsic::kFma, {0x1p53, 1 + 0x1p-52, -0x1p53}), 2);
}

TEST(Evaluate, casts_round_saturate_and_wrap_as_the_table_states) {
  EXPECT_EQ(to_integer(DType::kFloat32, DType::kInt8, 1e9, 0), 127);
  EXPECT_EQ(to_integer(DType::kFloat32, DType::kUint8, -5, 0), 0);
  EXPECT_EQ(to_integer(DType::kFloat32, DType::kInt32, kNan, 0), 0);
  EXPECT_EQ(to_integer(DType::kFloat32, DType::kInt32, -1.9, 0), -1);
  EXPECT_EQ(to_integer(DType::kInt32, DType::kInt8, 0, 300), 44);
  EXPECT_EQ(to_integer(DType::kInt32, DType::kBool, 0, -2), 1);
  EXPECT_EQ(to_integer(DType::kFloat32, DType::kBool, kNan, 0), 1);
  EXPECT_EQ(to_real(Intrinsic::kCast, DType::kInt32, DType::kFloat32, 0, 16777217), 16777216);
  EXPECT_EQ(to_real(Intrinsic::kCast, DType::kUint64, DType::kFloat32, 0, -1), 0x1p64);
  EXPECT_EQ(to_real(Intrinsic::kCast, DType::kFloat64, DType::kFloat32, 1e300, 0), kInfinity);
  EXPECT_EQ(to_real(Intrinsic::kCast, DType::kFloat32, DType::kFloat8E4M3FN, 1e9, 0), 448);
  EXPECT_EQ(to_real(Intrinsic::kCast, DType::kFloat32, DType::kFloat16, 2049, 0), 2048);
}

TEST(Evaluate, bitcast_keeps_the_bits) {
  const Scalar one[] = {{1.0, 0}};
  EXPECT_EQ(evaluate_scalar(Intrinsic::kBitcast, DType::kFloat32, DType::kInt32, one).integer, 0x3f800000);
  EXPECT_EQ(to_real(Intrinsic::kBitcast, DType::kInt32, DType::kFloat32, 0, static_cast<int32_t>(0xbf800000)), -1);
  EXPECT_EQ(to_integer(DType::kInt64, DType::kInt64, 0, -5), -5);
  const Scalar minus[] = {{0, -1}};
  EXPECT_EQ(evaluate_scalar(Intrinsic::kBitcast, DType::kInt8, DType::kUint8, minus).integer, 255);
}

TEST(Evaluate, select_and_checks_pick_their_operand) {
  const Scalar args[] = {{0, 1}, {2.5, 0}, {3.5, 0}};
  EXPECT_EQ(evaluate_scalar(Intrinsic::kSelect, DType::kFloat32, DType::kFloat32, args).real, 2.5);
  EXPECT_EQ(whole(Intrinsic::kCheckIndex, DType::kInt64, {3, 4}), 3);
  EXPECT_EQ(whole(Intrinsic::kCheckIndex, DType::kInt64, {4, 4}), 0);
  EXPECT_EQ(whole(Intrinsic::kCheckIndex, DType::kInt64, {-1, 4}), 0);
  EXPECT_EQ(whole(Intrinsic::kCheckDivisor, DType::kInt32, {-7}), -7);
}

struct Case {
  Intrinsic intrinsic;
  DType type;
  std::vector<double> args;
  double expected;
};

/// One value per row, computed by another implementation of mathematics (Python's).
const Case kCases[] = {
    {Intrinsic::kAdd, DType::kFloat32, {0.7182818, -0.3141592}, 0.40412259999999994},
    {Intrinsic::kSub, DType::kFloat32, {0.7182818, -0.3141592}, 1.032441},
    {Intrinsic::kMul, DType::kFloat32, {0.7182818, -0.3141592}, -0.22565483566256},
    {Intrinsic::kDiv, DType::kFloat32, {0.7182818, -0.3141592}, -2.2863624557230855},
    {Intrinsic::kFloorDiv, DType::kFloat32, {0.7182818, -0.3141592}, -3.0},
    {Intrinsic::kRem, DType::kFloat32, {0.7182818, -0.3141592}, 0.08996339999999992},
    {Intrinsic::kMod, DType::kFloat32, {0.7182818, -0.3141592}, -0.2241958000000001},
    {Intrinsic::kMin, DType::kFloat32, {0.7182818, -0.3141592}, -0.3141592},
    {Intrinsic::kMax, DType::kFloat32, {0.7182818, -0.3141592}, 0.7182818},
    {Intrinsic::kPow, DType::kFloat32, {1.4142135, -0.3141592}, 0.8968386880838545},
    {Intrinsic::kFma, DType::kFloat32, {0.7182818, -0.3141592, 1.4142135}, 1.18855866433744},
    {Intrinsic::kNeg, DType::kFloat32, {0.7182818}, -0.7182818},
    {Intrinsic::kAbs, DType::kFloat32, {-0.3141592}, 0.3141592},
    {Intrinsic::kSqrt, DType::kFloat32, {0.7182818}, 0.8475150736122632},
    {Intrinsic::kExp, DType::kFloat32, {0.7182818}, 2.050906314325665},
    {Intrinsic::kExp2, DType::kFloat32, {0.7182818}, 1.6452214653003363},
    {Intrinsic::kLog, DType::kFloat32, {0.7182818}, -0.3308933078250566},
    {Intrinsic::kLog1p, DType::kFloat32, {0.7182818}, 0.5413248380504165},
    {Intrinsic::kExpm1, DType::kFloat32, {0.7182818}, 1.050906314325665},
    {Intrinsic::kErf, DType::kFloat32, {0.7182818}, 0.6902772039715379},
    {Intrinsic::kSin, DType::kFloat32, {0.7182818}, 0.6580919466820703},
    {Intrinsic::kCos, DType::kFloat32, {0.7182818}, 0.752937573582434},
    {Intrinsic::kTan, DType::kFloat32, {0.7182818}, 0.8740325490078898},
    {Intrinsic::kAsin, DType::kFloat32, {0.7182818}, 0.8013296031858909},
    {Intrinsic::kAcos, DType::kFloat32, {0.7182818}, 0.7694667236090057},
    {Intrinsic::kAtan, DType::kFloat32, {0.7182818}, 0.6228905448789404},
    {Intrinsic::kSinh, DType::kFloat32, {0.7182818}, 0.781658500865039},
    {Intrinsic::kCosh, DType::kFloat32, {0.7182818}, 1.269247813460626},
    {Intrinsic::kTanh, DType::kFloat32, {0.7182818}, 0.6158438821602801},
    {Intrinsic::kAsinh, DType::kFloat32, {0.7182818}, 0.6675792804090357},
    {Intrinsic::kAcosh, DType::kFloat32, {1.4142135}, 0.8813735246464452},
    {Intrinsic::kAtanh, DType::kFloat32, {0.7182818}, 0.9040864182492437},
    {Intrinsic::kFloor, DType::kFloat32, {-1.5}, -2.0},
    {Intrinsic::kCeil, DType::kFloat32, {-1.5}, -1.0},
    {Intrinsic::kTrunc, DType::kFloat32, {-1.5}, -1.0},
    {Intrinsic::kRound, DType::kFloat32, {1.5}, 2.0},
    {Intrinsic::kIsNan, DType::kFloat32, {0.7182818}, 0.0},
    {Intrinsic::kIsInf, DType::kFloat32, {0.7182818}, 0.0},
    {Intrinsic::kEq, DType::kFloat32, {0.7182818, -0.3141592}, 0.0},
    {Intrinsic::kNe, DType::kFloat32, {0.7182818, -0.3141592}, 1.0},
    {Intrinsic::kLt, DType::kFloat32, {0.7182818, -0.3141592}, 0.0},
    {Intrinsic::kLe, DType::kFloat32, {0.7182818, -0.3141592}, 0.0},
    {Intrinsic::kGt, DType::kFloat32, {0.7182818, -0.3141592}, 1.0},
    {Intrinsic::kGe, DType::kFloat32, {0.7182818, -0.3141592}, 1.0},
    {Intrinsic::kAnd, DType::kInt32, {12, 10}, 8.0},
    {Intrinsic::kOr, DType::kInt32, {12, 10}, 14.0},
    {Intrinsic::kXor, DType::kInt32, {12, 10}, 6.0},
    {Intrinsic::kNot, DType::kInt32, {12}, -13.0},
    {Intrinsic::kShl, DType::kInt32, {12, 2}, 48.0},
    {Intrinsic::kShr, DType::kInt32, {-12, 2}, -3.0},
    {Intrinsic::kSelect, DType::kInt32, {1, 5, 6}, 5.0},
    {Intrinsic::kCast, DType::kInt32, {7}, 7.0},
    {Intrinsic::kBitcast, DType::kInt32, {-7}, -7.0},
    {Intrinsic::kCheckIndex, DType::kInt32, {2, 3}, 2.0},
    {Intrinsic::kCheckDivisor, DType::kInt32, {-7}, -7.0},
};

TEST(Evaluate, every_row_has_the_value_that_others_compute) {
  std::set<Intrinsic> covered;
  for (const Case& c : kCases) {
    std::vector<Scalar> args;
    for (const double x : c.args) args.push_back({x, static_cast<int64_t>(x)});
    const bool to_bool = info(c.intrinsic).result == IntrinsicResult::kBool;
    const Scalar result = evaluate_scalar(c.intrinsic, c.type, to_bool ? DType::kBool : c.type, args);
    const bool real = is_float(c.type) && !to_bool;
    EXPECT_NEAR(real ? result.real : static_cast<double>(result.integer), c.expected, 1e-14) << info(c.intrinsic).name;
    covered.insert(c.intrinsic);
  }
#define GRAFT_INTRINSIC(enumerator, name, arity, result, meaning) \
  EXPECT_TRUE(covered.contains(Intrinsic::enumerator)) << name;
#include "expr/intrinsics.inc"
#undef GRAFT_INTRINSIC
}

}  // namespace
}  // namespace graft
