// SPDX-License-Identifier: Apache-2.0
// What a region becomes for the blocks of a GPU: tiles, workspaces, scans, selections, and reductions in parts.
#include <algorithm>

#include <gtest/gtest.h>

#include "expr/build.h"
#include "fuse/rewrite_region.h"
#include "plan/spread_reduction.h"
#include "strategy/block.h"
#include "strategy/block_schedule.h"
#include "strategy/choose_schedule.h"
#include "strategy/strategy.h"
#include "tile/block_rules.h"

namespace graft {
namespace {

const Target& gpu() {
  static const Target target = find_target("sm_90a", 2);
  return target;
}

template <class Node>
int count(const tile::Program& program) {
  return static_cast<int>(std::count_if(program.body.begin(), program.body.end(), [](const tile::Statement& each) {
    return std::holds_alternative<Node>(each.node);
  }));
}

int count_buffers(const tile::Program& program, tile::Scope scope) {
  return static_cast<int>(std::count_if(program.buffers.begin(), program.buffers.end(),
                                        [&](const tile::Buffer& buffer) { return buffer.scope == scope; }));
}

/// The program by the schedule that the region gets, read back from its text.
tile::Program lowered(Region region) {
  normalise(region);
  const auto schedule = block_schedule(region, {{"n", 1000}});
  EXPECT_TRUE(schedule.has_value());
  const tile::Lowered result = lower(region, {}, schedule.value_or(tile::BlockSchedule{}), gpu());
  const auto* program = std::get_if<tile::Program>(&result);
  EXPECT_TRUE(program) << (program ? "" : std::get<std::string>(result));
  if (!program) return {};
  const std::string text = tile::print(*program);
  EXPECT_EQ(tile::print(tile::parse_program(text)), text);
  return *program;
}

Region softmax(const Size& length) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {4096, length});
  const Tensor most = b.reduce("most", Intrinsic::kMax, {4096}, {length},
                               [&](const Indices& i, const Indices& k) { return x({i[0], k[0]}); });
  const Tensor e = b.compute("e", DType::kFloat32, {4096, length},
                             [&](const Indices& i) { return exp(x(i) - most({i[0]})); });
  const Tensor sum = b.reduce("sum", Intrinsic::kAdd, {4096}, {length},
                              [&](const Indices& i, const Indices& k) { return e({i[0], k[0]}); });
  return b.finish("softmax", {b.compute("y", DType::kFloat32, {4096, length},
                                        [&](const Indices& i) { return e(i) / sum({i[0]}); })});
}

TEST(BlockLowering, what_is_read_across_goes_through_a_tile) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat16, {512, 640});
  const tile::Program program = lowered(b.finish(
      "transpose", {b.compute("y", DType::kFloat16, {640, 512}, [&](const Indices& i) { return x({i[1], i[0]}); })}));
  EXPECT_EQ(count<tile::Map>(program), 2);
  EXPECT_EQ(count_buffers(program, tile::Scope::kShared), 1);
}

TEST(BlockLowering, windows_slide_over_a_few_rows_of_all_channels) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat16, {128, 58, 58, 64});
  const Tensor most = b.reduce("most", Intrinsic::kMax, {128, 56, 56, 64}, {3, 3},
                               [&](const Indices& i, const Indices& k) {
                                 return x({i[0], i[1] + k[0], i[2] + k[1], i[3]});
                               });
  const tile::Program program = lowered(b.finish("windows", {most}));
  ASSERT_EQ(count<tile::Reduce>(program), 1);
  const auto& axes = std::get<tile::Reduce>(program.body[0].node).axes;
  ASSERT_EQ(axes.size(), 3u);
  EXPECT_EQ(axes[0].bound, 8);
  EXPECT_EQ(axes[2].bound, 64);
}

