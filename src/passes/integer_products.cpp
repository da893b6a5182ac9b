// SPDX-License-Identifier: Apache-2.0
// Products of dequantized tensors become products of integers, of which the sums are dequantized:
//   MatMul(DQ(x, sx, zx), DQ(w, sw, zw)) -> DQ(MatMulInteger(x, w - zw) - zx * sum over k of (w - zw), sx * sw)
// and the same of Gemm and Conv, and of QLinearMatMul and QLinearConv, which quantize the result (QLinearConv in groups
// becomes Q(Conv(DQ, DQ))); of MatMulInteger and ConvInteger the zero points alone move. Weights are constant, of any
// zero points whose differences fit 8 bits. The sums are exact; padding is with x's zero point.
#include <algorithm>

#include <fmt/format.h>

#include "passes/quantized_operand.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

constexpr std::string_view kPass = "integer_products";

bool is_byte(DType type) { return type == DType::kInt8 || type == DType::kUint8; }

/// Weights less their zero points, and the sums of these over all but the axis of the results.
struct Weights {
  TensorData codes;
  std::vector<int64_t> sums;
  int64_t depth = 0;  ///< products that make one result
};

/// Goes through a matrix [k, n] (results along axis 1) or filters [n, ...] (along axis 0).
std::optional<Weights> read_weights(const Graph& graph, const Quantized& w, int64_t axis) {
  const TensorData* codes = constant_of(graph, w.codes);
  const TensorData* zero = constant_of(graph, w.zero);
  if (!codes || !is_byte(codes->type()) || (w.zero != kNoValue && !zero)) return std::nullopt;
  const std::vector<int64_t>& shape = codes->shape();
  const int64_t given_axis = w.transposed ? 1 - axis : axis;  // in `codes`
  const int64_t columns = shape[static_cast<size_t>(given_axis)];
  const int64_t zeros = zero ? zero->element_count() : 1;
  if (columns == 0 || codes->element_count() == 0 || (zeros != 1 && (zeros != columns || w.axis != axis))) {
    return std::nullopt;
  }
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(given_axis) + 1; d < shape.size(); ++d) inner *= shape[d];
  std::vector<int64_t> values(static_cast<size_t>(codes->element_count()));
  Weights weights{.codes = {}, .sums = std::vector<int64_t>(static_cast<size_t>(columns), 0),
                  .depth = codes->element_count() / columns};
  int64_t low = 0, high = 0;
  for (int64_t i = 0; i < codes->element_count(); ++i) {
    const int64_t column = i / inner % columns;
    const int64_t value = codes->read_integer(i) - (zero ? zero->read_integer(zeros == 1 ? 0 : column) : 0);
    low = std::min(low, value), high = std::max(high, value);
    weights.sums[static_cast<size_t>(column)] += value;
    const int64_t place = w.transposed ? i % shape[1] * shape[0] + i / shape[1] : i;
    values[static_cast<size_t>(place)] = value;
  }
  if (low < -128 || high > (low < 0 ? 127 : 255)) return std::nullopt;
  const std::vector<int64_t> turned = w.transposed ? std::vector<int64_t>{shape[1], shape[0]} : shape;
  // Signed where it can be: of the types of one width that is what more units take.
  weights.codes = TensorData::zeros(high <= 127 ? DType::kInt8 : DType::kUint8, turned);
  for (size_t i = 0; i < values.size(); ++i) weights.codes.write_integer(static_cast<int64_t>(i), values[i]);
  return weights;
}

class Rewriting {
 public:
  Rewriting(Graph& graph, int index, const PassContext& context)
      : graph_(graph), index_(index), context_(context), name_(graph.nodes[index].name) {}

