// SPDX-License-Identifier: Apache-2.0
// Which strategy takes which region, and why the others do not.
#include "strategy/strategy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expr/build.h"
#include "fuse/contraction.h"
#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"
#include "graph/infer.h"
#include "strategy/attention.h"
#include "strategy/contract.h"
#include "strategy/nest.h"
#include "strategy/product.h"
#include "tile/builder.h"

namespace graft {
namespace {

Region product(const Size& m, const Size& n, const Size& k, bool relu) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {m, k});
  const Tensor w = b.input("w", DType::kFloat32, {k, n});
  Tensor y = b.reduce("sum", Intrinsic::kAdd, {m, n}, {k}, [&](const Indices& i, const Indices& r) {
    return x({i[0], r[0]}) * w({r[0], i[1]});
  });
  const Tensor sum = y;
  if (relu) {
    y = b.compute("y", DType::kFloat32, {m, n},
                  [&](const Indices& i) { return max(sum(i), make_constant(DType::kFloat32, 0)); });
  }
  Region region = b.finish("product", {y});
  normalise(region);
  return region;
}

const tile::Program* program(const tile::Lowered& lowered) { return std::get_if<tile::Program>(&lowered); }

int count_contracts(const tile::Program& p) {
  int count = 0;
  for (const tile::Statement& s : p.body) count += std::holds_alternative<tile::Contract>(s.node);
  return count;
}

TEST(Lower, a_matrix_product_is_one_contract_a_tile) {
  const Region region = product(Size::symbol("rows"), 96, 64, true);
  const tile::Lowered lowered = lower(region, {}, tile::ContractSchedule{}, find_target("x86-64-v3", 2));
  ASSERT_TRUE(program(lowered)) << std::get<std::string>(lowered);
  EXPECT_EQ(count_contracts(*program(lowered)), 1);
  EXPECT_EQ(program(lowered)->sizes, std::vector<std::string>{"rows"});
}

TEST(Lower, every_program_reads_back_as_printed) {
  const Region region = product(33, 96, 64, true);
  for (const tile::Schedule& schedule :
       {tile::Schedule(tile::ContractSchedule{}), tile::Schedule(tile::NestSchedule{})}) {
    const tile::Lowered lowered = lower(region, {}, schedule, find_target("x86-64-v3", 2));
    ASSERT_TRUE(program(lowered));
    const std::string text = tile::print(*program(lowered));
    EXPECT_EQ(tile::print(tile::parse_program(text)), text);
  }
}

TEST(Lower, products_may_round_to_tf32_where_the_region_says_so_and_the_target_can) {
  const auto rounds = [](bool allowed, const Target& target) {
    Region region = product(33, 96, 64, true);
    region.tf32 = allowed;
    tile::Schedule schedule = tile::ContractSchedule{.panel = 0};
    if (target.kind == TargetKind::kCuda) schedule = tile::ProductSchedule{.panel = 0};
    const tile::Lowered lowered = lower(region, {}, schedule, target);
    if (const auto* reason = std::get_if<std::string>(&lowered)) ADD_FAILURE() << *reason;
    return program(lowered) && tile::print(*program(lowered)).find(" tf32 {") != std::string::npos;
  };
  Target old = find_target("sm_80");
  old.architecture = "sm_75";
  EXPECT_TRUE(rounds(true, find_target("sm_80")));
  EXPECT_TRUE(rounds(true, find_target("sm_120")));
  EXPECT_FALSE(rounds(false, find_target("sm_90a")));
  EXPECT_FALSE(rounds(true, old));
  EXPECT_FALSE(rounds(true, find_target("x86-64-v3", 2)));
}

TEST(Lower, products_split_operands_where_the_schedule_says_so_and_the_region_may) {
  const auto reason_of = [](const char* unit, const char* target, void (*change)(Region&), int64_t producers = 0) {
    Region region = product(33, 96, 64, true);
    change(region);
    const tile::Schedule schedule = tile::ProductSchedule{.panel = 0, .producers = producers, .unit = find_unit(unit)};
    const tile::Lowered lowered = lower(region, {}, schedule, find_target(target));
    const auto* reason = std::get_if<std::string>(&lowered);
    if (!reason) {
      EXPECT_NE(tile::print(*program(lowered)).find(" unit mma_tf32x3 {"), std::string::npos);
    }
    return reason ? *reason : "";
  };
  const auto as_it_is = [](Region&) {};
  EXPECT_EQ(reason_of("mma_tf32x3", "sm_80", as_it_is), "");
  EXPECT_EQ(reason_of("mma_tf32x3", "sm_80", [](Region& region) { region.fma = true; }),
            "products shall be multiply-adds");
  EXPECT_NE(reason_of("mma_tf32x3", "sm_80", [](Region& region) { region.tf32 = true; }), "");
  EXPECT_NE(reason_of("mma_tf32x3", "sm_90a", as_it_is, 128), "");
  EXPECT_EQ(reason_of("wgmma_tf32x3", "sm_80", as_it_is), "the target has no wgmma_tf32x3");
  EXPECT_EQ(reason_of("mma_f16", "sm_80", as_it_is), "products take mma_f16 by themselves");
}