TEST(BlockLowering, threads_make_as_many_points_of_windows_as_registers_hold) {
  for (const int64_t side : {3, 5}) {
    tile::WindowReads reads{.rows = side, .columns = side, .kept = side * side, .converts = true};
    reads.columns_step = reads.rows_step = 1;
    const tile::ThreadPoints points = tile::points_of_thread(reads, 56, 8);
    EXPECT_GT(points.besides, 1);
    EXPECT_LE((side * (points.besides + side - 1) + side * side) * points.vector, 72);
  }
  const tile::WindowReads apart{.rows = 2, .rows_step = 2, .columns = 2, .columns_step = 2};
  EXPECT_EQ(tile::points_of_thread(apart, 56, 4).besides, 1) << "windows that do not overlap share nothing";
}

TEST(BlockLowering, several_short_rows_share_a_block) {
  const tile::Program program = lowered(softmax(128));
  ASSERT_EQ(program.grid.size(), 1u);
  EXPECT_LT(program.grid[0].extent.constant(), 4096);
  EXPECT_EQ(count_buffers(program, tile::Scope::kGlobal), 2);
}

Region row_sums(int64_t rows, int64_t length) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat16, {rows, length});
  const Tensor sum = b.reduce("sum", Intrinsic::kAdd, {rows}, {length},
                              [&](const Indices& i, const Indices& k) { return x.wide({i[0], k[0]}); });
  return b.finish("rows", {b.compute("y", DType::kFloat16, {rows, length},
                                     [&](const Indices& i) { return x.wide(i) - sum({i[0]}); })});
}

TEST(BlockLowering, few_rows_have_more_threads_and_blocks_of_their_own) {
  const tile::Program few = lowered(row_sums(128, 768)), many = lowered(row_sums(16384, 768));
  EXPECT_EQ(tile::grid_size(few).constant(), 128);
  EXPECT_EQ(few.threads, 128);
  EXPECT_EQ(tile::grid_size(many).constant(), 2048);
  EXPECT_EQ(many.threads, 256);
}

/// An image of halves, enlarged along both axes by sums of two neighbours each, rows first.
tile::Program enlarged(int64_t factor, int64_t columns) {
  constexpr int64_t kImages = 512, kRows = 32;
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat16, {kImages, kRows, columns});
  const auto neighbours = [&](const Tensor& from, const Indices& i, size_t axis, int64_t last) {
    const Expr place = i[axis] * make_index(2) + make_index(1), by = make_index(2 * factor);
    Indices at = i, next = i;
    at[axis] = floor_div(place, by);
    next[axis] = min(at[axis] + make_index(1), make_index(last));
    const Expr weight = make_cast(DType::kFloat32, mod(place, by));
    return from.wide(at) * weight + from.wide(next) * (make_constant(DType::kFloat32, 1) - weight);
  };
  const Tensor t = b.compute("t", DType::kFloat32, {kImages, factor * kRows, columns},
                             [&](const Indices& i) { return neighbours(x, i, 1, kRows - 1); });
  return lowered(b.finish("enlarged", {b.compute("y", DType::kFloat16, {kImages, factor * kRows, factor * columns},
                                                 [&](const Indices& i) { return neighbours(t, i, 2, columns - 1); })}));
}

TEST(BlockLowering, rows_of_what_is_enlarged_are_computed_where_they_are_read) {
  const tile::Program doubled = enlarged(2, 32);
  EXPECT_EQ(count<tile::Map>(doubled), 1);
  EXPECT_EQ(count_buffers(doubled, tile::Scope::kShared), 0);
  EXPECT_EQ(doubled.threads, 256);  // 8 side by side, 32 groups of two rows
  EXPECT_EQ(tile::grid_size(doubled).constant(), 512);
}

TEST(BlockLowering, rows_of_what_is_enlarged_stay_where_pieces_begin_inside_of_elements) {
  const std::vector<std::pair<int64_t, int64_t>> sizes = {{3, 32}, {2, 31}, {16, 32}};
  for (const auto& [factor, columns] : sizes) {
    EXPECT_EQ(count<tile::Map>(enlarged(factor, columns)), 2) << factor << " times " << columns;
  }
}

