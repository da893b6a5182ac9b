// SPDX-License-Identifier: Apache-2.0
// QuantizeLinear meets the DequantizeLinears before it:
//   Q(move(DQ(x, s, z)), s, z)        -> move(x), also for the largest of windows
//   Q(Relu(DQ(x, sx) + b), s)         -> Q(Relu(DQ(x, sx / s) + b / s), 1), and the same through whatever a factor
//                                        passes: sums, averages, movement
//   Q(x, s, 0)                        -> Q(x, s), to floats of 8 bits
// so that requantization multiplies once, by a constant, and does not divide. Ties may round another way: a step of s.
#include <cmath>

#include <fmt/format.h>

#include "passes/edit.h"
#include "passes/node_behaviour.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

bool has_one_result(const Node& node) { return node.outputs.size() == 1; }

/// The scale and zero point of one for the whole tensor; nothing where they are others, or not constant.
struct Parameters {
  double scale = 1, zero = 0;
  DType type = DType::kUndefined;
  bool operator==(const Parameters&) const = default;
};

std::optional<Parameters> parameters_of(const Graph& graph, const Node& node, DType type) {
  const std::optional<double> scale = scalar_of(graph, node.inputs[1]);
  if (!scale || graph.value(node.inputs[1]).type != DType::kFloat32) return std::nullopt;
  if (!std::isfinite(*scale) || *scale <= 0) return std::nullopt;
  const ValueId given = input(node, 2);
  const std::optional<double> zero = given == kNoValue ? std::optional<double>(0) : scalar_of(graph, given);
  if (!zero) return std::nullopt;
  return Parameters{*scale, *zero, type};
}

/// Integers, or floats of 8 bits.
bool is_code(DType type) { return is_integer(type) || (is_float(type) && bit_width(type) == 8); }

bool is_quantizer(const Graph& graph, const Node& node) {
  return is_op(node, {"QuantizeLinear"}) && integer(node, "precision", 0) == 0 &&
         is_code(graph.value(node.outputs[0]).type) && graph.value(node.inputs[0]).type == DType::kFloat32;
}

bool is_dequantizer(const Graph& graph, const Node& node) {
  return is_op(node, {"DequantizeLinear"}) && integer(node, "block_size", 0) == 0 &&
         is_code(graph.value(node.inputs[0]).type) && graph.value(node.outputs[0]).type == DType::kFloat32;
}

/// Whether the node gives some of its elements as they are, whatever they stand for, if they are in the same order.
bool chooses_elements(const Graph& graph, const Node& node, DType type) {
  if (!has_one_result(node) || !node.domain.empty()) return false;
  return (is_op(node, {"MaxPool"}) && is_integer(type) && bit_width(type) == 8) || moves_elements(graph, node, type);
}

/// Q(move(DQ(x))) -> move(x), all of one scale and zero point.
bool drop_pair(Graph& graph, const Matcher& matcher, int index) {
  const Node& node = graph.nodes[index];
  const DType type = graph.value(node.outputs[0]).type;
  const auto own = parameters_of(graph, node, type);
  if (!own) return false;
  std::vector<int> moves;
  ValueId value = node.inputs[0];
  const Node* source = producer(graph, value);
  while (source && !is_dequantizer(graph, *source)) {
    if (matcher.is_new(value) || matcher.only_consumer(value) < 0) return false;
    if (!chooses_elements(graph, *source, type)) return false;
    moves.push_back(graph.value(value).producer);
    value = source->inputs[0];
    source = producer(graph, value);
  }
  if (!source || graph.value(source->inputs[0]).type != type) return false;
  if (parameters_of(graph, *source, type) != own) return false;
  ValueId codes = source->inputs[0];
  while (!moves.empty()) {
    const Node move = graph.nodes[moves.back()];
    moves.pop_back();
    std::vector<ValueId> inputs = move.inputs;
    inputs[0] = codes;
    codes = append_node(graph, move.name, move.op, std::move(inputs), type, graph.value(move.outputs[0]).shape,
                        move.attributes);
  }
  replace_node(graph, index, "Identity", {codes});
  return true;
}

/// Divides what a tensor is computed from by a scale.
class Division {
 public:
  Division(Graph& graph, const Matcher& matcher, double scale) : graph_(graph), matcher_(matcher), scale_(scale) {}

  /// Whether only constants and scales change, one of these at least.
  bool is_free(ValueId value) {
    saves_ = false;
    return passes(value, 0) && saves_;
  }

  /// The value over the scale, by new nodes.
  ValueId apply(ValueId value) {
    if (const TensorData* data = constant_of(graph_, value)) return constant(value, divided(*data));
    const Node node = *producer(graph_, value);
    std::vector<ValueId> inputs = node.inputs;
    for (const size_t n : scaled_inputs(node)) inputs[n] = apply(inputs[n]);
    const Value& old = graph_.value(value);
    const DType type = old.type;
    const std::optional<Shape> shape = old.shape;
    return append_node(graph_, node.name, node.op, std::move(inputs), type, shape, node.attributes);
  }

