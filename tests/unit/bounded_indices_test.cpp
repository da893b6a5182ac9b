// SPDX-License-Identifier: Apache-2.0
#include "strategy/bounded_indices.h"

#include <gtest/gtest.h>

#include "expr/build.h"
#include "expr/interpreter.h"

namespace graft::tile {
namespace {

/// y[i] = x[place(i)] over `count` points of a row of `length`.
Region row_of(int64_t length, const Size& count, const std::function<Expr(const Expr&)>& place) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kInt64, {length});
  return b.finish("row", {b.compute("y", DType::kInt64, {count}, [&](const Indices& i) { return x({place(i[0])}); })});
}

int count_of(const Region& region, Intrinsic intrinsic) {
  int count = 0;
  for_each_expr(region.forms[0], [&](const Expr& e) {
    for_each(e, [&](const Expr& node) { count += is_call(node, intrinsic) ? 1 : 0; });
  });
  return count;
}

std::vector<int64_t> run(const Region& region, int64_t length) {
  std::vector<int64_t> numbers(static_cast<size_t>(length));
  for (size_t n = 0; n < numbers.size(); ++n) numbers[n] = static_cast<int64_t>(n) * 10;
  const std::vector<TensorData> inputs{TensorData::from_values<int64_t>(DType::kInt64, {length}, numbers)};
  Bindings bindings;
  const TensorData result = interpret(region, inputs, bindings)[0];
  std::vector<int64_t> values(static_cast<size_t>(result.element_count()));
  result.read_integers(0, values);
  return values;
}

/// As a Pad that reflects has it.
Expr reflected(const Expr& i, int64_t before, int64_t length) {
  const Expr period = make_index(2 * length - 2), wave = mod(i - make_index(before), period);
  return min(wave, max(make_index(0), period - wave));
}

TEST(BoundedIndices, remainders_of_numbers_that_are_seldom_too_large_are_chosen) {
  for (const auto& [before, after] : {std::pair{3, 3}, {9, 0}, {0, 9}, {0, 0}, {9, 9}}) {
    const int64_t length = 10;
    const Region region = row_of(length, length + before + after,
                                 [&, start = before](const Expr& i) { return reflected(i, start, length); });
    const Region bounded = bounded_indices(region);
    EXPECT_EQ(count_of(bounded, Intrinsic::kMod), 0);
    EXPECT_EQ(count_of(bounded, Intrinsic::kMax), 0);
    EXPECT_EQ(run(bounded, length), run(region, length)) << before << " before, " << after << " behind";
  }
}

TEST(BoundedIndices, remainders_of_numbers_of_many_periods_stay) {
  const Region region = row_of(4, 40, [](const Expr& i) { return mod(i, make_index(4)); });
  EXPECT_EQ(count_of(bounded_indices(region), Intrinsic::kMod), 1);
}

TEST(BoundedIndices, bounds_that_may_hold_or_not_stay) {
  const Region region =
      row_of(10, 10, [](const Expr& i) { return max(make_index(0), min(make_index(9), i - make_index(1))); });
  const Region bounded = bounded_indices(region);
  EXPECT_EQ(count_of(bounded, Intrinsic::kMax), 1) << "the first index is below 0";
  EXPECT_EQ(count_of(bounded, Intrinsic::kMin), 0) << "no index is above 9";
  EXPECT_EQ(run(bounded, 10), run(region, 10));
}

TEST(BoundedIndices, sizes_of_the_run_bound_nothing_from_above) {
  const Region region = row_of(10, Size::symbol("n"), [](const Expr& i) { return min(make_index(9), i); });
  EXPECT_EQ(count_of(bounded_indices(region), Intrinsic::kMin), 1);
}

TEST(BoundedIndices, comparisons_that_always_hold_are_gone) {
  const Region region = row_of(10, 10, [](const Expr& i) {
    const Expr inside = ge(i, make_index(0)) && lt(i, make_index(10)) && le(i, make_index(9));
    return select(inside, i, make_index(0));
  });
  const Region bounded = bounded_indices(region);
  for (const Intrinsic intrinsic : {Intrinsic::kGe, Intrinsic::kLt, Intrinsic::kLe, Intrinsic::kSelect}) {
    EXPECT_EQ(count_of(bounded, intrinsic), 0);
  }
  const Region open = row_of(10, 11, [](const Expr& i) { return select(gt(i, make_index(9)), make_index(0), i); });
  EXPECT_EQ(count_of(bounded_indices(open), Intrinsic::kSelect), 1) << "the last index is 10";
}

}  // namespace
}  // namespace graft::tile