TEST(Lower, operands_of_a_product_may_share_an_index) {
  const auto text = [](std::string_view let, std::string_view index) {
    return fmt::format(R"(program shared_index {{
  threads 64
  global a: f32[64, 64] strides [64, 1]
  global b: f32[64, 64] strides [64, 1]
  fragment c: f32[32, 32] strides [32, 1]
  grid [g0 < 2]
  body {{
    contract m [i0 < 32] n [i1 < 32] k [i2 < 32] {{
{}      c[i0, i1] = a[i0, {}] * b[{}, i1]
    }}
  }}
}}
)",
                       let, index, index);
  };
  const std::string index = "add(mul(32, g0), i2)";
  EXPECT_EQ(tile::print(tile::parse_program(text("      let t0 = " + index + "\n", "t0"))), text("", index));
}

TEST(Lower, a_map_is_cut_into_chunks) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {3, 5000});
  const Tensor y = b.compute("y", DType::kFloat32, {3, 5000}, [&](const Indices& i) { return exp(x({i[0], i[1]})); });
  Region region = b.finish("map", {y});
  normalise(region);
  const tile::Lowered lowered = lower(region, {}, tile::NestSchedule{.chunk = 4096}, find_target("x86-64-v3", 2));
  ASSERT_TRUE(program(lowered));
  Size points = 1;
  for (const Axis& axis : program(lowered)->grid) points = points * axis.extent;
  EXPECT_EQ(points, Size(4));  // 15000 elements
}

TEST(Lower, blocks_of_a_gpu_have_threads) {
  const Region region = product(512, 512, 512, true);
  const tile::Schedule schedule = tile::ProductSchedule{.m = 128, .n = 64, .k = 32, .panel = 0};
  const tile::Lowered on_gpu = lower(region, {}, schedule, find_target("sm_90a", 1));
  ASSERT_TRUE(program(on_gpu)) << std::get<std::string>(on_gpu);
  EXPECT_EQ(program(on_gpu)->threads % 32, 0);
  EXPECT_GT(program(on_gpu)->threads, 0);
  EXPECT_FALSE(program(lower(region, {}, tile::ContractSchedule{}, find_target("sm_90a", 1))));
  EXPECT_FALSE(program(lower(region, {}, schedule, find_target("x86-64-v3", 1))));
}

TEST(Lower, teams_of_a_block_want_producers_and_a_tile_of_their_own) {
  const Region region = product(512, 512, 512, true);
  const Target target = find_target("sm_90a", 1);
  tile::ProductSchedule schedule{.threads = 128, .panel = 0, .producers = 128, .teams = 2};
  const tile::Lowered teams = lower(region, {}, schedule, target);
  ASSERT_TRUE(program(teams)) << std::get<std::string>(teams);
  EXPECT_EQ(program(teams)->roles.teams, 2);
  schedule.split = 2;
  EXPECT_FALSE(program(lower(region, {}, schedule, target)));
  schedule.split = 1, schedule.producers = 0;
  EXPECT_FALSE(program(lower(region, {}, schedule, target)));
}

/// softmax(q k^T) v over f16 operands.
Region attention_of_halves() {
  Graph graph = parse_graph(R"(graph "main" {
  opset "" 28
  input %q: f16[2, 3, 100, 16]
  input %k: f16[2, 3, 70, 16]
  input %v: f16[2, 3, 70, 16]
  %y: ? = Attention "attention" (%q, %k, %v)
  output %y
}
)");
  infer_types(graph);
  Region region = fuse(graph).steps.at(0).region;
  normalise(region);
  return region;
}

