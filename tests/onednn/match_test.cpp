// SPDX-License-Identifier: Apache-2.0
// Which regions are library calls, as text, and why the others are not.
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "expr/build.h"
#include "support/library_case.h"
#include "support/library_graphs.h"

namespace graft {
namespace {

constexpr const char* kPlain = "onednn cut=rows pieces=2 panel=0";
constexpr const char* kPanels = "onednn cut=rows pieces=2 panel=32";

std::string product_call(const std::string& m, int n, int k, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& after, const char* schedule = kPlain) {
  return call_text(region_of(product_graph(m, n, k, inputs, after), "product"), schedule);
}

TEST(MatchLibrary, a_product_of_symbolic_size_with_bias_and_relu) {
  EXPECT_EQ(product_call("rows", 64, 32, {"%b: f32[64]"}, {"%q: ? = Add \"a\" (%p, %b)", "%y: ? = Relu \"r\" (%q)"}),
            "product f32 batch [], rows rows, columns 64, depth 32\n"
            "source 0 offset 0, strides [32, 1]\n"
            "weights 1 offset 0, strides [64, 1]\n"
            "result 3 offset 0, strides [64, 1]\n"
            "post add 2 offset 0, strides [0, 1]\n"
            "post relu 0:f32\n");
}

TEST(MatchLibrary, a_transposed_operand_is_strides) {
  const std::string graph =
      graph_text({"%a: f32[32, 5]", "%b: f32[64, 32]"}, {"%y: ? = Gemm \"product\" (%a, %b) {transA = 1, transB = 1}"});
  EXPECT_EQ(call_text(region_of(graph, "product"), kPlain),
            "product f32 batch [], rows 5, columns 64, depth 32\n"
            "source 0 offset 0, strides [1, 5]\n"
            "weights 1 offset 0, strides [1, 32]\n"
            "result 2 offset 0, strides [64, 1]\n");
}

TEST(MatchLibrary, heads_are_batch_axes_without_copies) {
  const std::string graph =
      graph_text({"%a: f32[2, 9, 3, 32]", "%b: f32[2, 9, 3, 32]"},
                 {"%q: ? = Transpose \"q\" (%a) {perm = [0, 2, 1, 3]}",
                  "%k: ? = Transpose \"k\" (%b) {perm = [0, 2, 3, 1]}", "%y: ? = MatMul \"product\" (%q, %k)"});
  EXPECT_EQ(call_text(region_of(graph, "product"), kPlain),
            "product f32 batch [2, 3], rows 9, columns 9, depth 32\n"
            "source 0 offset 0, strides [864, 32, 96, 1]\n"
            "weights 1 offset 0, strides [864, 32, 1, 96]\n"
            "result 2 offset 0, strides [243, 81, 9, 1]\n");
}

TEST(MatchLibrary, a_convolution_with_its_channels_last) {
  const ConvolutionGraph graph{"batch, 8, 14, 13", "32, 8, 3, 3", "pads = [1, 1, 1, 1], strides = [2, 1]", 8, 32};
  EXPECT_EQ(call_text(region_of(graph.text(), "conv"), kPanels),
            "product f32 batch [], rows batch, columns 32, depth 8\n"
            "window input 14, output 7, kernel 3, stride 2, dilation 1, before 1\n"
            "window input 13, output 13, kernel 3, stride 1, dilation 1, before 1\n"
            "source 0 offset 0, strides [1456, 1, 104, 8]\n"
            "weights 1 offset 0, panel 32\n"
            "result 2 offset 0, strides [2912, 1, 416, 32]\n");
}

TEST(MatchLibrary, a_depthwise_convolution_has_groups) {
  const ConvolutionGraph graph{"1, 48, 9, 10", "48, 1, 3, 3", "group = 48", 48, 48};
  EXPECT_EQ(call_text(region_of(graph.text(), "conv"), kPlain),
            "product f32 batch [48], rows 1, columns 1, depth 1\n"
            "window input 9, output 7, kernel 3, stride 1, dilation 1, before 0\n"
            "window input 10, output 8, kernel 3, stride 1, dilation 1, before 0\n"
            "source 0 offset 0, strides [1, 0, 0, 480, 48]\n"
            "weights 1 offset 0, strides [9, 0, 0, 3, 1]\n"
            "result 2 offset 0, strides [1, 0, 0, 384, 48]\n");
}

TEST(MatchLibrary, a_pointwise_convolution_is_a_product) {
  const ConvolutionGraph graph{"1, 8, 14, 13", "32, 8, 1, 1", "", 8, 32};
  EXPECT_EQ(call_text(region_of(graph.text(), "conv"), kPlain),
            "product f32 batch [], rows 182, columns 32, depth 8\n"
            "source 0 offset 0, strides [8, 1]\n"
            "weights 1 offset 0, strides [1, 8]\n"
            "result 2 offset 0, strides [32, 1]\n");
}

TEST(MatchLibrary, weights_in_panels_name_their_layout) {
  const ConvolutionGraph graph{"1, 8, 14, 13", "40, 8, 3, 3", "", 8, 40};
  const Region region = region_of(graph.text(), "conv");
  const auto match = match_library(region, parse_library_schedule(kPanels));
  const auto& layout = std::get<LibraryMatch>(match).layouts[region.inputs[1]];
  ASSERT_TRUE(layout);
  EXPECT_EQ(to_string(tile::physical_shape(*layout, region.tensors[region.inputs[1]].shape)), "[2, 3, 3, 8, 32]");
}

TEST(MatchLibrary, a_call_reads_back_as_printed) {
  const std::string text =
      "product f32 batch [batch, 3], rows 4*length + 1, columns 64, depth 32\n"
      "window input 56, output 28, kernel 3, stride 2, dilation 1, before 1\n"
      "source 0 offset 8*length, strides [64*length, 0, 64, 1, 2]\n"
      "weights 1 offset 0, panel 32\n"
      "result 3 offset 0, strides [64*length, 1, 64, 1, 9]\n"
      "post add 2 offset 0, strides [0, 0, 0, 1, 0]\n"
      "post clip -inf:f32 6.5:f32\n"
      "post gelu\n";
  EXPECT_EQ(print(parse_library_call(text)), text);
}

TEST(MatchLibrary, a_schedule_reads_back_as_printed) {
  for (const std::string text : {"onednn cut=rows pieces=2 panel=32", "onednn cut=columns pieces=1 panel=0",
                                 "cublaslt choice=3 panel=0", "cudnn choice=0 panel=1"}) {
    EXPECT_EQ(print(parse_library_schedule(text)), text);
  }
  EXPECT_THROW(parse_library_schedule("onednn cut=rows pieces=0 panel=32"), Error);
  EXPECT_THROW(parse_library_schedule("onednn cut=depth pieces=1 panel=32"), Error);
  EXPECT_THROW(parse_library_schedule("onednn cut=rows pieces=1 panel=31"), Error);
  EXPECT_THROW(parse_library_schedule("onednn choice=1 panel=0"), Error);
  EXPECT_THROW(parse_library_schedule("cudnn choice=-1 panel=0"), Error);
  EXPECT_THROW(parse_library_schedule("cudnn choice=0 panel=2"), Error);
  EXPECT_THROW(parse_library_schedule("mkl choice=0 panel=0"), Error);
}

TEST(MatchLibrary, damaged_calls_are_refused) {
  for (const std::string text :
       {"product f32 batch [], rows 1, columns 64",
        "product f32 batch [], rows 1, columns 64, depth 32\nsource 0 offset 0",
        "product f32 batch [], rows 1, columns 64, depth 32\nsource 0 offset 0, strides [1]"}) {
    EXPECT_THROW(parse_library_call(text), Error) << text;
  }
}

TEST(MatchLibrary, posts_in_the_order_in_which_they_happen) {
  EXPECT_EQ(product_call("4", 8, 3, {"%r: f32[4, 8]"},
                         {"%a: ? = Sub \"a\" (%r, %p)", "%b: ? = Tanh \"b\" (%a)", "%y: ? = Mul \"c\" (%b, %r)"}),
            "product f32 batch [], rows 4, columns 8, depth 3\n"
            "source 0 offset 0, strides [3, 1]\n"
            "weights 1 offset 0, strides [8, 1]\n"
            "result 3 offset 0, strides [8, 1]\n"
            "post linear -1:f32 0:f32\n"
            "post add 2 offset 0, strides [8, 1]\n"
            "post tanh\n"
            "post mul 2 offset 0, strides [8, 1]\n");
}

// --- what must not match ---

TEST(MatchLibrary, a_function_that_no_library_has) {
  EXPECT_EQ(product_call("4", 8, 3, {}, {"%y: ? = Sin \"s\" (%p)"}), "no: no post operation does this sin");
}

/// A product of x [4, 3] and w [3, 8], and what follows it; r is [4, 8].
std::string call_of(const std::function<Expr(const Expr& product, const Expr& r)>& after) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {4, 3}), w = b.input("w", DType::kFloat32, {3, 8});
  const Tensor r = b.input("r", DType::kFloat32, {4, 8});
  const Tensor sum = b.reduce("sum", Intrinsic::kAdd, {4, 8}, {3}, [&](const Indices& i, const Indices& k) {
    return x({i[0], k[0]}) * w({k[0], i[1]});
  });
  const Tensor y = b.compute("y", DType::kFloat32, {4, 8}, [&](const Indices& i) { return after(sum(i), r(i)); });
  return call_text(b.finish("product", {y}), kPlain);
}