TEST(BlockLowering, a_small_map_is_dealt_to_many_blocks) {
  const auto tiles = [](int64_t rows) {
    RegionBuilder b;
    const Tensor x = b.input("x", DType::kFloat16, {rows, 3072});
    const Tensor y = b.compute("y", DType::kFloat16, {rows, 3072}, [&](const Indices& i) { return exp(x.wide(i)); });
    return tile::grid_size(lowered(b.finish("map", {y}))).constant();
  };
  EXPECT_EQ(tiles(128), 192);
  EXPECT_EQ(tiles(16384), 12288);
}

TEST(BlockLowering, constants_lie_along_the_threads_that_read_them) {
  const auto layout_of = [](int64_t window, int64_t columns) {
    RegionBuilder b;
    const Tensor x = b.input("x", DType::kFloat32, {8, columns, window});
    const Tensor w = b.input("w", DType::kFloat32, {columns, window});
    Region region = b.finish("sums", {b.reduce("sum", Intrinsic::kAdd, {8, columns}, {window},
                                               [&](const Indices& i, const Indices& k) {
                                                 return x({i[0], i[1], k[0]}) * w({i[1], k[0]});
                                               })});
    return choice_of(region, {false, true, false}, tile::BlockSchedule{}).layouts[1];
  };
  const auto short_windows = layout_of(9, 64);
  ASSERT_TRUE(short_windows.has_value());
  EXPECT_EQ(short_windows->dim, 0);
  EXPECT_FALSE(layout_of(768, 128).has_value()) << "a group of threads reads a whole row";
}

TEST(BlockLowering, scratch_of_open_size_lies_in_a_workspace) {
  const tile::Program program = lowered(softmax(Size::symbol("n")));
  ASSERT_EQ(count_buffers(program, tile::Scope::kGlobal), 3);
  const tile::Buffer& workspace = program.buffers[2];
  EXPECT_TRUE(workspace.written);
  EXPECT_EQ(workspace.shape.size(), program.grid.size() + 2);
}

TEST(BlockLowering, a_running_sum_stores_its_result_at_once) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat16, {64, 4096});
  const Tensor totals = b.scan("totals", {64}, 4096, [&](Scan& s, const Indices& i, const Expr& t) {
    s.state = {make_variable(DType::kFloat32)};
    s.initial = {make_constant(DType::kFloat32, 0)};
    s.step = {s.state[0] + x.wide({i[0], t})};
    s.emit = {s.state[0]};
  })[0];
  const tile::Program program = lowered(
      b.finish("sums", {b.compute("y", DType::kFloat16, {64, 4096}, [&](const Indices& i) { return totals(i); })}));
  EXPECT_EQ(count<tile::Scan>(program), 1);
  EXPECT_EQ(count<tile::Map>(program), 0);
  EXPECT_EQ(count_buffers(program, tile::Scope::kShared), 0);
}

TEST(BlockLowering, few_ranks_are_selected_and_many_sorted) {
  for (const int64_t kept : {5, 500}) {
    RegionBuilder b;
    const Tensor x = b.input("x", DType::kFloat32, {64, 1000});
    Region region = b.finish("ranks", b.sort("sorted", {64}, 1000, kept, true,
                                             [&](const Indices& i, const Expr& t) { return x({i[0], t}); }));
    normalise(region);
    EXPECT_EQ(block_schedule(region, {}).has_value(), kept == 5);
    if (kept == 5) {
      EXPECT_EQ(count<tile::Select>(lowered(region)), 1);
    }
  }
}

