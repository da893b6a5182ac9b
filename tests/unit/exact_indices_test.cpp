// SPDX-License-Identifier: Apache-2.0
#include "tile/exact_indices.h"

#include <gtest/gtest.h>

#include "expr/evaluate.h"

namespace graft::tile {
namespace {

bool has_doubles(const Expr& e) {
  bool found = false;
  for_each(e, [&](const Expr& node) { found |= node->type == DType::kFloat64; });
  return found;
}

/// (i + 0.5) / scale - 0.5, as a resize has it.
Expr place(const Expr& i, double scale) {
  const auto number = [](double value) { return make_constant(DType::kFloat64, value); };
  return (make_cast(DType::kFloat64, i) + number(0.5)) / number(scale) - number(0.5);
}

/// The value of `e` where its only variable is `value`.
Scalar evaluate(const Expr& e, int64_t value) {
  if (e->kind == ExprKind::kVariable) return {.integer = value};
  if (e->kind == ExprKind::kConstant) return {.real = e->real, .integer = e->integer};
  std::vector<Scalar> args;
  for (const Expr& arg : e->args) args.push_back(evaluate(arg, value));
  return evaluate_scalar(e->intrinsic, e->args.back()->type, e->type, args);
}

bool same_at(const Expr& a, const Expr& b, int64_t value) {
  const Scalar left = evaluate(a, value), right = evaluate(b, value);
  return is_float(a->type) ? left.real == right.real : left.integer == right.integer;
}

TEST(ExactIndices, of_a_resize_by_a_power_of_two_are_integers_of_the_same_value) {
  const Expr i = make_variable();
  for (const double scale : {2.0, 4.0, 0.5}) {
    const Expr index = make_cast(DType::kInt64, floor(place(i, scale)));
    const Expr exact = exact_indices(index);
    EXPECT_FALSE(has_doubles(exact));
    for (int64_t value = 0; value < 40; ++value) {
      EXPECT_TRUE(same_at(exact, index, value)) << value << " at " << scale;
    }
  }
}

TEST(ExactIndices, weights_of_neighbours_are_integers_over_a_power_of_two) {
  const Expr i = make_variable(), t = place(i, 2);
  const Expr one = make_constant(DType::kFloat64, 1), zero = make_constant(DType::kFloat64, 0);
  const Expr weight = make_cast(DType::kFloat32, max(zero, one - abs(floor(t) - t)));
  const Expr exact = exact_indices(weight);
  EXPECT_FALSE(has_doubles(exact));
  for (int64_t value = 0; value < 40; ++value) {
    EXPECT_TRUE(same_at(exact, weight, value)) << value;
  }
}

TEST(ExactIndices, leave_alone_what_rounds) {
  const Expr i = make_variable();
  const Expr third = make_cast(DType::kInt64, floor(place(i, 3)));
  EXPECT_TRUE(equal(exact_indices(third), third));
  const Expr cut = make_cast(DType::kInt64, place(i, 2));  // towards zero, which is no floor
  EXPECT_TRUE(equal(exact_indices(cut), cut));
}

TEST(ExactIndices, leave_alone_what_is_no_index) {
  const Expr data = make_cast(DType::kFloat64, make_load(0, DType::kInt64, {make_index(0)}));
  const Expr half = make_cast(DType::kInt64, floor(data / make_constant(DType::kFloat64, 2)));
  EXPECT_TRUE(equal(exact_indices(half), half));
}

}  // namespace
}  // namespace graft::tile
