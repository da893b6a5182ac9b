// SPDX-License-Identifier: Apache-2.0
// Which products keep their weights packed, by what they are compiled for.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "driver/compile.h"
#include "graph/graph.h"
#include "graph/infer.h"

namespace graft {
namespace {

/// Whether the product of rows of this type with 8-bit weights reads codes when it is compiled for the targets.
bool stays_packed(const std::string& rows, const char* type, const std::vector<std::string>& targets,
                  Precision precision = Precision::kFp32) {
  Graph graph = parse_graph(fmt::format(R"(graph "main" {{
  opset "" 25
  input %x: {1}[{0}, 128]
  constant %codes: u8[128, 160] = all 3
  constant %scales: {1}[4, 160] = all 0.5
  %w: ? = DequantizeLinear "weights" (%codes, %scales) {{axis = 0, block_size = 32}}
  %y: ? = MatMul "product" (%x, %w)
  output %y
}})", rows, type));
  infer_types(graph);
  CompileOptions options;
  options.targets = targets;
  options.precision = precision;
  rewrite(graph, options, nullptr);
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return node.op == "PackedMatMul"; });
}

TEST(PackedTargets, processors_decode_rows_of_all_types) {
  for (const char* type : {"f32", "f16", "bf16"}) {
    EXPECT_TRUE(stays_packed("1", type, {"x86-64-v3"})) << type;
    EXPECT_TRUE(stays_packed("4096", type, {"portable"})) << type;
  }
}

TEST(PackedTargets, gpus_decode_few_rows_of_16_bits_or_a_number_that_a_run_knows) {
  for (const char* rows : {"1", "256", "rows"}) {
    EXPECT_TRUE(stays_packed(rows, "f16", {"sm_90a"})) << rows;
    EXPECT_TRUE(stays_packed(rows, "bf16", {"sm_80"})) << rows;
    EXPECT_FALSE(stays_packed(rows, "f32", {"sm_90a"})) << rows;
  }
  EXPECT_FALSE(stays_packed("257", "f16", {"sm_90a"}));
}

TEST(PackedTargets, the_precision_that_is_asked_for_decides_and_every_target_has_to_agree) {
  EXPECT_TRUE(stays_packed("1", "f32", {"sm_90a"}, Precision::kFp16));
  EXPECT_FALSE(stays_packed("1", "f32", {"x86-64-v3", "sm_90a"}));
  EXPECT_TRUE(stays_packed("1", "f16", {"x86-64-v3", "sm_90a"}));
}

}  // namespace
}  // namespace graft