 private:
  /// The inputs that a factor of the result comes from, or none where it does not pass.
  std::vector<size_t> scaled_inputs(const Node& node) const {
    if (!node.domain.empty() || !has_one_result(node)) return {};
    if (is_dequantizer(graph_, node)) return {1};
    if (is_op(node, {"Mul"})) return {constant_of(graph_, node.inputs[0]) ? size_t{0} : size_t{1}};
    if (is_op(node, {"Conv"})) {
      return input(node, 2) == kNoValue ? std::vector<size_t>{1} : std::vector<size_t>{1, 2};
    }
    if (is_op(node, {"Add", "Sub"})) return {0, 1};
    if (is_op(node, {"Concat"})) {
      std::vector<size_t> all(node.inputs.size());
      for (size_t n = 0; n < all.size(); ++n) all[n] = n;
      return all;
    }
    if (is_op(node, {"Clip"})) {
      std::vector<size_t> given{0};
      for (size_t n = 1; n < node.inputs.size(); ++n) {
        if (node.inputs[n] != kNoValue) given.push_back(n);
      }
      return given;
    }
    const bool passes = is_op(node, {"Relu", "LeakyRelu", "PRelu", "MaxPool", "AveragePool", "GlobalAveragePool",
                                     "GlobalMaxPool", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum"}) ||
                        moves_elements(graph_, node, DType::kFloat32);
    return passes ? std::vector<size_t>{0} : std::vector<size_t>{};
  }

  bool passes(ValueId value, int depth) {
    constexpr int kDeepest = 16;
    if (const TensorData* data = constant_of(graph_, value)) {
      return data->type() == DType::kFloat32 && !divided(*data).loses;
    }
    const Node* node = producer(graph_, value);
    if (!node || matcher_.is_new(value) || depth > kDeepest) return false;
    if (graph_.value(value).type != DType::kFloat32) return false;
    const std::vector<size_t> inputs = scaled_inputs(*node);
    if (inputs.empty()) return false;
    // Another reader keeps the tensor as it is: bytes are dequantized twice at little cost, all else is not done again.
    const bool is_leaf = is_dequantizer(graph_, *node) || is_op(*node, {"Mul", "Conv"});
    const bool again = is_dequantizer(graph_, *node) && bit_width(graph_.value(node->inputs[0]).type) == 8;
    if (!again && matcher_.only_consumer(value) < 0) return false;
    saves_ |= is_leaf;
    for (const size_t n : inputs) {
      if (is_leaf && !constant_of(graph_, node->inputs[n])) return false;
      if (!passes(node->inputs[n], depth + 1)) return false;
    }
    return true;
  }

  struct Divided {
    TensorData data;
    bool loses = false;  ///< an element is lost: it becomes infinite, or too small for its bits
  };

  Divided divided(const TensorData& data) const {
    Divided result{TensorData::zeros(data.type(), data.shape())};
    for (int64_t i = 0; i < data.element_count(); ++i) {
      const double before = data.read_double(i);
      const auto after = static_cast<float>(before / scale_);
      const bool lost = std::isfinite(before) && before != 0 && !std::isnormal(after);
      result.loses |= lost;
      result.data.write_double(i, after);
    }
    return result;
  }

  ValueId constant(ValueId value, Divided divided) {
    return graph_.add_constant(fmt::format("{}/rescaled", graph_.value(value).name), std::move(divided.data));
  }

  Graph& graph_;
  const Matcher& matcher_;
  const double scale_;
  bool saves_ = false;
};

bool take_scale(Graph& graph, const Matcher& matcher, int index) {
  const Node& node = graph.nodes[index];
  const ValueId value = node.inputs[0];
  const std::optional<double> scale = scalar_of(graph, node.inputs[1]);
  if (!scale || !std::isfinite(*scale) || *scale <= 0 || *scale == 1) return false;
  if (input(node, 2) != kNoValue && !constant_of(graph, node.inputs[2])) return false;
  if (matcher.is_new(value) || constant_of(graph, value)) return false;
  Division division(graph, matcher, *scale);
  if (!division.is_free(value)) return false;
  const Node before = node;
  const ValueId divided = division.apply(value);
  TensorData one = TensorData::zeros(DType::kFloat32, {});
  one.write_double(0, 1);
  std::vector<ValueId> inputs = before.inputs;
  inputs[0] = divided;
  inputs[1] = graph.add_constant(fmt::format("{}/one", before.name), std::move(one));
  // A zero point has the shape of its scale.
  const TensorData* zero = constant_of(graph, input(before, 2));
  if (zero && !zero->shape().empty()) {
    inputs[2] = graph.add_constant(fmt::format("{}/zero", before.name), zero->reshaped({}));
  }
  replace_node(graph, index, before.op, std::move(inputs), before.attributes);
  return true;
}

/// To floats of 8 bits: a zero point of 0, which the operator would add.
bool drop_zero(Graph& graph, int index) {
  const Node node = graph.nodes[index];
  const DType type = graph.value(node.outputs[0]).type;
  const ValueId zero = input(node, 2);
  if (!is_float(type) || zero == kNoValue || !constant_of(graph, zero) || uniform_of(graph, zero) != 0.0) return false;
  Attributes attributes = node.attributes;
  attributes["output_dtype"] = int64_t{onnx_code(type)};
  replace_node(graph, index, node.op, {node.inputs[0], node.inputs[1]}, std::move(attributes));
  return true;
}

}  // namespace

bool merge_quantizers(Graph& graph, const PassContext&) {
  return rewrite_nodes(graph, [](Graph& g, const Matcher& matcher, int index) {
    const Node& node = g.nodes[index];
    if (!is_quantizer(g, node)) return false;
    return drop_pair(g, matcher, index) || take_scale(g, matcher, index) || drop_zero(g, index);
  });
}

}  // namespace graft::passes