TEST(Lower, attention_over_halves_widens_on_a_cpu_and_narrows_its_weights_on_a_gpu) {
  const Region region = attention_of_halves();
  const auto text = [&](const Target& target) {
    const tile::Lowered lowered = lower(region, {}, tile::AttentionSchedule{.queries = 64, .keys = 64}, target);
    const tile::Program* found = program(lowered);
    return found ? tile::print(*found) : std::get<std::string>(lowered);
  };
  const std::string on_cpu = text(find_target("x86-64-v3", 2)), on_gpu = text(find_target("sm_90a"));
  for (const char* part : {"shared wide: f32[64, 16]", "shared values: f32[64, 16]", "fragment scores: f32[64, 64]"}) {
    EXPECT_NE(on_cpu.find(part), std::string::npos) << part << " is not in\n" << on_cpu;
  }
  EXPECT_EQ(on_cpu.find("fragment weights"), std::string::npos);
  for (const char* part : {"fragment weights: f16[64, 64]", "fragment scores: f32[64, 64]", "= cast<f16>(scores["}) {
    EXPECT_NE(on_gpu.find(part), std::string::npos) << part << " is not in\n" << on_gpu;
  }
  EXPECT_EQ(on_gpu.find("shared wide"), std::string::npos);
  // 70 keys are two tiles: only the second has columns that are no keys.
  for (const char* part : {"exp2(fma(scores[", "] * 1:f16", "if gt("}) {
    EXPECT_NE(on_gpu.find(part), std::string::npos) << part << " is not in\n" << on_gpu;
  }
  EXPECT_EQ(on_gpu.find("exp(sub("), std::string::npos) << on_gpu;
}

TEST(Lower, attention_on_a_gpu_takes_tiles_of_whole_steps) {
  const Region region = attention_of_halves();
  const tile::Lowered lowered =
      lower(region, {}, tile::AttentionSchedule{.queries = 64, .keys = 40}, find_target("sm_90a"));
  EXPECT_EQ(std::get<std::string>(lowered), "a tile of keys is not whole steps of 16");
}

TEST(Lower, what_results_of_attention_share_as_a_divisor_of_their_row_is_inverted_once) {
  const std::string text = print(attention_of_halves());
  const size_t begin = text.rfind("cast<f16>(div("), end = text.find('\n', begin);
  ASSERT_NE(begin, std::string::npos) << text;
  const auto inverted = [&](const std::string& value) {
    std::string changed = text.substr(0, begin) + value + text.substr(end);
    for (const std::string declared : {"tensor t: f32[6, 100]\n", "tensor w: f32[16]\n"}) {
      changed.insert(changed.find("tensor q:"), declared);
    }
    changed.insert(changed.find("input q"), "input t\ninput w\n");
    Region region = parse_region(changed);
    normalise(region);
    const tile::Lowered lowered =
        lower(region, {}, tile::AttentionSchedule{.queries = 64, .keys = 64}, find_target("sm_90a"));
    const tile::Program* made = program(lowered);
    EXPECT_TRUE(made) << std::get<std::string>(lowered);
    return made && tile::print(*made).find("div(1:f32, ") != std::string::npos;
  };
  const std::string sum = "sum[i0, i1]", result = "cast<f16>(div(weighted[i0, i1, i2], ";
  EXPECT_TRUE(inverted(result + sum + "))"));
  EXPECT_TRUE(inverted(result + "add(" + sum + ", 1:f32)))"));
  EXPECT_FALSE(inverted(result + "mul(" + sum + ", t[i0, i1])))")) << "it reads another tensor";
  EXPECT_FALSE(inverted("cast<f16>(add(div(weighted[i0, i1, i2], t[i0, i1]), " + sum + "))")) << "it is of no sum";
  EXPECT_FALSE(inverted(result + "mul(" + sum + ", w[i2])))")) << "it varies within the row";
  EXPECT_FALSE(inverted("cast<f16>(add(div(weighted[i0, i1, i2], " + sum + "), " + sum + "))")) << "the sum is wanted";
}

TEST(Lower, takes_memory_of_a_block_up_to_the_last_byte) {
  const Region region = product(512, 512, 512, true);
  const tile::Schedule schedule = tile::ProductSchedule{.m = 128, .n = 64, .k = 32, .panel = 0};
  Target target = find_target("sm_90a", 1);
  const tile::Lowered made = lower(region, {}, schedule, target);
  ASSERT_TRUE(program(made)) << std::get<std::string>(made);
  const auto bytes = tile::scratch_offsets(*program(made)).back().as_constant();
  ASSERT_TRUE(bytes && *bytes > 0);
  target.shared_bytes = *bytes;
  EXPECT_TRUE(program(lower(region, {}, schedule, target)));
  --target.shared_bytes;
  EXPECT_EQ(std::get<std::string>(lower(region, {}, schedule, target)),
            fmt::format("a block wants {} bytes of shared memory and has {}", *bytes, *bytes - 1));
}

