// SPDX-License-Identifier: Apache-2.0
// Kernels are told where the part of a tensor is that they read, so that steps which differ in it alone share one.
#include "plan/read_parts.h"

#include <gtest/gtest.h>

#include "expr/build.h"
#include "fuse/rewrite_region.h"

namespace graft {
namespace {

constexpr DType kF32 = DType::kFloat32;

/// One position of a sequence of 8 plus a bias, of which the row is read that `bias_row` gives.
Region step(int64_t position, const std::function<Expr(const Indices&)>& bias_row, const Size& width = 64) {
  RegionBuilder b;
  const Tensor x = b.input("x", kF32, {8, 4, width}), bias = b.input("bias", kF32, {3, width});
  const Tensor y = b.compute("y", kF32, {4, width}, [&](const Indices& i) {
    return x({make_index(position), i[0], i[1]}) + bias({bias_row(i), i[1]});
  });
  return b.finish("step", {y});
}

const auto kFirstRow = [](const Indices&) { return make_index(0); };

TEST(ReadParts, steps_of_a_recurrence_are_the_same_kernel) {
  const ReadParts first = read_parts(step(0, kFirstRow), {}), later = read_parts(step(5, kFirstRow), {});
  EXPECT_EQ(print(first.region), print(later.region));
  EXPECT_EQ(first.offsets, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(later.offsets, (std::vector<int64_t>{5 * 4 * 64 * 4, 0}));
  EXPECT_EQ(later.region.tensors[0].shape, (Shape{4, 64}));
  EXPECT_EQ(later.region.tensors[1].shape, (Shape{64}));
}

TEST(ReadParts, what_is_read_in_several_places_stays_whole) {
  const ReadParts parts = read_parts(step(5, [](const Indices& i) { return mod(i[0], make_index(3)); }), {});
  EXPECT_EQ(parts.offsets[1], 0);
  EXPECT_EQ(parts.region.tensors[1].shape, (Shape{3, 64}));
}

TEST(ReadParts, parts_begin_at_whole_cache_lines_of_known_places) {
  const ReadParts odd = read_parts(step(5, kFirstRow, 3), {}),
                  open = read_parts(step(5, kFirstRow, Size::symbol("n")), {});
  EXPECT_EQ(odd.region.tensors[0].shape.size(), 3u);
  EXPECT_EQ(open.region.tensors[0].shape.size(), 3u);
  EXPECT_EQ(odd.offsets[0], 0);
}

TEST(ReadParts, weights_that_are_packed_stay_whole) {
  tile::Layouts layouts(3);
  layouts[0] = tile::PanelLayout{};
  EXPECT_EQ(read_parts(step(5, kFirstRow), layouts).region.tensors[0].shape.size(), 3u);
}

TEST(ReadParts, what_a_scatter_starts_from_stays_whole) {
  Region region = step(5, kFirstRow);
  Scatter scatter{.axes = {{make_variable(), Size(4)}}, .base = 0, .value = make_constant(kF32, 1)};
  scatter.indices = {scatter.axes[0].variable, make_index(0), make_index(0)};
  scatter.output = static_cast<int>(region.tensors.size());
  region.tensors.push_back({"changed", kF32, {8, 4, 64}});
  region.forms.emplace_back(scatter);
  region.outputs.push_back(scatter.output);
  EXPECT_EQ(read_parts(region, {}).region.tensors[0].shape.size(), 3u);
}

}  // namespace
}  // namespace graft