TEST(BlockLowering, groups_of_an_axis_are_independent) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {10, 12});
  const Tensor sum = b.reduce("sum", Intrinsic::kAdd, {10, 3}, {4}, [&](const Indices& i, const Indices& k) {
    return x({i[0], i[1] * make_index(4) + k[0]});
  });
  Region region = b.finish("groups", {b.compute("y", DType::kFloat32, {10, 12}, [&](const Indices& i) {
    return x(i) - sum({i[0], floor_div(i[1], make_index(4))});
  })});
  normalise(region);
  EXPECT_EQ(common_axes(region).size(), 2u);
}

FusedStep step_of(Region region, std::vector<FusedTensor>& tensors) {
  FusedStep step;
  step.name = "step";
  for (const int tensor : region.inputs) {
    step.inputs.push_back(static_cast<int>(tensors.size()));
    tensors.push_back({"in", region.tensors[tensor].type, region.tensors[tensor].shape, {}, -1});
  }
  for (const int tensor : region.outputs) {
    step.outputs.push_back(static_cast<int>(tensors.size()));
    tensors.push_back({"out", region.tensors[tensor].type, region.tensors[tensor].shape, {}, -1});
  }
  step.region = std::move(region);
  return step;
}

Region mean_of(const Size& rows, const Size& columns) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {rows, columns});
  const Tensor sum = b.reduce("sum", Intrinsic::kAdd, {columns}, {rows},
                              [&](const Indices& i, const Indices& k) { return x({k[0], i[0]}); });
  return b.finish("mean", {b.compute("y", DType::kFloat32, {columns}, [&](const Indices& i) {
    return sum(i) * make_constant(DType::kFloat32, 0.5);
  })});
}

/// over k < 8: select(offset + k < 5, x[k], 0)
tile::Reduce guarded(const Expr& offset, const tile::Axis& kept) {
  const tile::Axis k{make_variable(), make_index(8), 8};
  const Expr inside = lt(offset + k.variable, make_index(5));
  const Expr x = make_load(0, DType::kFloat32, {k.variable});
  return {.axes = {kept},
          .reduced = {k},
          .lift = {select(inside, x, make_constant(DType::kFloat32, 0))},
          .monoid = make_monoid(Intrinsic::kAdd, DType::kFloat32),
          .outputs = {{1, {kept.variable}, {}, ScatterMode::kSet}}};
}

TEST(BlockRules, a_sum_ends_where_its_guard_does_unless_each_result_has_its_own) {
  const tile::Axis kept{make_variable(), make_index(4), 4};
  tile::Reduce common = guarded(make_index(2), kept), own = guarded(kept.variable, kept);
  tile::shorten_guarded(common);
  EXPECT_EQ(common.lift[0]->kind, ExprKind::kLoad);
  EXPECT_EQ(common.reduced[0].extent->integer, 3) << "5 - 2 of them";
  tile::shorten_guarded(own);
  EXPECT_NE(own.lift[0]->kind, ExprKind::kLoad);
  EXPECT_EQ(own.reduced[0].extent->integer, 8);
}

TEST(SpreadReduction, few_results_of_many_elements_come_in_two_steps) {
  std::vector<FusedTensor> tensors;
  const FusedStep step = step_of(mean_of(100'003, 17), tensors);
  const std::vector<FusedStep> steps = spread_reduction(step, tensors, {}, gpu());
  ASSERT_EQ(steps.size(), 2u);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(steps[0].inputs, step.inputs);
  EXPECT_EQ(steps[0].outputs, std::vector<int>{2});
  EXPECT_EQ(steps[1].inputs, std::vector<int>{2});
  EXPECT_EQ(steps[1].outputs, step.outputs);
  for (const FusedStep& each : steps) EXPECT_NO_THROW(verify(each.region));
}

TEST(SpreadReduction, many_results_and_short_work_stay_in_one) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1000, 100'000}, {100, 17}}) {
    std::vector<FusedTensor> tensors;
    EXPECT_EQ(spread_reduction(step_of(mean_of(rows, columns), tensors), tensors, {}, gpu()).size(), 1u);
  }
}

}  // namespace
}  // namespace graft
