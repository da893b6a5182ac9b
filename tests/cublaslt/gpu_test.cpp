// SPDX-License-Identifier: Apache-2.0
// Products in cuBLASLt against their definitions in the interpreter, in each of its ways. Skipped without a GPU.
#include "support/gpu_case.h"
#include "support/library_graphs.h"

namespace graft {
namespace {

class CublasLtOnGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string missing = why_no_cuda_device();
    if (!missing.empty()) GTEST_SKIP() << missing;
    ASSERT_EQ(why_no_library("cublaslt"), "");
  }
  std::string type() const { return GetParam(); }
  int ways(const Region& region, const Bindings& bindings = {}) const {
    return expect_all_ways(region, "cublaslt", 0, type(), bindings);
  }
  Region product(const std::string& m, int n, int k, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& after) const {
    return region_of(product_graph(m, n, k, inputs, after, GetParam()), "product");
  }
};

TEST_P(CublasLtOnGpu, products) {
  EXPECT_GT(ways(product("48", 96, 64, {}, {})), 0);
  EXPECT_GT(ways(product("1", 1000, 512, {}, {})), 0);
  EXPECT_GT(ways(product("300", 256, 768, {}, {})), 0);
}

TEST_P(CublasLtOnGpu, odd_sizes_are_right_or_refused) {
  for (const auto& [m, n, k] : {std::tuple{"37", 53, 29}, {"1", 7, 13}, {"129", 3, 65}, {"3", 255, 2}}) {
    ways(product(m, n, k, {}, {}));
  }
}

TEST_P(CublasLtOnGpu, rounds_to_tf32_where_it_may) {
  if (type() != "f32") GTEST_SKIP();
  Region region = product("48", 96, 64, {}, {});
  region.tf32 = true;
  EXPECT_GT(expect_all_ways(region, "cublaslt", 0, "tf32"), 0);
}

TEST_P(CublasLtOnGpu, any_number_of_rows) {
  const Region region = product("rows", 64, 32, {}, {});
  for (const int64_t rows : {1, 2, 33, 130}) EXPECT_GT(ways(region, {{"rows", rows}}), 0) << rows;
}

TEST_P(CublasLtOnGpu, epilogues) {
  const std::string vector = "%b: " + type() + "[80]", matrix = "%r: " + type() + "[24, 80]";
  EXPECT_GT(ways(product("24", 80, 32, {vector}, {"%y: ? = Add \"n\" (%p, %b)"})), 0);
  EXPECT_GT(ways(product("24", 80, 32, {matrix}, {"%y: ? = Add \"n\" (%p, %r)"})), 0);
  EXPECT_GT(ways(product("24", 80, 32, {}, {"%y: ? = Relu \"n\" (%p)"})), 0);
  EXPECT_GT(ways(product("24", 80, 32, {vector}, {"%q: ? = Add \"n\" (%p, %b)", "%y: ? = Relu \"m\" (%q)"})), 0);
  EXPECT_GT(ways(product("24", 80, 32, {vector, matrix},
                         {"%q: ? = Add \"n\" (%p, %b)", "%s: ? = Add \"m\" (%q, %r)", "%y: ? = Relu \"o\" (%s)"})),
            0);
}

TEST_P(CublasLtOnGpu, transposed_operands) {
  for (const char* attributes : {"transA = 1", "transB = 1", "transA = 1, transB = 1"}) {
    const bool left = std::string_view(attributes).find("transA") != std::string_view::npos;
    const bool right = std::string_view(attributes).find("transB") != std::string_view::npos;
    const std::string graph =
        graph_text({"%a: " + type() + (left ? "[32, 24]" : "[24, 32]"),
                    "%b: " + type() + (right ? "[48, 32]" : "[32, 48]"), "%c: " + type() + "[48]"},
                   {fmt::format("%y: ? = Gemm \"product\" (%a, %b, %c) {{{}}}", attributes)});
    EXPECT_GT(ways(region_of(graph, "product")), 0) << attributes;
  }
}

TEST_P(CublasLtOnGpu, batches_and_heads) {
  const std::string plain = graph_text({"%a: " + type() + "[3, 7, 16, 32]", "%b: " + type() + "[3, 7, 32, 24]"},
                                       {"%y: ? = MatMul \"product\" (%a, %b)"});
  EXPECT_GT(ways(region_of(plain, "product")), 0);
  const std::string heads =
      graph_text({"%a: " + type() + "[2, 9, 3, 32]", "%b: " + type() + "[2, 9, 3, 32]"},
                 {"%q: ? = Transpose \"q\" (%a) {perm = [0, 2, 1, 3]}",
                  "%k: ? = Transpose \"k\" (%b) {perm = [0, 2, 3, 1]}", "%y: ? = MatMul \"product\" (%q, %k)"});
  ways(region_of(heads, "product"));
}

TEST_P(CublasLtOnGpu, pointwise_convolutions_with_channels_last) {
  ConvolutionGraph graph{"2, 16, 14, 13", "32, 16, 1, 1", "", 16, 32};
  graph.type = type();
  EXPECT_GT(ways(region_of(graph.text(), "conv")), 0);
}

INSTANTIATE_TEST_SUITE_P(Types, CublasLtOnGpu, testing::Values("f32", "f16", "bf16"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace graft
