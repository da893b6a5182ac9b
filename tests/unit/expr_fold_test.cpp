// SPDX-License-Identifier: Apache-2.0
// What construction folds away means the same: built expressions against evaluate_scalar on the same operands.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "expr/evaluate.h"
#include "expr/expr.h"

namespace graft {
namespace {

constexpr int64_t kN = 5;

const Expr& open_integer() {
  static const Expr x = make_variable();
  return x;
}

/// The value of an integer expression where its variables are `x` and the symbol n is 5.
int64_t value_of(const Expr& e, int64_t x) {
  switch (e->kind) {
    case ExprKind::kConstant: return e->integer;
    case ExprKind::kVariable: return x;
    case ExprKind::kSize: return e->size.evaluate({{"n", kN}});
    default: break;
  }
  std::vector<Scalar> args;
  for (const Expr& arg : e->args) args.push_back({0, value_of(arg, x)});
  const size_t typed = e->intrinsic == Intrinsic::kSelect ? 1 : 0;
  return evaluate_scalar(e->intrinsic, e->args[typed]->type, e->type, args).integer;
}

constexpr Intrinsic kArithmetic[] = {Intrinsic::kAdd, Intrinsic::kSub, Intrinsic::kMul,      Intrinsic::kDiv,
                                     Intrinsic::kRem, Intrinsic::kMod, Intrinsic::kFloorDiv, Intrinsic::kMin,
                                     Intrinsic::kMax, Intrinsic::kAnd, Intrinsic::kOr,       Intrinsic::kXor};
constexpr Intrinsic kComparisons[] = {Intrinsic::kEq, Intrinsic::kNe, Intrinsic::kLt,
                                      Intrinsic::kLe, Intrinsic::kGt, Intrinsic::kGe};

/// Constants, sizes and a variable.
std::vector<Expr> operands() {
  const Size n = Size::symbol("n");
  std::vector<Expr> all = {open_integer()};
  for (const int64_t value : {-7, -1, 0, 1, 2, 6}) all.push_back(make_index(value));
  for (const Size& size : {n, n + Size(1), n - Size(6), Size(2) * n, Size(1) - n}) all.push_back(make_size(size));
  return all;
}

void check(Intrinsic intrinsic, DType result, const Expr& a, const Expr& b) {
  const Expr built = make_call(intrinsic, {a, b});
  EXPECT_EQ(built->type, result);
  for (const int64_t x : {-3, 0, 1, 4}) {
    const Scalar args[] = {{0, value_of(a, x)}, {0, value_of(b, x)}};
    EXPECT_EQ(value_of(built, x), evaluate_scalar(intrinsic, DType::kInt64, result, args).integer)
        << info(intrinsic).name << " of " << args[0].integer << " and " << args[1].integer;
  }
}

TEST(Fold, arithmetic_and_comparisons_of_integers_keep_their_values) {
  const std::vector<Expr> all = operands();
  for (const Expr& a : all) {
    for (const Expr& b : all) {
      for (const Intrinsic intrinsic : kArithmetic) check(intrinsic, DType::kInt64, a, b);
      for (const Intrinsic intrinsic : kComparisons) check(intrinsic, DType::kBool, a, b);
    }
    EXPECT_EQ(value_of(-a, 4), -value_of(a, 4));
  }
}

TEST(Fold, logic_keeps_its_values) {
  const Expr open = lt(open_integer(), make_index(1));
  const std::vector<Expr> all = {open, make_integer(DType::kBool, 0), make_integer(DType::kBool, 1)};
  for (const Expr& a : all) {
    for (const int64_t x : {0, 1}) EXPECT_EQ(value_of(logical_not(a), x), !value_of(a, x));
    for (const Expr& b : all) {
      for (const int64_t x : {0, 1}) {
        const int64_t left = value_of(a, x), right = value_of(b, x);
        EXPECT_EQ(value_of(a && b, x), left & right);
        EXPECT_EQ(value_of(a || b, x), left | right);
        EXPECT_EQ(value_of(a ^ b, x), left ^ right);
        EXPECT_EQ(value_of(select(a, make_index(3), open_integer()), x), left ? 3 : x);
        EXPECT_EQ(value_of(select(a, open_integer(), open_integer()), x), x);
      }
    }
  }
}

TEST(Fold, neutral_operands_and_decided_choices_leave_the_other_operand_itself) {
  const Expr x = open_integer(), zero = make_index(0), one = make_index(1);
  for (const Expr& same : {x + zero, zero + x, x - zero, x * one, one * x, x / one, floor_div(x, one),
                           select(make_integer(DType::kBool, 1), x, zero), select(lt(x, one), x, x)}) {
    EXPECT_EQ(same.get(), x.get());
  }
  for (const Expr& nothing : {x * zero, zero * x, x - x, rem(x, one), mod(x, one)}) {
    EXPECT_EQ(as_integer(nothing), 0);
  }
  const Expr n = make_size(Size::symbol("n"));
  EXPECT_EQ(as_integer(lt(n, n + make_index(2))), 1);
  EXPECT_EQ(as_integer(ge(n, n + make_index(2))), 0);
  EXPECT_EQ((n * make_index(2))->kind, ExprKind::kSize);
}

TEST(Fold, an_index_is_checked_when_it_runs_unless_it_is_seen_to_lie_inside) {
  EXPECT_EQ(as_integer(check_index(make_index(2), make_index(3))), 2);
  for (const int64_t outside : {-1, 3}) {
    EXPECT_EQ(check_index(make_index(outside), make_index(3))->kind, ExprKind::kCall);
  }
  EXPECT_EQ(check_index(make_index(2), make_size(Size::symbol("n")))->kind, ExprKind::kCall);
}

TEST(Fold, a_divisor_is_checked_when_it_runs_unless_it_is_a_number_that_is_not_zero) {
  EXPECT_EQ(as_integer(check_divisor(make_index(-2))), -2);
  EXPECT_EQ(check_divisor(make_index(0))->kind, ExprKind::kCall);
  EXPECT_EQ(check_divisor(make_size(Size::symbol("n")))->kind, ExprKind::kCall);
}

TEST(Fold, zero_times_a_float_is_left_to_the_run) {
  const Expr x = make_variable(DType::kFloat32), zero = make_constant(DType::kFloat32, 0);
  EXPECT_EQ((x * zero)->kind, ExprKind::kCall);
  EXPECT_EQ((x + zero)->kind, ExprKind::kCall);
  EXPECT_EQ((x - x)->kind, ExprKind::kCall);
}

TEST(Fold, casts_of_constants_mean_what_the_interpreter_makes_of_them) {
  const DType types[] = {DType::kBool,  DType::kInt8,   DType::kUint8,   DType::kInt32,  DType::kInt64,
                         DType::kUint64, DType::kFloat16, DType::kFloat32, DType::kFloat64};
  const auto check_cast = [](const Expr& constant, DType to) {
    const Expr cast = make_cast(to, constant);
    EXPECT_EQ(cast->type, to);
    if (cast->kind != ExprKind::kConstant) return;
    const Scalar arg = {constant->real, constant->integer};
    const Scalar expected = evaluate_scalar(Intrinsic::kCast, constant->type, to, std::span(&arg, 1));
    EXPECT_EQ(cast->real, expected.real) << name_of(constant->type) << " to " << name_of(to);
    EXPECT_EQ(cast->integer, expected.integer) << name_of(constant->type) << " to " << name_of(to);
  };
  for (const DType to : types) {
    for (const double value : {0.0, 0.1, -2.75, 300.0, 16777217.0}) {
      for (const DType from : {DType::kFloat32, DType::kFloat64}) check_cast(make_constant(from, value), to);
    }
    for (const int64_t value : {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{300}, (int64_t{1} << 53) + 1, INT64_MIN}) {
      for (const DType from : {DType::kInt64, DType::kUint64}) check_cast(make_integer(from, value), to);
    }
  }
}

TEST(Fold, what_folding_leaves_of_a_rewritten_call_is_not_rewritten_again) {
  const std::vector<int> renumbered = {4, 3, 3, 5};
  const Expr either = select(make_load(0, DType::kBool, {}), make_load(1, DType::kInt16, {open_integer()}),
                             make_load(2, DType::kInt16, {open_integer()}));
  const Expr same = transform(either, [&](const Expr& node) -> Expr {
    if (node->kind != ExprKind::kLoad) return {};
    return make_load(renumbered[node->tensor], node->type, node->args);
  });
  ASSERT_EQ(same->kind, ExprKind::kLoad);
  EXPECT_EQ(same->tensor, 3);

  const Size n = Size::symbol("n");
  const Expr half = floor_div(make_size(n), make_size(Size::symbol("m")));
  const Expr whole = substitute_sizes(half, {{"n", n * Size(2)}, {"m", Size(2)}});
  ASSERT_EQ(whole->kind, ExprKind::kSize);
  EXPECT_EQ(whole->size, n);
}

TEST(MakeConstant, of_an_integer_takes_any_number) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(make_constant(DType::kInt32, infinity)->integer, std::numeric_limits<int32_t>::max());
  EXPECT_EQ(make_constant(DType::kInt64, -infinity)->integer, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(make_constant(DType::kInt8, std::nan(""))->integer, 0);
  EXPECT_EQ(make_constant(DType::kInt64, -7.0)->integer, -7);
}

}  // namespace
}  // namespace graft