TEST(MatchLibrary, the_product_used_twice_outside_a_known_function) {
  EXPECT_EQ(call_of([](const Expr& p, const Expr&) { return p * exp(p); }), "no: no post operation does this mul");
}

TEST(MatchLibrary, a_divided_tensor) {
  EXPECT_EQ(product_call("4", 8, 3, {"%r: f32[4, 8]"}, {"%y: ? = Div \"d\" (%r, %p)"}),
            "no: no post operation does this div");
}

TEST(MatchLibrary, what_is_added_is_computed_on_the_way) {
  EXPECT_EQ(call_of([](const Expr& p, const Expr& r) { return p + exp(r); }),
            "no: what is combined with the product is not a plain tensor");
}

TEST(MatchLibrary, the_result_read_at_another_point) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {8, 3}), w = b.input("w", DType::kFloat32, {3, 8});
  const Tensor sum = b.reduce("sum", Intrinsic::kAdd, {8, 8}, {3}, [&](const Indices& i, const Indices& k) {
    return x({i[0], k[0]}) * w({k[0], i[1]});
  });
  const Tensor y = b.compute("y", DType::kFloat32, {8, 8}, [&](const Indices& i) {
    return sum(i) + sum({i[1], i[0]});
  });
  EXPECT_EQ(call_text(b.finish("product", {y}), kPlain), "no: a map reads the result at another point");
}