TEST(Lower, takes_scratch_of_a_grid_point_up_to_its_limit) {
  const auto softmax = [](int64_t length) {
    Graph graph = parse_graph(fmt::format(R"(graph "main" {{
  opset "" 20
  input %x: f32[4, {}]
  %y: ? = Softmax "softmax" (%x) {{axis = -1}}
  output %y
}}
)", length));
    infer_types(graph);
    Region region = fuse(graph).steps.at(0).region;
    normalise(region);
    return lower(region, {}, tile::NestSchedule{}, find_target("x86-64-v3", 2));
  };
  const tile::Lowered small = softmax(1 << 20);
  ASSERT_TRUE(program(small)) << std::get<std::string>(small);
  const int64_t rest = tile::scratch_offsets(*program(small)).back().constant() - (int64_t{4} << 20);
  ASSERT_GE(rest, 0);
  const int64_t most = ((int64_t{256} << 20) - rest) / 4;  // elements of a row
  EXPECT_TRUE(program(softmax(most)));
  const tile::Lowered large = softmax(most + 16);
  ASSERT_FALSE(program(large));
  EXPECT_NE(std::get<std::string>(large).find("bytes of scratch"), std::string::npos);
}

TEST(Lower, what_is_no_contraction_gives_the_reason) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {8, 8});
  const Tensor y = b.compute("y", DType::kFloat32, {8, 8}, [&](const Indices& i) { return exp(x(i)); });
  Region region = b.finish("map", {y});
  normalise(region);
  const Target target = find_target("x86-64-v3", 1);
  EXPECT_TRUE(program(lower(region, {}, tile::NestSchedule{}, target)));
  EXPECT_FALSE(program(lower(region, {}, tile::ContractSchedule{}, target)));
  EXPECT_FALSE(program(lower(region, {}, tile::AttentionSchedule{}, target)));
}

TEST(Lower, names_become_c_identifiers) {
  EXPECT_EQ(tile::identifier("layer_9Z"), "layer_9Z");
  EXPECT_EQ(tile::identifier("/layer.0/Add[a-z]:{|}~@`^"), "_layer_0_Add_a_z_________");
  EXPECT_EQ(tile::identifier("9a"), "_9a");
  EXPECT_EQ(tile::identifier("0"), "_0");
  EXPECT_EQ(tile::identifier(""), "_");
}

TEST(Contraction, lanes_are_the_operand_that_varies_innermost) {
  const Region region = product(4, 5, 6, false);
  const auto contraction = find_contraction(std::get<Reduce>(region.forms[0]));
  ASSERT_TRUE(contraction);
  EXPECT_EQ(contraction->m.size(), 1u);
  EXPECT_EQ(contraction->n.size(), 1u);
  EXPECT_TRUE(contraction->m[0].extent.is(4));
  EXPECT_TRUE(contraction->n[0].extent.is(5));
  EXPECT_TRUE(multiplications(*contraction).is(120));
}

TEST(Normalise, neighbouring_axes_of_a_map_become_one) {
  RegionBuilder b;
  const Size n = Size::symbol("n");
  const Tensor x = b.input("x", DType::kFloat32, {n, 3, 5});
  const Tensor y = b.compute("y", DType::kFloat32, {n, 3, 5}, [&](const Indices& i) { return x(i) * x(i); });
  Region region = b.finish("square", {y});
  normalise(region);
  ASSERT_EQ(region.tensors[region.inputs[0]].shape.size(), 1u);
  EXPECT_EQ(region.tensors[region.inputs[0]].shape[0], n * Size(15));
}

TEST(Normalise, keeps_axes_apart_that_a_broadcast_tells_apart) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {4, 3});
  const Tensor bias = b.input("bias", DType::kFloat32, {3});
  const Tensor y = b.compute("y", DType::kFloat32, {4, 3}, [&](const Indices& i) { return x(i) + bias({i[1]}); });
  Region region = b.finish("add", {y});
  normalise(region);
  EXPECT_EQ(region.tensors[region.inputs[0]].shape.size(), 2u);
}

}  // namespace
}  // namespace graft
