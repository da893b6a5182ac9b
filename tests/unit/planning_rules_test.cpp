// SPDX-License-Identifier: Apache-2.0
// What is computed where, and what becomes a step of its own: the costs and cuts behind the plans of steps.
#include <gtest/gtest.h>

#include "expr/build.h"
#include "fuse/attention.h"
#include "fuse/contraction.h"
#include "fuse/fused_program.h"
#include "fuse/recomputation.h"
#include "fuse/rewrite_region.h"
#include "fuse/split_step.h"
#include "graph/infer.h"
#include "library/split_region.h"
#include "strategy/choose_schedule.h"
#include "strategy/nest.h"
#include "strategy/product.h"
#include "target/target.h"

namespace graft {
namespace {

constexpr DType kF32 = DType::kFloat32;

FusedProgram fused(const std::string& statements) {
  Graph graph = parse_graph("graph \"main\" {\n  opset \"\" 20\n" + statements + "}\n");
  infer_types(graph);
  return fuse(graph);
}

Region map_of(const std::function<Expr(const Expr&)>& f) {
  RegionBuilder b;
  const Tensor x = b.input("x", kF32, {4, 6});
  return b.finish("map", {b.compute("y", kF32, {4, 6}, [&](const Indices& i) { return f(x(i)); })});
}

/// The largest of each `taps` neighbours.
Region window_of(int64_t taps) {
  RegionBuilder b;
  const Size n = Size::symbol("n");
  const Tensor x = b.input("x", kF32, {n, 64});
  return b.finish("window", {b.reduce("y", Intrinsic::kMax, {n, 60}, {taps}, [&](const Indices& i, const Indices& k) {
                    return x({i[0], i[1] + k[0]});
                  })});
}

TEST(Recomputation, elements_are_read_as_often_as_windows_overlap) {
  EXPECT_DOUBLE_EQ(times_read(window_of(1), 0), 1);
  EXPECT_NEAR(times_read(window_of(4), 0), 4 * 60 / 64.0, 1e-9);
}

TEST(Recomputation, costs_its_price_times_the_readings_but_one) {
  const Region sigmoid = map_of([](const Expr& x) {
    const Expr one = make_constant(kF32, 1);
    return one / (one + exp(-x));
  });
  const Region relu = map_of([](const Expr& x) { return max(x, make_constant(kF32, 0)); });
  EXPECT_TRUE((RepeatedWork{.times = 1}.take(sigmoid)));
  EXPECT_FALSE((RepeatedWork{.times = 1.5}.take(sigmoid)));
  EXPECT_TRUE((RepeatedWork{.times = 2.25}.take(relu)));
  EXPECT_FALSE((RepeatedWork{.times = 9}.take(relu)));
  RepeatedWork several{.times = 3};
  EXPECT_TRUE(several.take(relu));
  EXPECT_TRUE(several.take(relu));
  EXPECT_FALSE(several.take(relu)) << "the work of a chain adds up";
}

TEST(Contraction, has_axes_of_one_point_that_no_operand_reads) {
  const auto product = [&](int64_t batches) {
    RegionBuilder made;
    const Tensor left = made.input("x", kF32, {1, 4, 6}), right = made.input("w", kF32, {6, 5});
    const Region region = made.finish(
        "product", {made.reduce("y", Intrinsic::kAdd, {batches, 4, 5}, {6}, [&](const Indices& i, const Indices& k) {
          return left({make_index(0), i[1], k[0]}) * right({k[0], i[2]});
        })});
    return find_contraction(std::get<Reduce>(region.forms[0]));
  };
  ASSERT_TRUE(product(1));
  EXPECT_EQ(product(1)->m.size(), 1u);
  EXPECT_FALSE(product(2));
}

/// The region of the only step of a product followed by these statements, normalised.
Region product_with(const std::string& statements) {
  FusedProgram program = fused(
      "input %x: f32[3, 4]\ninput %w: f32[4, 5]\ninput %b: f32[5]\n%p: ? = MatMul \"p\" (%x, %w)\n" + statements);
  EXPECT_EQ(program.steps.size(), 1u);
  normalise(program.steps[0].region);
  return program.steps[0].region;
}

TEST(SplitRegion, cuts_where_all_that_is_made_of_the_product_passes) {
  const Region region = product_with(
      "%q: ? = Add \"q\" (%p, %b)\n%s: ? = Sigmoid \"s\" (%q)\n%m: ? = Mul \"m\" (%q, %s)\n%y: ? = Sin \"y\" (%m)\n"
      "output %y\n");
  // The product, with its bias, and x * sigmoid(x); nothing between those two.
  ASSERT_EQ(count_cuts(region), 3u);
  const auto parts = split_region(region, 1);
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->product_inputs.size(), 3u);
  EXPECT_TRUE(parts->rest_inputs.empty());
  EXPECT_FALSE(split_region(region, 3));
}

TEST(SplitRegion, cuts_no_reduction_that_is_no_product) {
  const FusedProgram program = fused(
      "input %x: f32[3, 4]\n%m: ? = ReduceMax \"m\" (%x) {keepdims = 0}\n%y: ? = Exp \"y\" (%m)\noutput %y\n");
  EXPECT_EQ(count_cuts(program.steps[0].region), 0u);
}

TEST(SplitStep, products_of_products_are_steps_of_their_own) {
  RegionBuilder b;
  const Tensor x = b.input("x", kF32, {8, 4}), w = b.input("w", kF32, {4, 6}), v = b.input("v", kF32, {6, 5});
  const Tensor inner = b.reduce("inner", Intrinsic::kAdd, {8, 6}, {4}, [&](const Indices& i, const Indices& k) {
    return x({i[0], k[0]}) * w({k[0], i[1]});
  });
  const Tensor grown = b.compute("grown", kF32, {8, 6}, [&](const Indices& i) { return exp(inner(i)); });
  const Tensor outer = b.reduce("outer", Intrinsic::kAdd, {8, 5}, {6}, [&](const Indices& i, const Indices& k) {
    return grown({i[0], k[0]}) * v({k[0], i[1]});
  });
  FusedStep step{.name = "chain", .region = b.finish("chain", {outer}), .inputs = {0, 1, 2}, .outputs = {3}};
  std::vector<FusedTensor> tensors(4);
  const std::vector<FusedStep> steps = split_step(step, tensors);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].region.forms.size(), 2u);
  EXPECT_EQ(steps[1].inputs, (std::vector<int>{4, 2}));
  EXPECT_EQ(steps[1].outputs, (std::vector<int>{3}));
}

