// SPDX-License-Identifier: Apache-2.0
// The text form of a library call:
//   product f32 batch [8], rows length, columns 64, depth 32
//   window input 56, output 28, kernel 3, stride 2, dilation 1, before 1
//   source 0 offset 0, strides [64*length, 64, 1]
//   weights 1 offset 0, panel 32
//   result 3 offset 0, strides [64*length, 64, 1]
//   post add 2 offset 0, strides [0, 0, 1]
//   post clip 0:f32 6:f32
// Attention ends with
//   causal
//   values width 64, 2 offset 0, strides [64*length, 64, 1]
// where `causal` may be left out. Behind the number of an argument, f32 says that it is wider than the call's type.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "expr/text.h"
#include "library/call.h"

namespace graft {
namespace {

constexpr size_t kMostDimensions = 12;

std::string print(const CallOperand& operand) {
  const std::string begin =
      fmt::format("{}{} offset {}, ", operand.argument, operand.wide ? " f32" : "", operand.offset.to_string());
  if (operand.panel > 0) return begin + fmt::format("panel {}", operand.panel);
  return begin + "strides " + to_string(operand.strides);
}

std::string print(const PostOperation& post) {
  std::string text = fmt::format("post {}", info(post.kind).name);
  if (info(post.kind).operand) text += " " + print(post.operand);
  const float values[] = {post.alpha, post.beta};
  for (int i = 0; i < info(post.kind).parameters; ++i) {
    text += " " + print_constant(*make_constant(DType::kFloat32, values[i]));
  }
  return text + "\n";
}

class CallReader {
 public:
  explicit CallReader(std::string_view text) : lexer_(text, "library call") {}

  LibraryCall read() {
    read_sizes();
    while (lexer_.accept("window")) call_.windows.push_back(read_window());
    lexer_.expect("source");
    call_.source = read_operand(CallRole::kSource);
    lexer_.expect("weights");
    call_.weights = read_operand(CallRole::kWeights);
    lexer_.expect("result");
    call_.result = read_operand(CallRole::kResult);
    while (lexer_.accept("post")) call_.posts.push_back(read_post());
    call_.causal = lexer_.accept("causal");
    if (lexer_.accept("values")) {
      call_.width = size("width");
      lexer_.expect(",");
      call_.values = read_operand(CallRole::kValues);
    }
    if (call_.causal && !call_.values) lexer_.fail("only attention is causal");
    if (!lexer_.at_end()) lexer_.fail("unknown part");
    return std::move(call_);
  }

 private:
  Size size(std::string_view name) {
    lexer_.expect(name);
    return lexer_.size();
  }
  int64_t positive(std::string_view name) {
    lexer_.expect(name);
    const int64_t value = lexer_.integer(name);
    if (value < 1) lexer_.fail(fmt::format("{} should be positive", name));
    return value;
  }

  void read_sizes() {
    lexer_.expect("product");
    call_.type = lexer_.dtype();
    call_.tf32 = lexer_.accept("tf32");
    lexer_.expect("batch");
    call_.batch = lexer_.shape();
    lexer_.expect(",");
    call_.rows = size("rows");
    lexer_.expect(",");
    call_.columns = size("columns");
    lexer_.expect(",");
    call_.depth = size("depth");
  }

  CallWindow read_window() {
    if (call_.batch.size() + call_.windows.size() + 3 > kMostDimensions) lexer_.fail("there are too many dimensions");
    CallWindow window;
    window.input = size("input");
    lexer_.expect(",");
    window.output = size("output");
    lexer_.expect(",");
    window.kernel = size("kernel");
    lexer_.expect(",");
    window.stride = positive("stride");
    lexer_.expect(",");
    window.dilation = positive("dilation");
    lexer_.expect(",");
    window.before = size("before");
    return window;
  }

  CallOperand read_operand(CallRole role) {
    CallOperand operand;
    operand.argument = static_cast<int>(lexer_.integer("a number of an argument"));
    operand.wide = lexer_.accept("f32");
    operand.offset = size("offset");
    lexer_.expect(",");
    if (role == CallRole::kWeights && lexer_.is("panel")) {
      operand.panel = positive("panel");
      return operand;
    }
    lexer_.expect("strides");
    operand.strides = lexer_.shape();
    const size_t rank = extents_of(call_, role).size();
    if (operand.strides.size() != rank) lexer_.fail(fmt::format("{} strides are expected", rank));
    return operand;
  }

  PostOperation read_post() {
    if (call_.posts.size() == kMostPosts) lexer_.fail(fmt::format("there are more than {} posts", kMostPosts));
    PostOperation post;
    post.kind = read_kind();
    if (info(post.kind).operand) post.operand = read_operand(CallRole::kPost);
    float* const values[] = {&post.alpha, &post.beta};
    for (int i = 0; i < info(post.kind).parameters; ++i) *values[i] = read_number();
    return post;
  }

  PostKind read_kind() {
    const std::string_view name = lexer_.name("a post operation");
    const auto kind = parse_post(name);
    if (!kind) lexer_.fail(fmt::format("unknown post operation '{}'", name));
    return *kind;
  }

  float read_number() {
    const ExprScope scope([](std::string_view) { return std::nullopt; });
    const Expr number = parse_expr(lexer_, scope);
    if (number->kind != ExprKind::kConstant || number->type != DType::kFloat32) lexer_.fail("an f32 is expected");
    return static_cast<float>(number->real);
  }

  Lexer lexer_;
  LibraryCall call_;
};

}  // namespace

std::string print(const LibraryCall& call) {
  std::string text = fmt::format("product {}{} batch {}, rows {}, columns {}, depth {}\n", name_of(call.type),
                                 call.tf32 ? " tf32" : "", to_string(call.batch), call.rows.to_string(),
                                 call.columns.to_string(), call.depth.to_string());
  for (const CallWindow& w : call.windows) {
    text +=
        fmt::format("window input {}, output {}, kernel {}, stride {}, dilation {}, before {}\n", w.input.to_string(),
                    w.output.to_string(), w.kernel.to_string(), w.stride, w.dilation, w.before.to_string());
  }
  text +=
      fmt::format("source {}\nweights {}\nresult {}\n", print(call.source), print(call.weights), print(call.result));
  for (const PostOperation& post : call.posts) text += print(post);
  if (call.causal) text += "causal\n";
  if (call.is_attention()) {
    text += fmt::format("values width {}, {}\n", call.width.to_string(), print(*call.values));
  }
  return text;
}

LibraryCall parse_library_call(std::string_view text) { return CallReader(text).read(); }

}  // namespace graft