TEST(MatchLibrary, a_transposed_result_is_strides) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {4, 3}), w = b.input("w", DType::kFloat32, {3, 8});
  const Tensor sum = b.reduce("sum", Intrinsic::kAdd, {4, 8}, {3}, [&](const Indices& i, const Indices& k) {
    return x({i[0], k[0]}) * w({k[0], i[1]});
  });
  const Tensor y = b.compute("y", DType::kFloat32, {8, 4}, [&](const Indices& i) { return sum({i[1], i[0]}); });
  EXPECT_EQ(call_text(b.finish("product", {y}), kPlain),
            "product f32 batch [], rows 4, columns 8, depth 3\n"
            "source 0 offset 0, strides [3, 1]\n"
            "weights 1 offset 0, strides [8, 1]\n"
            "result 2 offset 0, strides [1, 4]\n");
}

TEST(MatchLibrary, another_type) {
  const std::string graph = graph_text({"%a: f16[4, 8]", "%b: f16[8, 6]"}, {"%y: ? = MatMul \"product\" (%a, %b)"});
  EXPECT_EQ(call_text(region_of(graph, "product"), kPlain), "no: its type is f16, which onednn has not");
}

TEST(MatchLibrary, a_sum_that_is_no_product) {
  const std::string graph = graph_text({"%a: f32[4, 8]"}, {"%y: ? = ReduceSum \"sum\" (%a) {keepdims = 0}"});
  EXPECT_EQ(call_text(region_of(graph, "sum"), kPlain), "no: there is no contraction");
}

TEST(MatchLibrary, an_operand_that_is_computed_on_the_way) {
  const std::string graph = graph_text({"%a: f32[4, 8]", "%b: f32[8, 6]"},
                                       {"%n: ? = Neg \"neg\" (%a)", "%y: ? = MatMul \"product\" (%n, %b)"});
  const std::string text = call_text(region_of(graph, "product"), kPlain);
  EXPECT_TRUE(text == "no: an operand is not a plain tensor" || text.rfind("product", 0) == 0) << text;
}

