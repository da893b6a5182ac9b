// SPDX-License-Identifier: Apache-2.0
// Which way reductions of CPUs go through windows, and in which layout their results are made.
#include "strategy/nest_direction.h"

#include <gtest/gtest.h>

#include "expr/build.h"
#include "fuse/assign_layouts.h"
#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"
#include "graph/infer.h"

namespace graft {
namespace {

/// Sums of `kernel` x `kernel` elements of planes, weighted by channel when asked.
Region windows(int64_t kernel, bool channels_last, bool weighted) {
  RegionBuilder b;
  const int64_t size = 40 + kernel - 1;
  const Tensor x = b.input("x", DType::kFloat32, channels_last ? Shape{size, size, 24} : Shape{24, size, size});
  const Tensor w = weighted ? b.input("w", DType::kFloat32, {24, kernel, kernel}) : Tensor();
  const Shape result = channels_last ? Shape{40, 40, 24} : Shape{24, 40, 40};
  const auto lift = [&](const Indices& i, const Indices& k) {
    const int row = channels_last ? 0 : 1, channel = channels_last ? 2 : 0;
    const Expr high = i[row] + k[0], wide = i[row + 1] + k[1];
    const Expr element = channels_last ? x({high, wide, i[channel]}) : x({i[channel], high, wide});
    return weighted ? element * w({i[channel], k[0], k[1]}) : element;
  };
  const Tensor sum = b.reduce("sum", Intrinsic::kAdd, result, {kernel, kernel}, lift);
  Region region = b.finish("windows", {sum});
  normalise(region);
  return region;
}

tile::NestDirection direction_of(const Region& region, int64_t lanes) {
  return tile::nest_direction(region, common_axes(region), lanes);
}

TEST(NestDirection, short_rows_of_windows_are_not_gone_along) {
  EXPECT_TRUE(direction_of(windows(3, false, false), 16).columns);
  EXPECT_FALSE(direction_of(windows(3, false, false), 0).columns) << "where all rows count, those of windows do";
  EXPECT_FALSE(direction_of(windows(33, false, false), 16).columns) << "33 elements are more than two vectors";
}

TEST(NestDirection, weights_of_a_window_may_lie_in_any_way) {
  const Region region = windows(3, true, true);
  const tile::NestDirection direction = direction_of(region, 8);
  EXPECT_TRUE(direction.columns);
  ASSERT_EQ(direction.weights.size(), 1u);
  EXPECT_EQ(region.tensors[(*direction.weights.begin())->tensor].name, "w");
}

/// The number of steps of `tail` behind a convolution whose channels lie last, as a CPU does them.
size_t steps_behind_convolution(std::string_view tail) {
  Graph graph = parse_graph(R"(graph "main" {
  opset "" 28
  input %x: f32[1, 3, 18, 18]
  input %w: f32[32, 3, 3, 3]
  %c: ? = Conv "conv" (%x, %w)
)" + std::string(tail) + "  output %y\n}\n");
  verify(graph, false);
  infer_types(graph);
  FusedProgram program = fuse(graph);
  turn_results(program);
  return program.steps.size() - 1;
}

TEST(TurnResults, windows_over_channels_that_lie_last_keep_them_there) {
  EXPECT_EQ(steps_behind_convolution("  %y: ? = MaxPool \"pool\" (%c) {kernel_shape = [3, 3]}\n"), 2u);
  EXPECT_EQ(steps_behind_convolution("  %y: ? = GlobalMaxPool \"pool\" (%c)\n"), 1u) << "one place needs no turning";
  EXPECT_EQ(steps_behind_convolution("  %t: ? = Transpose \"last\" (%c) {perm = [0, 2, 3, 1]}\n"
                                     "  %y: ? = MaxPool \"pool\" (%t) {kernel_shape = [3, 3]}\n"),
            1u)
      << "what the window goes over lies side by side as it is";
}

TEST(TurnResults, one_place_along_each_axis_needs_no_turning_and_several_along_any_do) {
  const auto pooled = [](const std::string& window) {
    return steps_behind_convolution("  %y: ? = MaxPool \"pool\" (%c) {kernel_shape = " + window + "}\n");
  };
  EXPECT_EQ(pooled("[16, 16]"), 1u);
  EXPECT_EQ(pooled("[3, 16]"), 2u);
  EXPECT_EQ(pooled("[16, 3]"), 2u);
}

}  // namespace
}  // namespace graft
