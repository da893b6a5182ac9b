// SPDX-License-Identifier: Apache-2.0
#include "strategy/separate_windows.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "expr/build.h"
#include "expr/interpreter.h"

namespace graft::tile {
namespace {

struct Windows {
  Intrinsic fold = Intrinsic::kMax;
  int64_t kernel = 3, row_stride = 1, column_stride = 1, pad = 1, dilation = 1;
  bool weighted = false, guarded = true;
};

constexpr int64_t kPlanes = 2, kHeight = 9, kWidth = 11;

int64_t results(const Windows& w, int64_t length, int64_t stride) {
  return (length + 2 * w.pad - (w.kernel - 1) * w.dilation - 1) / stride + 1;
}

Region region_of(const Windows& w) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {kPlanes, kHeight, kWidth});
  const Shape shape{kPlanes, results(w, kHeight, w.row_stride), results(w, kWidth, w.column_stride)};
  const Expr identity = make_monoid(w.fold, DType::kFloat32).identity[0];
  const Tensor y = b.reduce("y", w.fold, shape, {w.kernel, w.kernel}, [&](const Indices& i, const Indices& k) {
    const auto place = [&](const Expr& o, const Expr& tap, int64_t stride) {
      return o * make_index(stride) + tap * make_index(w.dilation) - make_index(w.pad);
    };
    const Expr row = place(i[1], k[0], w.row_stride), column = place(i[2], k[1], w.column_stride);
    const Expr inside = ge(row, make_index(0)) && lt(row, make_index(kHeight)) && ge(column, make_index(0)) &&
                        lt(column, make_index(kWidth));
    const Expr here = x({i[0], row, column}), element = w.guarded ? select(inside, here, identity) : here;
    return w.weighted ? element * make_cast(DType::kFloat32, k[0] + make_index(1)) : element;
  });
  return b.finish("windows", {y});
}

std::vector<double> run(const Region& region) {
  verify(region);
  Random random(5);
  std::vector<float> numbers;
  for (int64_t n = 0; n < kPlanes * kHeight * kWidth; ++n) {
    numbers.push_back(static_cast<float>(random.uniform(-9, 9)));
  }
  const std::vector<TensorData> inputs{
      TensorData::from_values<float>(DType::kFloat32, {kPlanes, kHeight, kWidth}, numbers)};
  Bindings bindings;
  const TensorData result = interpret(region, inputs, bindings)[0];
  std::vector<double> values(static_cast<size_t>(result.element_count()));
  result.read_doubles(0, values);
  return values;
}

TEST(SeparateWindows, fold_one_axis_after_the_other) {
  const std::vector<Windows> all{{},
                                 {.kernel = 5, .pad = 2},
                                 {.kernel = 3, .row_stride = 2, .column_stride = 2},
                                 {.kernel = 3, .pad = 2, .dilation = 2},
                                 {.kernel = 4, .pad = 0},
                                 {.fold = Intrinsic::kMin, .kernel = 5, .pad = 2}};
  for (const Windows& windows : all) {
    const Region region = region_of(windows), separated = separate_windows(region);
    ASSERT_EQ(separated.forms.size(), 3u) << windows.kernel;
    EXPECT_TRUE(std::holds_alternative<Compute>(separated.forms[0])) << "the padding is made once";
    for (const size_t n : {size_t{1}, size_t{2}}) {
      EXPECT_EQ(std::get<Reduce>(separated.forms[n]).reduced.size(), 1u);
      EXPECT_EQ(std::get<Reduce>(separated.forms[n]).lift[0]->kind, ExprKind::kLoad) << "no tap asks for the border";
    }
    EXPECT_EQ(run(separated), run(region));
  }
}

TEST(SeparateWindows, sums_differ_in_their_order_alone) {
  const Region region = region_of({.fold = Intrinsic::kAdd}), separated = separate_windows(region);
  ASSERT_EQ(separated.forms.size(), 3u);
  const std::vector<double> expected = run(region), got = run(separated);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t n = 0; n < got.size(); ++n) EXPECT_NEAR(got[n], expected[n], 1e-4);
}

TEST(SeparateWindows, what_nothing_guards_is_read_where_it_lies) {
  const Region region = region_of({.kernel = 2, .row_stride = 2, .column_stride = 2, .pad = 0, .guarded = false});
  const Region separated = separate_windows(region);
  ASSERT_EQ(separated.forms.size(), 2u);
  EXPECT_TRUE(is_input(separated, std::get<Reduce>(separated.forms[0]).lift[0]->tensor));
  EXPECT_EQ(run(separated), run(region));
}

TEST(SeparateWindows, windows_with_weights_or_far_apart_stay_whole) {
  EXPECT_EQ(separate_windows(region_of({.weighted = true})).forms.size(), 1u);
  EXPECT_EQ(separate_windows(region_of({.column_stride = 5})).forms.size(), 1u);
}

}  // namespace
}  // namespace graft::tile