TEST(MatchLibrary, batched_weights_in_panels) {
  const std::string graph =
      graph_text({"%a: f32[3, 4, 8]", "%b: f32[3, 8, 6]"}, {"%y: ? = MatMul \"product\" (%a, %b)"});
  EXPECT_EQ(call_text(region_of(graph, "product"), kPanels), "no: weights in panels have no batch axes");
}

TEST(MatchLibrary, groups_that_would_share_a_panel) {
  const ConvolutionGraph graph{"1, 32, 9, 10", "48, 16, 3, 3", "group = 2", 32, 48};
  EXPECT_EQ(call_text(region_of(graph.text(), "conv"), kPanels), "no: the weights do not lie by columns");
}

// --- candidates ---

TEST(LibraryCandidates, name_the_reason_or_several_ways) {
  const auto candidates = [](const char* after, bool known, std::string& reason) {
    const Region region = region_of(product_graph("rows", 64, 32, {}, {after}), "product");
    std::vector<bool> constant(region.tensors.size());
    constant[region.inputs[1]] = known;
    const auto found = library_candidates(*find_library("onednn"), region, constant, {{"rows", 128}},
                                          find_target("x86-64-v4", 2), reason);
    for (const LibraryCandidate& c : found) {
      EXPECT_EQ(c.layouts[region.inputs[1]].has_value(), c.schedule.panel > 0) << print(c.schedule);
      EXPECT_TRUE(known || c.schedule.panel == 0) << "weights that are not constant cannot be packed";
    }
    return found;
  };
  std::string reason;
  EXPECT_TRUE(candidates("%y: ? = Gelu \"g\" (%p)", true, reason).empty());
  EXPECT_EQ(reason, "a function that follows the product is only approximated by the library");
  reason.clear();
  for (const bool known : {true, false}) EXPECT_FALSE(candidates("%y: ? = Relu \"r\" (%p)", known, reason).empty());
  EXPECT_EQ(reason, "");
}

TEST(LibraryCandidates, none_without_a_reason) {
  const ConvolutionGraph graph{"56, 1, 8, 9", "1, 1, 2, 2", "pads = [3, 3, 3, 3]", 1, 1};
  const Region region = region_of(graph.text(), "conv");
  std::vector<bool> constant(region.tensors.size());
  constant[region.inputs[1]] = true;
  std::string reason;
  const auto found =
      library_candidates(*find_library("onednn"), region, constant, {}, find_target("x86-64-v3", 2), reason);
  EXPECT_NE(found.empty(), reason.empty()) << found.size() << " " << reason;
}

TEST(LibraryCandidates, of_a_gpu_are_the_librarys_own_ways) {
  const ConvolutionGraph graph{"batch, 8, 14, 13", "32, 8, 3, 3", "", 8, 32};
  const Region region = region_of(graph.text(), "conv");
  std::vector<bool> constant(region.tensors.size());
  constant[region.inputs[1]] = true;
  std::string reason, names;
  for (const LibraryCandidate& c :
       library_candidates(*find_library("cudnn"), region, constant, {{"batch", 1}}, find_target("sm_90a"), reason)) {
    names += print(c.schedule) + "\n";
    ASSERT_TRUE(c.layouts[region.inputs[1]]);
    EXPECT_EQ(to_string(tile::physical_shape(*c.layouts[region.inputs[1]], region.tensors[region.inputs[1]].shape)),
              "[32, 3, 3, 8, 1]");
  }
  EXPECT_EQ(names, "cudnn choice=0 panel=1\ncudnn choice=1 panel=1\ncudnn choice=2 panel=1\ncudnn choice=3 panel=1\n");
}

TEST(LibraryCandidates, of_a_gpu_may_round_where_the_region_may) {
  Region region = region_of(product_graph("5", 64, 32, {}, {}), "product");
  region.tf32 = true;
  const std::string text = call_text(region, "cublaslt choice=0 panel=0");
  EXPECT_EQ(text.rfind("product f32 tf32 batch []", 0), 0u) << text;
  EXPECT_EQ(print(parse_library_call(text)), text);
  EXPECT_EQ(call_text(region, kPlain).rfind("product f32 batch []", 0), 0u) << "oneDNN never does";
}