/// The gates of a cell: `reads` columns of a product of `columns`, each `apart` from the one before.
FusedStep gates(int64_t columns, int64_t apart, int64_t reads) {
  RegionBuilder b;
  const Tensor h = b.input("h", kF32, {8, 16}), r = b.input("r", kF32, {columns, 16}), c = b.input("c", kF32, {8, 32});
  const Tensor part = b.reduce("part", Intrinsic::kAdd, {8, columns}, {16}, [&](const Indices& i, const Indices& k) {
    return h({i[0], k[0]}) * r({i[1], k[0]});
  });
  const Tensor biased = b.compute("biased", kF32, {8, columns}, [&](const Indices& i) { return exp(part(i)); });
  const Tensor next = b.compute("next", kF32, {8, 32}, [&](const Indices& i) {
    Expr sum = c(i);
    for (int64_t g = 0; g < reads; ++g) sum = sum + biased({i[0], i[1] + make_index(g * apart)});
    return sum;
  });
  const Tensor shown = b.compute("shown", kF32, {8, 32}, [&](const Indices& i) { return tanh(next(i)); });
  return {.name = "gates", .region = b.finish("gates", {next, shown}), .inputs = {0, 1, 2}, .outputs = {3, 4}};
}

TEST(SplitStep, a_product_keeps_the_maps_that_gather_its_columns_where_a_kernel_can) {
  std::vector<FusedTensor> tensors(5);
  EXPECT_EQ(split_step(gates(128, 32, 4), tensors, {}, true).size(), 1u);
  EXPECT_EQ(split_step(gates(128, 32, 4), tensors, {}, false).size(), 2u) << "not on a CPU";
  EXPECT_EQ(split_step(gates(128, 8, 3), tensors, {}, true).size(), 2u) << "the columns overlap";
  EXPECT_EQ(split_step(gates(130, 32, 4), tensors, {}, true).size(), 2u) << "the parts are not of one size";
}