  bool run() {
    const Node& node = graph_.nodes[index_];
    const bool floats = is_op(node, {"MatMul", "Gemm", "Conv"});
    const bool quantized = is_op(node, {"QLinearMatMul", "QLinearConv"});
    if (!floats && !quantized && !is_op(node, {"MatMulInteger", "ConvInteger"})) return false;
    is_convolution_ = is_op(node, {"Conv", "ConvInteger", "QLinearConv"});
    if (!(floats ? read_floats(node) : quantized ? read_quantized(node) : read_integers(node))) return false;
    if (quantized && integer(node, "group", 1) != 1) return take_apart(node);
    if (const std::string_view reason = fault(node); !reason.empty()) {
      context_.left(kPass, node, reason);
      return false;
    }
    if (floats) {
      finish_floats(make_sums(node.attributes));
    } else if (quantized) {
      finish_quantized(make_sums(node.attributes));
    } else {
      finish_integers();
    }
    return true;
  }

 private:
  bool read_floats(const Node& node) {
    const auto x = dequantized(graph_, node.inputs[0]), w = dequantized(graph_, node.inputs[1]);
    if (!x || !w || x->transposed) return false;
    x_ = *x, w_ = *w;
    bias_ = input(node, 2);
    if (is_op(node, {"Gemm"}) && integer(node, "transB", 0) != 0) {
      w_.transposed = !w_.transposed;
      if (rank_of(graph_, w_.codes) == 2) w_.axis = 1 - w_.axis;
    }
    return true;
  }

  bool read_quantized(const Node& node) {
    x_ = {.codes = node.inputs[0], .scale = node.inputs[1], .zero = input(node, 2)};
    w_ = {.codes = node.inputs[3], .scale = node.inputs[4], .zero = input(node, 5),
          .axis = is_convolution_ ? 0 : 1};
    y_ = {.scale = node.inputs[6], .zero = input(node, 7)};
    bias_ = input(node, 8);
    return true;
  }

  bool read_integers(const Node& node) {
    x_ = {.codes = node.inputs[0], .zero = input(node, 2)};
    w_ = {.codes = node.inputs[1], .zero = input(node, 3), .axis = is_convolution_ ? 0 : 1};
    return x_.zero != kNoValue || w_.zero != kNoValue;
  }

  /// Why the product stays, or nothing. Reads the weights.
  std::string_view fault(const Node& node) {
    const int rank = rank_of(graph_, w_.codes), x_rank = rank_of(graph_, x_.codes);
    if (is_convolution_ ? rank < 3 || x_rank != rank : rank != 2 || x_rank < 2) return "its ranks are others";
    if (!is_byte(graph_.value(x_.codes).type)) return "it is not of 8 bits";
    if (x_.zero != kNoValue && count_of(graph_, x_.zero) != 1) return "its zero points differ from row to row";
    if (is_op(node, {"Gemm"})) {
      const bool plain = integer(node, "transA", 0) == 0 && real(node, "alpha", 1) == 1 && real(node, "beta", 1) == 1;
      if (!plain) return "it scales or transposes more than a product does";
    }
    if (is_convolution_ && integer(node, "group", 1) != 1) return "its channels are in groups";
    const int64_t axis = is_convolution_ ? 0 : 1;
    if (x_.scale != kNoValue && count_of(graph_, x_.scale) != 1) return "its scales differ from row to row";
    if (y_.scale != kNoValue && (count_of(graph_, y_.scale) != 1 || count_of(graph_, y_.zero) != 1)) {
      return "the scales of the result differ from row to row";
    }
    if (y_.scale != kNoValue) {
      for (const ValueId scale : {x_.scale, w_.scale, y_.scale}) {
        if (graph_.value(scale).type != DType::kFloat32) return "its scales are not f32";
      }
    }
    if (w_.scale != kNoValue) {
      const int64_t scales = count_of(graph_, w_.scale);
      if (scales != 1 && (scales < 1 || w_.axis != axis)) return "the scales of the weights go along another axis";
    }
    auto weights = read_weights(graph_, w_, axis);
    if (!weights) return "the weights are no constant of 8 bits and zero points that fit";
    constexpr int64_t kMostProducts = (int64_t{1} << 31) / (255 * 255);
    if (x_.scale != kNoValue && weights->depth > kMostProducts) return "the sums may not fit 32 bits";
    if (!context_.multiplies_bytes(graph_.value(x_.codes).type, weights->codes.type())) {
      return "the target has no unit that multiplies these integers";
    }
    const bool pads_by_itself = is_convolution_ && text(node, "auto_pad", "NOTSET") != "NOTSET";
    if (shifts() && pads_by_itself) return "auto_pad depends on sizes";
    weights_ = std::move(*weights);
    return "";
  }