/// The call of attention over [2, 3, length, 64] in cuDNN; `mask`: the type and shape of one, or empty.
std::string attention_call(const std::string& type, const std::string& mask, const char* attributes = "") {
  const std::string tensor = type + "[2, 3, length, 64]";
  const std::string graph =
      graph_text({"%q: " + tensor, "%k: " + tensor, "%v: " + tensor, "%m: " + (mask.empty() ? "f32[1]" : mask)},
                 {fmt::format("%y: ? = Attention \"a\" (%q, %k, %v{}) {{scale = 0.125{}}}", mask.empty() ? "" : ", %m",
                              attributes)});
  return call_text(region_of(graph, "a"), "cudnn choice=0 panel=0");
}

TEST(LibraryCandidates, of_a_gpu_take_attention_of_narrow_floats) {
  const std::string text = attention_call("f16", "f16[2, 1, 1, length]");
  EXPECT_EQ(text,
            "product f16 batch [2, 3], rows length, columns length, depth 64\n"
            "source 0 offset 0, strides [192*length, 64*length, 64, 1]\n"
            "weights 1 offset 0, strides [192*length, 64*length, 1, 64]\n"
            "result 4 offset 0, strides [192*length, 64*length, 64, 1]\n"
            "post linear 0.125:f32 0:f32\n"
            "post add 3 offset 0, strides [length, 0, 0, 1]\n"
            "values width 64, 2 offset 0, strides [192*length, 64*length, 64, 1]\n");
  EXPECT_EQ(print(parse_library_call(text)), text);
  EXPECT_EQ(attention_call("bf16", "").rfind("product bf16 batch", 0), 0u) << attention_call("bf16", "");
  EXPECT_EQ(attention_call("f32", "f32[length]"), "no: it has no attention of f32");
}

TEST(LibraryCandidates, of_a_gpu_take_attention_with_wide_masks_and_what_lies_ahead_hidden) {
  const std::string text = attention_call("f16", "f32[3, length, length]", ", is_causal = 1");
  EXPECT_NE(text.find("post add 3 f32 offset 0, strides [0, length*length, length, 1]\n"
                      "causal\n"
                      "values width 64, 2"),
            text.npos)
      << text;
  EXPECT_EQ(print(parse_library_call(text)), text);
}

TEST(LibraryCandidates, of_a_gpu_take_attention_whose_rows_are_stored_in_another_order) {
  const std::string tensor = "f16[2, 3, length, 64]";
  const std::string graph = graph_text({"%q: " + tensor, "%k: " + tensor, "%v: " + tensor},
                                       {"%a: ? = Attention \"a\" (%q, %k, %v) {scale = 0.125}",
                                        "%y: ? = Transpose \"heads_last\" (%a) {perm = [0, 2, 1, 3]}"});
  const std::string text = call_text(region_of(graph, "a"), "cudnn choice=0 panel=0");
  EXPECT_NE(text.find("result 3 offset 0, strides [192*length, 64, 192, 1]\n"), text.npos) << text;
}

TEST(LibraryCandidates, of_a_gpu_leave_attention_whose_mask_chooses) {
  EXPECT_EQ(attention_call("f16", "bool[length]"), "no: a mask of attention chooses rather than adds");
  EXPECT_EQ(attention_call("f16", "", ", softcap = 30.0"),
            "no: between the scores and the softmax of attention no post operation does this div");
}

TEST(LibraryCandidates, of_a_gpu_take_narrow_floats) {
  const std::string graph =
      product_graph("5", 64, 32, {"%b: f16[64]"}, {"%q: ? = Add \"a\" (%p, %b)", "%y: ? = Relu \"r\" (%q)"}, "f16");
  EXPECT_EQ(call_text(region_of(graph, "product"), "cublaslt choice=0 panel=0"),
            "product f16 batch [], rows 5, columns 64, depth 32\n"
            "source 0 offset 0, strides [32, 1]\n"
            "weights 1 offset 0, strides [64, 1]\n"
            "result 3 offset 0, strides [64, 1]\n"
            "post add 2 offset 0, strides [0, 1]\n"
            "post relu 0:f32\n");
}

}  // namespace
}  // namespace graft
