// SPDX-License-Identifier: Apache-2.0
// Convolutions and attention in cuDNN against their definitions in the interpreter, in each of its plans. Skipped
// without a GPU.
#include <fmt/format.h>

#include "support/gpu_case.h"
#include "support/library_graphs.h"

namespace graft {
namespace {

class CudnnOnGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string missing = why_no_cuda_device();
    if (!missing.empty()) GTEST_SKIP() << missing;
    ASSERT_EQ(why_no_library("cudnn"), "");
  }
  int ways(ConvolutionGraph graph, const Bindings& bindings = {}) const {
    graph.type = GetParam();
    const std::string text = graph.text();
    printf("  %s [%s] %s%s\n", GetParam(), graph.weights.c_str(), graph.attributes.c_str(), graph.after.c_str());
    return expect_all_ways(region_of(text, "conv"), "cudnn", 1, GetParam(), bindings);
  }
  std::string type() const { return GetParam(); }
};

constexpr const char* kPadded = "pads = [1, 1, 1, 1]";

TEST_P(CudnnOnGpu, convolutions) {
  EXPECT_GT(ways({"2, 16, 14, 13", "32, 16, 3, 3", kPadded, 16, 32}), 0);
  EXPECT_GT(ways({"2, 16, 14, 14", "32, 16, 3, 3", "pads = [1, 1, 1, 1], strides = [2, 2]", 16, 32}), 0);
  EXPECT_GT(ways({"2, 16, 14, 14", "32, 16, 1, 1", "strides = [2, 2]", 16, 32}), 0);
}

TEST_P(CudnnOnGpu, bias_residual_and_relu) {
  const std::string bias = "  input %b: " + type() + "[32, 1, 1]\n", add_bias = "  %d: ? = Add \"n\" (%c, %b)\n";
  ConvolutionGraph graph{"2, 16, 14, 14", "32, 16, 3, 3", kPadded, 16, 32};
  graph.after = "  %z: ? = Relu \"r\" (%c)\n";
  ways(graph);  // refused for f32
  graph.inputs = bias;
  graph.after = "  %z: ? = Add \"n\" (%c, %b)\n";
  EXPECT_GT(ways(graph), 0);
  graph.after = add_bias + "  %z: ? = Relu \"r\" (%d)\n";
  EXPECT_GT(ways(graph), 0);
  // The residual is a tensor with its channels last, too.
  ConvolutionGraph residual{"2, 16, 14, 14", "16, 16, 3, 3", kPadded, 16, 16};
  residual.inputs = "  input %b: " + type() + "[16, 1, 1]\n";
  residual.after = add_bias + "  %e: ? = Add \"m\" (%d, %x)\n  %z: ? = Relu \"r\" (%e)\n";
  EXPECT_GT(ways(residual), 0);
}

TEST_P(CudnnOnGpu, rounds_to_tf32_where_it_may) {
  if (type() != "f32") GTEST_SKIP();
  ConvolutionGraph graph{"2, 16, 14, 14", "32, 16, 3, 3", kPadded, 16, 32};
  graph.after = "  %z: ? = Relu \"r\" (%c)\n";
  Region region = region_of(graph.text(), "conv");
  region.tf32 = true;
  EXPECT_GT(expect_all_ways(region, "cudnn", 1, "tf32"), 0);
}

/// Attention over two of a batch and two heads; `mask`: the type and shape of one that is added, or empty.
struct AttentionGraph {
  int queries = 128, keys = 128, depth = 64;
  std::string mask = "", attributes = "";

  Region region(const std::string& type) const {
    const auto tensor = [&](const char* name, int rows) {
      return fmt::format("%{}: {}[2, 2, {}, {}]", name, type, rows, depth);
    };
    const std::string made = mask.empty() ? "%m: f32[1]" : "%m: " + mask;
    const std::string node = fmt::format("%y: ? = Attention \"attention\" (%q, %k, %v{}) {{scale = 0.125{}}}",
                                         mask.empty() ? "" : ", %m", attributes);
    return region_of(graph_text({tensor("q", queries), tensor("k", keys), tensor("v", keys), made}, {node}),
                     "attention");
  }
};

TEST_P(CudnnOnGpu, attention) {
  if (type() == "f32") GTEST_SKIP() << "it has none";
  const auto ways = [&](const AttentionGraph& graph) {
    printf("  %s %d queries, %d keys of %d %s %s\n", GetParam(), graph.queries, graph.keys, graph.depth,
           graph.mask.c_str(), graph.attributes.c_str());
    return expect_all_ways(graph.region(type()), "cudnn", 0, GetParam());
  };
  for (const auto& [queries, keys, depth] : {std::tuple{64, 64, 64}, {33, 71, 64}, {9, 130, 40}, {20, 40, 128}}) {
    EXPECT_GT(ways({queries, keys, depth}), 0);
    EXPECT_GT(ways({queries, keys, depth, fmt::format("f32[2, 1, 1, {}]", keys)}), 0);
    EXPECT_GT(ways({queries, keys, depth, fmt::format("{}[2, 1, 1, {}]", type(), keys)}), 0);
    EXPECT_GT(ways({queries, keys, depth, fmt::format("f32[1, 2, {}, {}]", queries, keys)}), 0);
  }
  EXPECT_GT(ways({64, 64, 64, "", ", is_causal = 1"}), 0);
  EXPECT_GT(ways({90, 90, 64, "f32[2, 1, 1, 90]", ", is_causal = 1"}), 0);
  EXPECT_EQ(ways({64, 64, 20}), 0) << "heads of a size that no vector divides";
}

TEST_P(CudnnOnGpu, odd_channels_and_groups_are_right_or_refused) {
  ways({"1, 3, 15, 17", "8, 3, 7, 7", "pads = [3, 3, 3, 3], strides = [2, 2]", 3, 8});
  ways({"1, 7, 9, 10", "5, 7, 3, 3", "", 7, 5});
  ways({"1, 48, 9, 10", "48, 1, 3, 3", "group = 48", 48, 48});
  ways({"1, 32, 9, 10", "64, 8, 3, 3", "group = 4, dilations = [2, 2]", 32, 64});
}

TEST_P(CudnnOnGpu, any_number_of_images) {
  for (const int64_t batch : {1, 3, 8}) {
    EXPECT_GT(ways({"batch, 16, 14, 14", "32, 16, 3, 3", kPadded, 16, 32}, {{"batch", batch}}), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CudnnOnGpu, testing::Values("f32", "f16", "bf16"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace graft
