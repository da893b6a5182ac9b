// SPDX-License-Identifier: Apache-2.0
// Products of tensors that are dequantized from floats of 8 bits become products of these, whose sums are scaled:
//   MatMul(DQ(x, sx), DQ(w, sw)) -> MatMulFloat8(x, w) * (sx * sw)
// and the same of Gemm and Conv, where the target has a unit that multiplies them. The scale of x is one for the
// tensor, that of w one, or one for each column of the results.
#include <fmt/format.h>

#include "passes/quantized_operand.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

constexpr std::string_view kPass = "float8_products";

bool is_float8(DType type) { return is_float(type) && bit_width(type) == 8; }

class Rewriting {
 public:
  Rewriting(Graph& graph, int index, const PassContext& context)
      : graph_(graph), index_(index), context_(context), name_(graph.nodes[index].name) {}

  bool run() {
    const Node& node = graph_.nodes[index_];
    if (!is_op(node, {"MatMul", "Gemm", "Conv"})) return false;
    const auto x = dequantized(graph_, node.inputs[0]), w = dequantized(graph_, node.inputs[1]);
    if (!x || !w || !is_float8(graph_.value(x->codes).type) || !is_float8(graph_.value(w->codes).type)) return false;
    x_ = *x, w_ = *w;
    is_convolution_ = is_op(node, {"Conv"});
    if (is_op(node, {"Gemm"}) && integer(node, "transB", 0) != 0) {
      w_.transposed = !w_.transposed;
      if (rank_of(graph_, w_.codes) == 2) w_.axis = 1 - w_.axis;
    }
    if (const std::string_view reason = fault(node); !reason.empty()) {
      context_.left(kPass, node, reason);
      return false;
    }
    finish(node);
    return true;
  }

 private:
  /// Why the product stays, or nothing.
  std::string_view fault(const Node& node) const {
    const int rank = rank_of(graph_, w_.codes), x_rank = rank_of(graph_, x_.codes);
    if (is_convolution_ ? rank < 3 || x_rank != rank : rank < 2 || x_rank < 2) return "its ranks are others";
    if (x_.transposed || (w_.transposed && rank != 2)) return "its operands are transposed otherwise";
    if (is_op(node, {"Gemm"})) {
      const bool plain = integer(node, "transA", 0) == 0 && real(node, "alpha", 1) == 1 && real(node, "beta", 1) == 1;
      if (!plain) return "it scales or transposes more than a product does";
    }
    if (is_convolution_ && integer(node, "group", 1) != 1) return "its channels are in groups";
    for (const ValueId zero : {x_.zero, w_.zero}) {
      if (zero != kNoValue && !(constant_of(graph_, zero) && uniform_of(graph_, zero) == 0.0)) {
        return "a zero point is another than 0";
      }
    }
    if (count_of(graph_, x_.scale) != 1) return "the scales of its left operand are several";
    const int64_t scales = count_of(graph_, w_.scale);
    const bool has_column_scales = scales == 1 || (scales > 1 && w_.axis == column_axis());
    if (!has_column_scales) return "the scales of the weights go along another axis";
    if (!context_.multiplies_bytes(graph_.value(x_.codes).type, graph_.value(w_.codes).type)) {
      return "the target has no unit that multiplies floats of 8 bits";
    }
    return "";
  }

  /// Of the right operand: that along which the columns of the results lie.
  int64_t column_axis() const { return is_convolution_ ? 0 : rank_of(graph_, w_.codes) - 1; }

  ValueId append(std::string_view what, std::string_view op, std::vector<ValueId> inputs, DType type,
                 Attributes attributes = {}) {
    return append_node(graph_, fmt::format("{}/{}", name_, what), op, std::move(inputs), type, std::nullopt,
                       std::move(attributes));
  }

  /// A list, one element a column of the results, in the shape in which it meets them; one number as a scalar.
  ValueId beside_columns(std::string_view what, ValueId list, bool is_one) {
    std::vector<int64_t> shape;
    if (!is_one) shape.push_back(-1);
    for (int d = 2; !is_one && is_convolution_ && d < rank_of(graph_, w_.codes); ++d) shape.push_back(1);
    const ValueId to = add_integers(graph_, fmt::format("{}/{}_shape", name_, what), shape);
    return append(what, "Reshape", {list, to}, DType::kFloat32);
  }

  void finish(const Node& before) {
    const ValueId bias = input(before, 2);
    Attributes attributes = before.attributes;
    for (const char* name : {"transA", "transB", "alpha", "beta"}) attributes.erase(name);
    ValueId w = w_.codes;
    if (w_.transposed) {
      w = append("weights", "Transpose", {w}, graph_.value(w).type, {{"perm", std::vector<int64_t>{1, 0}}});
    }
    graph_.opsets.try_emplace("graft", 1);
    const ValueId sums = append("sums", is_convolution_ ? "ConvFloat8" : "MatMulFloat8", {x_.codes, w},
                                DType::kFloat32, std::move(attributes));
    graph_.nodes.back().domain = "graft";
    const ValueId of_x = in_f32(graph_, name_ + "/x_scale", x_.scale);
    const ValueId of_w = in_f32(graph_, name_ + "/w_scale", w_.scale);
    const ValueId product = append("scale", "Mul", {of_x, of_w}, DType::kFloat32);
    const ValueId scale = beside_columns("scales", product, count_of(graph_, w_.scale) == 1);
    if (bias == kNoValue) return finish_from_f32(graph_, index_, "Mul", {sums, scale});
    const ValueId values = append("values", "Mul", {sums, scale}, DType::kFloat32);
    const ValueId wide = in_f32(graph_, name_ + "/wide_bias", bias);
    finish_from_f32(graph_, index_, "Add", {values, is_convolution_ ? beside_columns("bias", wide, false) : wide});
  }

  Graph& graph_;
  const int index_;
  const PassContext& context_;
  const std::string name_;
  bool is_convolution_ = false;
  Quantized x_, w_;
};

}  // namespace

bool float8_products(Graph& graph, const PassContext& context) {
  if (!context.multiplies_bytes) return false;
  return rewrite_nodes(graph,
                       [&](Graph& g, const Matcher&, int index) { return Rewriting(g, index, context).run(); });
}

}  // namespace graft::passes