TEST(Product, gathers_columns_in_tiles_of_all_parts) {
  Region region = gates(128, 32, 4).region;
  normalise(region);
  const Target target = find_target("sm_90a", 1);
  const auto refusal = [&](const tile::ProductSchedule& schedule) {
    const auto lowered = tile::lower(region, {}, schedule, target);
    const auto* reason = std::get_if<std::string>(&lowered);
    return reason ? *reason : "";
  };
  const tile::ProductSchedule fits{.m = 16, .n = 32, .k = 16, .threads = 32, .stages = 3, .panel = 0};
  EXPECT_EQ(refusal(fits), "");
  tile::ProductSchedule other = fits;
  other.n = 24;
  EXPECT_EQ(refusal(other), "a tile's columns are not as many of each part");
  other = fits;
  other.producers = 128, other.threads = 128, other.m = 64;
  EXPECT_EQ(refusal(other), "its columns are gathered, which blocks with producers cannot");
}

/// Whether the first schedule of a product for a GPU brings constants early; `windows`: of how many elements.
bool is_early(int64_t windows, int64_t depth, bool constant) {
  RegionBuilder b;
  const Tensor x = b.input("x", kF32, {64 + windows, depth}), w = b.input("w", kF32, {windows, depth, 64});
  const Tensor y = b.reduce("y", Intrinsic::kAdd, {64, 64}, {windows, depth}, [&](const Indices& i, const Indices& k) {
    return x({i[0] + k[0], k[1]}) * w({k[0], k[1], i[1]});
  });
  Region region = b.finish("windows", {y});
  normalise(region);
  const auto choices = schedule_candidates(region, {false, constant, false}, {}, find_target("sm_90a", 1));
  return choices[0].schedule.as<tile::ProductSchedule>()->early != 0;
}

TEST(Schedules, weights_are_brought_early_but_for_windows_of_many_rounds) {
  EXPECT_TRUE(is_early(1, 4096, true));
  EXPECT_FALSE(is_early(1, 4096, false)) << "nothing is constant";
  EXPECT_TRUE(is_early(3, 64, true));
  EXPECT_FALSE(is_early(9, 1024, true)) << "two beginnings cost registers";
}

TEST(Schedules, weights_that_are_also_read_in_another_way_are_not_packed) {
  const auto layouts = [](bool again) {
    RegionBuilder b;
    const Tensor x = b.input("x", kF32, {64, 64}), w = b.input("w", kF32, {64, 64});
    const Tensor p = b.reduce("p", Intrinsic::kAdd, {64, 64}, {64}, [&](const Indices& i, const Indices& k) {
      return x({i[0], k[0]}) * w({k[0], i[1]});
    });
    const Tensor y = b.compute("y", kF32, {64, 64}, [&](const Indices& i) { return p(i) + (again ? w(i) : x(i)); });
    Region region = b.finish("residual", {y});
    normalise(region);
    std::vector<bool> constant(region.tensors.size());
    constant[1] = true;
    return schedule_candidates(region, constant, {}, find_target("x86-64-v3", 1))[0].layouts;
  };
  EXPECT_TRUE(layouts(false)[1]);
  EXPECT_FALSE(layouts(true)[1]);
}

