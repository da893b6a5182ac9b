// SPDX-License-Identifier: Apache-2.0
// Steps in oneDNN against their definitions in the interpreter.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "expr/build.h"
#include "fuse/rewrite_region.h"
#include "modules/library_source.h"
#include "support/library_case.h"
#include "support/library_graphs.h"

namespace graft {
namespace {

/// Whether oneDNN takes the region under this schedule; it has few formats of weights for each shape.
bool is_taken(const Region& region, const std::string& schedule, const Bindings& bindings) {
  const auto match = match_library(region, parse_library_schedule(schedule));
  if (!std::holds_alternative<LibraryMatch>(match)) return false;
  const Engine engine = LibraryCase(region, schedule, bindings).engine();
  try {
    for (const int threads : {1, 2}) library_source()(engine, engine.steps[0], bindings, {.threads = threads});
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported) << error.what();
    return false;
  }
}

/// Whether oneDNN has its kernels of AVX-512 here. They add up a row in one order however many rows there are, and take
/// weights in panels; those for lesser machines do neither for every shape.
bool has_avx512() { return __builtin_cpu_supports("avx512f"); }

/// Runs under a schedule on one and on two threads: the same (to the bit but for `apart`), and close to the
/// interpreter.
void expect_same(const Region& region, std::string_view schedule, const Bindings& bindings = {}, double apart = 0) {
  SCOPED_TRACE(std::string(schedule));
  if (!has_avx512()) {
    if (!is_taken(region, std::string(schedule), bindings)) return;
    apart = std::max(apart, 1e-6);
  }
  const LibraryCase c(region, schedule, bindings);
  const TensorData expected = c.expected();
  Status status;
  const TensorData alone = c.run(1, status, library_source());
  ASSERT_TRUE(status.ok()) << status.message() << "\n" << call_text(region, schedule);
  EXPECT_LT(LibraryCase::difference(expected, alone), 3e-6) << call_text(region, schedule);
  const TensorData shared = c.run(2, status, library_source());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_LE(LibraryCase::difference(alone, shared), apart) << "two threads give other bits than one";
}

const char* const kPlain[] = {"onednn cut=rows pieces=2 panel=0", "onednn cut=columns pieces=1 panel=0"};

TEST(OneDnnProduct, odd_sizes) {
  const Region region = region_of(product_graph("37", 53, 29, {}, {}), "product");
  for (const char* schedule : kPlain) expect_same(region, schedule);
}

TEST(OneDnnProduct, weights_in_panels) {
  const Region region =
      region_of(product_graph("37", 200, 48, {"%b: f32[200]"}, {"%y: ? = Add \"add\" (%p, %b)"}), "product");
  for (const char* schedule : {"onednn cut=rows pieces=2 panel=16", "onednn cut=rows pieces=1 panel=32",
                               "onednn cut=rows pieces=2 panel=48", "onednn cut=rows pieces=2 panel=64"}) {
    expect_same(region, schedule);
  }
}

TEST(OneDnnProduct, any_number_of_rows) {
  const Region region = region_of(product_graph("rows", 64, 32, {}, {"%y: ? = Relu \"relu\" (%p)"}), "product");
  for (const int64_t rows : {1, 2, 3, 16, 33, 130}) {
    for (const char* schedule : kPlain) expect_same(region, schedule, {{"rows", rows}});
    expect_same(region, "onednn cut=rows pieces=2 panel=32", {{"rows", rows}});
  }
}

TEST(OneDnnProduct, no_rows_are_no_work) {
  const Region region = region_of(product_graph("rows", 64, 32, {}, {}), "product");
  expect_same(region, kPlain[0], {{"rows", 0}});
}

TEST(OneDnnProduct, transposed_operands) {
  for (const char* attributes : {"transA = 1", "transB = 1", "transA = 1, transB = 1"}) {
    const bool left = std::string_view(attributes).find("transA") != std::string_view::npos;
    const bool right = std::string_view(attributes).find("transB") != std::string_view::npos;
    const std::string graph = graph_text(
        {left ? "%a: f32[31, 18]" : "%a: f32[18, 31]", right ? "%b: f32[45, 31]" : "%b: f32[31, 45]", "%c: f32[45]"},
        {fmt::format("%y: ? = Gemm \"product\" (%a, %b, %c) {{{}}}", attributes)});
    for (const char* schedule : kPlain) expect_same(region_of(graph, "product"), schedule);
  }
}

TEST(OneDnnProduct, batches) {
  const char* const operands[][2] = {{"%a: f32[3, 7, 18, 31]", "%b: f32[3, 7, 31, 20]"},
                                     {"%a: f32[3, 7, 18, 31]", "%b: f32[7, 31, 20]"},
                                     {"%a: f32[3, 1, 18, 31]", "%b: f32[7, 31, 20]"},
                                     {"%a: f32[3, 7, 1, 31]", "%b: f32[3, 7, 31, 20]"}};
  for (const auto& [a, b] : operands) {
    const Region region = region_of(graph_text({a, b}, {"%y: ? = MatMul \"product\" (%a, %b)"}), "product");
    for (const char* schedule : kPlain) expect_same(region, schedule);
  }
}

TEST(OneDnnProduct, heads_are_read_in_place) {
  const std::string graph =
      graph_text({"%a: f32[2, 9, 3, 32]", "%b: f32[2, 9, 3, 32]"},
                 {"%q: ? = Transpose \"q\" (%a) {perm = [0, 2, 1, 3]}",
                  "%k: ? = Transpose \"k\" (%b) {perm = [0, 2, 3, 1]}", "%y: ? = MatMul \"product\" (%q, %k)"});
  // oneDNN sums in another order where a slice has no batch axes.
  for (const char* schedule : kPlain) expect_same(region_of(graph, "product"), schedule, {}, 1e-6);
}

TEST(OneDnnProduct, what_only_its_reference_does_is_refused) {
  const Region region =
      region_of(product_graph("19", 80, 32, {"%b: f32[19, 1]"}, {"%y: ? = Add \"n\" (%p, %b)"}), "product");
  Status status;
  LibraryCase(region, kPlain[0], {}).run(2, status, library_source());
  EXPECT_NE(status.message().find("oneDNN: it has only its slow reference for this"), std::string::npos)
      << status.message();
}

struct PostCase {
  const char* name;
  std::vector<std::string> inputs, nodes;
};

class OneDnnPosts : public testing::TestWithParam<PostCase> {};

std::string post_graph(const PostCase& c) {
  std::string text = "graph \"main\" {\n  opset \"\" 28\n  input %x: f32[19, 32]\n  input %w: f32[32, 80]\n";
  for (const std::string& input : c.inputs) text += "  " + input + "\n";
  text += "  %p: ? = MatMul \"product\" (%x, %w)\n";
  for (const std::string& node : c.nodes) text += "  " + node + "\n";
  return text + "  output %y\n}\n";
}

TEST_P(OneDnnPosts, follow_a_product) {
  const Region region = region_of(post_graph(GetParam()), "product");
  ASSERT_EQ(region.forms.size() > 0, true);
  for (const char* schedule : {kPlain[0], "onednn cut=rows pieces=2 panel=32"}) expect_same(region, schedule);
  if (is_taken(region, kPlain[1], {})) expect_same(region, kPlain[1]);
}

const PostCase kPosts[] = {
    {"bias", {"input %b: f32[80]"}, {"%y: ? = Add \"n\" (%p, %b)"}},
    {"scalar", {"input %b: f32[]"}, {"%y: ? = Mul \"n\" (%p, %b)"}},
    {"residual",
     {"input %b: f32[80]", "input %r: f32[19, 80]"},
     {"%q: ? = Add \"n\" (%p, %b)", "%y: ? = Add \"m\" (%r, %q)"}},
    {"residual_then_relu", {"input %r: f32[19, 80]"}, {"%q: ? = Add \"n\" (%p, %r)", "%y: ? = Relu \"m\" (%q)"}},
    {"times_a_tensor", {"input %r: f32[19, 80]"}, {"%y: ? = Mul \"n\" (%p, %r)"}},
    {"less_a_tensor", {"input %r: f32[19, 80]"}, {"%y: ? = Sub \"n\" (%p, %r)"}},
    {"a_tensor_less_it", {"input %r: f32[19, 80]"}, {"%y: ? = Sub \"n\" (%r, %p)"}},
    {"over_a_row", {"input %r: f32[80]"}, {"%y: ? = Div \"n\" (%p, %r)"}},
    {"at_most_a_tensor", {"input %r: f32[19, 80]"}, {"%y: ? = Min \"n\" (%p, %r)"}},
    {"relu", {"input %b: f32[80]"}, {"%q: ? = Add \"n\" (%p, %b)", "%y: ? = Relu \"m\" (%q)"}},
    {"leaky_relu", {}, {"%y: ? = LeakyRelu \"m\" (%p) {alpha = 0.125}"}},
    {"clip", {"constant %l: f32[] = {-0.5}", "constant %h: f32[] = {0.75}"}, {"%y: ? = Clip \"m\" (%p, %l, %h)"}},
    {"clip_above", {"constant %l: f32[] = {-0.5}"}, {"%y: ? = Clip \"m\" (%p, %l)"}},
    {"scaled_and_shifted",
     {"constant %a: f32[] = {0.3}", "constant %b: f32[] = {0.7}"},
     {"%q: ? = Mul \"n\" (%p, %a)", "%y: ? = Add \"m\" (%q, %b)"}},
    {"gelu", {"input %b: f32[80]"}, {"%q: ? = Add \"n\" (%p, %b)", "%y: ? = Gelu \"m\" (%q)"}},
    {"gelu_tanh", {}, {"%y: ? = Gelu \"m\" (%p) {approximate = \"tanh\"}"}},
    {"sigmoid", {}, {"%y: ? = Sigmoid \"m\" (%p)"}},
    {"swish", {"input %b: f32[80]"}, {"%q: ? = Add \"n\" (%p, %b)", "%y: ? = Swish \"m\" (%q)"}},
    {"swish_alpha", {}, {"%y: ? = Swish \"m\" (%p) {alpha = 1.5}"}},
    {"swish_by_hand", {}, {"%s: ? = Sigmoid \"m\" (%p)", "%y: ? = Mul \"n\" (%p, %s)"}},
    {"hard_swish", {}, {"%y: ? = HardSwish \"m\" (%p)"}},
    {"tanh", {}, {"%y: ? = Tanh \"m\" (%p)"}},
};
void PrintTo(const PostCase& c, std::ostream* out) { *out << c.name; }
INSTANTIATE_TEST_SUITE_P(, OneDnnPosts, testing::ValuesIn(kPosts),
                         [](const auto& info) { return std::string(info.param.name); });

struct ConvolutionCase {
  const char* name;
  ConvolutionGraph graph;
  Bindings bindings = {};
};
void PrintTo(const ConvolutionCase& c, std::ostream* out) { *out << c.name; }

class OneDnnConvolutions : public testing::TestWithParam<ConvolutionCase> {};

TEST_P(OneDnnConvolutions, agrees_with_its_definition) {
  const ConvolutionCase& c = GetParam();
  const Region region = region_of(c.graph.text(), "conv");
  int taken = 0;
  for (const int panel : {8, 16, 32, 48, 64}) {
    for (const int pieces : {1, 2}) {
      const std::string schedule = fmt::format("onednn cut=rows pieces={} panel={}", pieces, panel);
      if (!is_taken(region, schedule, c.bindings)) continue;
      expect_same(region, schedule, c.bindings);
      ++taken;
    }
  }
  EXPECT_GT(taken, 0) << call_text(region, "onednn cut=rows pieces=1 panel=16");
}

const ConvolutionCase kConvolutions[] = {
    {"padded_3x3", {"1, 8, 14, 13", "64, 8, 3, 3", "pads = [1, 1, 1, 1]", 8, 64}},
    {"odd_channels", {"1, 5, 14, 13", "37, 5, 3, 3", "pads = [1, 1, 1, 1]", 5, 37}},
    {"valid_3x3_of_a_batch", {"3, 8, 14, 13", "32, 8, 3, 3", "", 8, 32}},
    {"any_batch", {"batch, 8, 9, 9", "32, 8, 3, 3", "pads = [1, 1, 1, 1]", 8, 32}, {{"batch", 5}}},
    {"stride_2", {"2, 8, 15, 14", "32, 8, 3, 3", "pads = [1, 1, 1, 1], strides = [2, 2]", 8, 32}},
    {"pointwise_stride_2", {"2, 16, 14, 14", "32, 16, 1, 1", "strides = [2, 2]", 16, 32}},
    {"uneven_padding", {"1, 8, 12, 12", "32, 8, 3, 3", "pads = [0, 2, 1, 0]", 8, 32}},
    {"dilated", {"1, 8, 15, 14", "32, 8, 3, 3", "pads = [2, 2, 2, 2], dilations = [2, 2]", 8, 32}},
    {"kernel_1x3", {"1, 8, 9, 10", "32, 8, 1, 3", "pads = [0, 1, 0, 1]", 8, 32}},
    {"groups", {"1, 32, 9, 10", "64, 16, 3, 3", "pads = [1, 1, 1, 1], group = 2", 32, 64}},
    {"depthwise", {"1, 48, 9, 10", "48, 1, 3, 3", "pads = [1, 1, 1, 1], group = 48", 48, 48}},
    {"depthwise_odd", {"2, 21, 9, 10", "21, 1, 3, 3", "strides = [2, 2], group = 21", 21, 21}},
    {"three_axes", {"1, 8, 6, 7, 8", "32, 8, 3, 3, 3", "pads = [1, 1, 1, 1, 1, 1]", 8, 32, 3}},
    {
        "residual_and_relu",
        {"1, 8, 14, 13", "32, 8, 3, 3", "pads = [1, 1, 1, 1]", 8, 32, 2,
         "  input %b: f32[32, 1, 1]\n  input %s: f32[32, 8, 1, 1]\n",
         "  %r: ? = Conv \"side\" (%x, %s)\n  %d: ? = Add \"bias\" (%c, %b)\n  %e: ? = Add \"add\" (%d, %r)\n"
         "  %z: ? = Relu \"relu\" (%e)\n"},
    },
};
INSTANTIATE_TEST_SUITE_P(, OneDnnConvolutions, testing::ValuesIn(kConvolutions),
                         [](const auto& info) { return std::string(info.param.name); });

/// Graft leaves convolutions of one axis as the model has them; with channels last oneDNN takes them.
TEST(OneDnnConvolution, of_one_axis_with_channels_last) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {2, 40, 8}), w = b.input("w", DType::kFloat32, {32, 8, 5});
  const Tensor y = b.reduce("y", Intrinsic::kAdd, {2, 40, 32}, {8, 5}, [&](const Indices& i, const Indices& k) {
    const Expr at = i[1] + k[1] - make_index(2);
    const Expr inside = ge(at, make_index(0)) && lt(at, make_index(40));
    return select(inside, x({i[0], at, k[0]}), make_constant(DType::kFloat32, 0)) * w({i[2], k[0], k[1]});
  });
  Region region = b.finish("conv", {y});
  normalise(region);
  int taken = 0;
  for (const char* schedule : {"onednn cut=rows pieces=2 panel=16", "onednn cut=rows pieces=2 panel=32"}) {
    if (!is_taken(region, schedule, {})) continue;
    expect_same(region, schedule);
    ++taken;
  }
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace graft