  /// Whether zeros of x are other codes than 0.
  bool shifts() const {
    return x_.zero != kNoValue && !(constant_of(graph_, x_.zero) && uniform_of(graph_, x_.zero) == 0.0);
  }

  ValueId append(std::string_view what, std::string_view op, std::vector<ValueId> inputs, DType type,
                 Attributes attributes = {}) {
    return append_node(graph_, fmt::format("{}/{}", name_, what), op, std::move(inputs), type, std::nullopt,
                       std::move(attributes));
  }

  ValueId constant(std::string_view what, TensorData data) {
    return graph_.add_constant(fmt::format("{}/{}", name_, what), std::move(data));
  }

  /// x, around which its zero point stands where the convolution pads; the pads are taken.
  ValueId padded(Attributes& attributes) {
    const auto found = attributes.find("pads");
    if (!is_convolution_ || !shifts() || found == attributes.end()) return x_.codes;
    std::vector<int64_t> pads = std::get<std::vector<int64_t>>(found->second);
    if (std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; })) return x_.codes;
    std::vector<int64_t> of_all(4 + pads.size(), 0);
    const size_t spatial = pads.size() / 2;
    std::copy_n(pads.begin(), spatial, of_all.begin() + 2);
    std::copy_n(pads.begin() + static_cast<std::ptrdiff_t>(spatial), spatial,
                of_all.begin() + static_cast<std::ptrdiff_t>(4 + spatial));
    attributes.erase(found);
    const ValueId zero = append("zero", "Reshape", {x_.zero, add_integers(graph_, name_ + "/scalar", {})},
                                graph_.value(x_.zero).type);
    return append("pad", "Pad", {x_.codes, add_integers(graph_, name_ + "/pads", of_all), zero},
                  graph_.value(x_.codes).type);
  }

  std::string_view integer_operator() const { return is_convolution_ ? "ConvInteger" : "MatMulInteger"; }

  /// The shape in which a list, one element a column of the results, meets them.
  std::vector<int64_t> column_shape() const {
    std::vector<int64_t> shape{static_cast<int64_t>(weights_.sums.size())};
    for (int64_t d = 2; is_convolution_ && d < static_cast<int64_t>(weights_.codes.shape().size()); ++d) {
      shape.push_back(1);
    }
    return shape;
  }

  /// The i32 that the sums of the codes are too large by; no value where that is nothing.
  ValueId correction() {
    if (!shifts()) return kNoValue;
    TensorData sums = TensorData::zeros(DType::kInt32, column_shape());
    for (size_t n = 0; n < weights_.sums.size(); ++n) {
      sums.write_integer(static_cast<int64_t>(n), weights_.sums[n]);
    }
    const ValueId zero = append("wide_zero", "Cast", {x_.zero}, DType::kInt32, {{"to", int64_t{6}}});
    return append("correction", "Mul", {zero, constant("weight_sums", std::move(sums))}, DType::kInt32);
  }

  static Attributes of_product(Attributes attributes) {
    for (const char* name : {"transA", "transB", "alpha", "beta"}) attributes.erase(name);
    return attributes;
  }

  ValueId make_sums(Attributes attributes) {
    attributes = of_product(std::move(attributes));
    const ValueId x = padded(attributes);
    const ValueId w = constant("weights", weights_.codes);
    const ValueId sums = append("sums", integer_operator(), {x, w}, DType::kInt32, std::move(attributes));
    const ValueId less = correction();
    return less == kNoValue ? sums : append("corrected", "Sub", {sums, less}, DType::kInt32);
  }

  void finish_integers() {
    Attributes attributes = graph_.nodes[index_].attributes;
    const ValueId x = padded(attributes);
    const ValueId w = constant("weights", weights_.codes);
    const ValueId less = correction();
    if (less == kNoValue) return replace_node(graph_, index_, integer_operator(), {x, w}, std::move(attributes));
    const ValueId sums = append("sums", integer_operator(), {x, w}, DType::kInt32, std::move(attributes));
    replace_node(graph_, index_, "Sub", {sums, less});
  }

  /// A convolution whose channels are in groups multiplies floats between quantizers, as one that is exported so.
  bool take_apart(const Node& node) {
    const auto dequantized = [&](std::string_view what, const Quantized& q) {
      std::vector<ValueId> inputs{q.codes, q.scale};
      if (q.zero != kNoValue) inputs.push_back(q.zero);
      return append(what, "DequantizeLinear", std::move(inputs), DType::kFloat32, {{"axis", int64_t{0}}});
    };
    Attributes attributes = node.attributes;
    std::vector<ValueId> inputs{dequantized("x", x_), dequantized("w", w_)};
    if (bias_ != kNoValue) {
      const ValueId scale = append("scale", "Mul", {x_.scale, w_.scale}, DType::kFloat32);
      inputs.push_back(dequantized("bias", {.codes = bias_, .scale = scale}));
    }
    const ValueId values = append("values", "Conv", std::move(inputs), DType::kFloat32, std::move(attributes));
    replace_node(graph_, index_, "QuantizeLinear", {values, y_.scale, y_.zero});
    return true;
  }

  /// What one step of the sums stands for: a scalar, or one per column.
  ValueId scale_of_sums() {
    const ValueId x = in_f32(graph_, name_ + "/x_scale", x_.scale), w = in_f32(graph_, name_ + "/w_scale", w_.scale);
    const ValueId product = append("scale", "Mul", {x, w}, DType::kFloat32);
    const bool single = count_of(graph_, w_.scale) == 1;
    return append("scales", "Reshape",
                  {product, add_integers(graph_, name_ + "/scales_shape",
                                         single ? std::vector<int64_t>{}
                                                : std::vector<int64_t>{static_cast<int64_t>(weights_.sums.size())})},
                  DType::kFloat32);
  }

  Attributes axis_of_sums() const { return {{"axis", int64_t{is_convolution_ ? 1 : -1}}}; }

  /// The bias is of the sums' own steps.
  void finish_quantized(ValueId sums) {
    if (bias_ != kNoValue) {
      const ValueId bias = append(
          "bias", "Reshape", {bias_, add_integers(graph_, name_ + "/bias_shape", column_shape())}, DType::kInt32);
      sums = append("biased", "Add", {sums, bias}, DType::kInt32);
    }
    const ValueId values = append("values", "DequantizeLinear", {sums, scale_of_sums()}, DType::kFloat32,
                                  axis_of_sums());
    const auto scalar = [&](std::string_view what, ValueId of) {
      return append(what, "Reshape", {of, add_integers(graph_, fmt::format("{}/{}_shape", name_, what), {})},
                    graph_.value(of).type);
    };
    replace_node(graph_, index_, "QuantizeLinear",
                 {values, scalar("y_scale", y_.scale), scalar("y_zero", y_.zero)});
  }

  void finish_floats(ValueId sums) {
    const ValueId scale = scale_of_sums();
    Attributes axis = axis_of_sums();
    if (bias_ == kNoValue) return finish_from_f32(graph_, index_, "DequantizeLinear", {sums, scale}, std::move(axis));
    const ValueId values = append("values", "DequantizeLinear", {sums, scale}, DType::kFloat32, std::move(axis));
    const ValueId wide = in_f32(graph_, name_ + "/wide_bias", bias_);
    const ValueId bias = is_convolution_ ? append("bias", "Reshape",
                                                  {wide, add_integers(graph_, name_ + "/bias_shape", column_shape())},
                                                  DType::kFloat32)
                                         : wide;
    finish_from_f32(graph_, index_, "Add", {values, bias});
  }

  Graph& graph_;
  const int index_;
  const PassContext& context_;
  const std::string name_;
  bool is_convolution_ = false;
  Quantized x_, w_, y_;
  ValueId bias_ = kNoValue;
  Weights weights_;
};

}  // namespace

bool integer_products(Graph& graph, const PassContext& context) {
  if (!context.multiplies_bytes) return false;
  return rewrite_nodes(graph,
                       [&](Graph& g, const Matcher&, int index) { return Rewriting(g, index, context).run(); });
}

}  // namespace graft::passes