TEST(Nest, windows_of_single_channels_run_along_channels_whatever_order_their_weights_are_in) {
  RegionBuilder b;
  const Tensor x = b.input("x", kF32, {10, 100}), w = b.input("w", kF32, {96, 3});
  const Tensor y = b.reduce("y", Intrinsic::kAdd, {8, 96}, {3}, [&](const Indices& i, const Indices& k) {
    return x({i[0] + k[0], i[1]}) * w({i[1], k[0]});
  });
  const Region region = b.finish("depthwise", {y});
  const Choice choice = choice_of(region, {false, true, false}, tile::NestSchedule{});
  ASSERT_TRUE(choice.layouts[1]) << "constant weights lie as the lanes read them";
  const auto lowered = tile::lower(region, choice.layouts, choice.schedule, find_target("x86-64-v3", 1));
  ASSERT_TRUE(std::holds_alternative<tile::Program>(lowered));
  EXPECT_NE(tile::print(std::get<tile::Program>(lowered)).find("bound 64] over [i1 < 3"), std::string::npos)
      << tile::print(std::get<tile::Program>(lowered));
}

TEST(MergeAttention, narrow_floats_keep_the_roundings_of_their_logits) {
  const FusedProgram program = fused(R"(
    input %q: f16[2, 3, 9, 16]
    input %k: f16[2, 3, 16, 5]
    input %v: f16[2, 3, 5, 8]
    input %factor: f16[3, 1, 1]
    input %bias: f16[1, 3, 9, 5]
    %s: ? = MatMul "scores" (%q, %k)
    %f: ? = Mul "scaled" (%s, %factor)
    %l: ? = Add "biased" (%f, %bias)
    %p: ? = Softmax "softmax" (%l)
    %y: ? = MatMul "context" (%p, %v)
    output %y
)");
  ASSERT_EQ(program.steps.size(), 1u);
  EXPECT_TRUE(program.notes.empty()) << program.notes[0];
  Region region = program.steps[0].region;
  normalise(region);
  std::string reason;
  const auto forms = find_attention(region, reason);
  ASSERT_TRUE(forms) << reason;
  int roundings = 0;
  for_each(forms->logits,
           [&](const Expr& e) { roundings += is_call(e, Intrinsic::kCast) && e->type == DType::kFloat16; });
  EXPECT_EQ(roundings, 3);
}

TEST(MergeAttention, rows_without_keys_have_results_of_zero) {
  const FusedProgram program = fused(R"(
    input %q: f32[2, 3, 9, 16]
    input %k: f32[2, 3, 16, 5]
    input %v: f32[2, 3, 5, 8]
    input %shown: bool[9, 5]
    constant %none: f32[] = all -inf
    %s: ? = MatMul "scores" (%q, %k)
    %c: ? = Tanh "changed" (%s)
    %l: ? = Where "hidden" (%shown, %c, %none)
    %p: ? = graft::MaskedSoftmax "softmax" (%l)
    %y: ? = MatMul "context" (%p, %v)
    output %y
)");
  ASSERT_EQ(program.steps.size(), 1u);
  Region region = program.steps[0].region;
  normalise(region);
  std::string reason;
  const auto forms = find_attention(region, reason);
  ASSERT_TRUE(forms) << reason;
  bool chooses = false;
  for_each(forms->results.back()->value, [&](const Expr& e) { chooses |= is_call(e, Intrinsic::kSelect); });
  EXPECT_TRUE(chooses) << "of the divisor";
}

TEST(MergeAttention, leaves_constant_keys_to_products_of_packed_weights) {
  const FusedProgram program = fused(R"(
    input %x: f32[9, 16]
    input %v: f32[5, 8]
    constant %k: f32[16, 5] = all 0.5
    %s: ? = MatMul "scores" (%x, %k)
    %p: ? = Softmax "softmax" (%s)
    %y: ? = MatMul "context" (%p, %v)
    output %y
)");
  EXPECT_EQ(program.steps.size(), 3u);
}

}  // namespace
}  // namespace graft
