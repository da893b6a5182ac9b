// SPDX-License-Identifier: Apache-2.0
// BatchNormalization(Conv(x, W, B)) -> Conv(x, W', B'), also for ConvTranspose, Gemm and MatMul; elsewhere
// BatchNormalization(x) -> x * factor + term. Weights are scaled in double and rounded once. What is left of a
// normalization that was taken apart, Conv(x, W, B) * factor + term with constants per channel, folds in the same way.
#include <cmath>

#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

/// y = x * factor + term, per channel.
struct Affine {
  std::vector<double> factor, term;
};

std::vector<double> numbers(const TensorData& data) {
  std::vector<double> result(static_cast<size_t>(data.element_count()));
  data.read_doubles(0, result);
  return result;
}

TensorData tensor_of(DType type, std::vector<int64_t> shape, const std::vector<double>& values) {
  TensorData data = TensorData::zeros(type, std::move(shape));
  data.write_doubles(0, values);
  return data;
}

/// The per-channel form of an inference-mode normalization with constant statistics.
std::optional<Affine> affine_of(const Graph& graph, const Node& node) {
  if (!is_op(node, {"BatchNormalization"}) || integer(node, "training_mode", 0) != 0) return std::nullopt;
  const TensorData* parameters[4];
  for (size_t i = 0; i < 4; ++i) {
    parameters[i] = constant_of(graph, input(node, i + 1));
    if (!parameters[i] || parameters[i]->rank() != 1) return std::nullopt;
    if (parameters[i]->element_count() != parameters[0]->element_count()) return std::nullopt;
  }
  const auto scale = numbers(*parameters[0]), bias = numbers(*parameters[1]), mean = numbers(*parameters[2]),
             variance = numbers(*parameters[3]);
  const double epsilon = real(node, "epsilon", 1e-5);
  Affine result;
  for (size_t c = 0; c < scale.size(); ++c) {
    result.factor.push_back(scale[c] / std::sqrt(variance[c] + epsilon));
    result.term.push_back(bias[c] - mean[c] * result.factor[c]);
  }
  return result;
}

/// A step of arithmetic with a constant per channel of what a convolution gives.
struct ChannelArithmetic {
  ValueId x = kNoValue;
  Affine affine;
};

/// How many channels a convolution with constant weights gives; 0: it is none.
int64_t channels_of(const Graph& graph, ValueId value) {
  const Node* linear = producer(graph, value);
  const bool transposed = linear && is_op(*linear, {"ConvTranspose"});
  const TensorData* weights = linear && (transposed || is_op(*linear, {"Conv"})) ? constant_of(graph, input(*linear, 1))
                                                                               : nullptr;
  if (!weights || weights->rank() < 3) return 0;
  return transposed ? weights->shape()[1] * integer(*linear, "group", 1) : weights->shape()[0];
}

/// The numbers of a constant that is one number, or [channels, 1, 1 ...] beside a value of `rank` axes.
std::optional<std::vector<double>> per_channel(const TensorData& data, int64_t channels, int rank) {
  if (data.element_count() == 1 && data.rank() <= rank) {
    return std::vector<double>(static_cast<size_t>(channels), data.read_double(0));
  }
  const auto& shape = data.shape();
  const int axis = data.rank() - (rank - 1);  // where the channels are
  if (axis < 0 || axis > 1 || data.element_count() != channels || shape[static_cast<size_t>(axis)] != channels) {
    return std::nullopt;
  }
  return numbers(data);
}

/// Mul, Div, Add, Sub of a convolution's result and a constant per channel.
std::optional<ChannelArithmetic> arithmetic_of(const Graph& graph, const Node& node) {
  if (!is_op(node, {"Mul", "Div", "Add", "Sub"})) return std::nullopt;
  const bool swaps = is_op(node, {"Mul", "Add"}) && constant_of(graph, node.inputs[0]);
  const ValueId x = node.inputs[swaps ? 1 : 0];
  const TensorData* constant = constant_of(graph, node.inputs[swaps ? 0 : 1]);
  const int64_t channels = constant ? channels_of(graph, x) : 0;
  if (channels == 0 || rank_of(graph, x) < 3 || !same_shape(graph, x, node.outputs[0])) return std::nullopt;
  auto values = per_channel(*constant, channels, rank_of(graph, x));
  if (!values) return std::nullopt;
  const bool scales = is_op(node, {"Mul", "Div"}), inverse = is_op(node, {"Div", "Sub"});
  for (double& value : *values) {
    if (inverse) value = scales ? 1 / value : -value;
    if (!std::isfinite(value)) return std::nullopt;
  }
  const std::vector<double> neutral(values->size(), scales ? 0.0 : 1.0);
  return ChannelArithmetic{x, {scales ? *values : neutral, scales ? neutral : *values}};
}

/// Where the output channel lies in weights: element i belongs to channel `(i / inner) % count`, offset by groups for
/// ConvTranspose.
struct ChannelOf {
  int64_t inner = 1;      ///< elements after the channel axis
  int64_t count = 1;      ///< channels along that axis
  int64_t per_group = 0;  ///< elements of one group, when the channel axis counts within the group
  int64_t operator()(int64_t i) const {
    const int64_t group = per_group ? i / per_group : 0;
    return group * count + (i / inner) % count;
  }
};

/// How the node's weights (input 1) carry the output channels; nothing when they carry others than `channels`.
std::optional<ChannelOf> channel_of(const Graph& graph, const Node& node, int64_t channels) {
  const TensorData* weights = constant_of(graph, input(node, 1));
  if (!weights || weights->element_count() == 0) return std::nullopt;
  const auto& shape = weights->shape();
  int64_t inner = weights->element_count() / shape[0];
  if (is_op(node, {"Conv"})) return shape[0] == channels ? std::optional(ChannelOf{inner, channels}) : std::nullopt;
  if (shape.size() < 2) return std::nullopt;
  if (is_op(node, {"ConvTranspose"})) {
    const int64_t groups = integer(node, "group", 1);
    if (groups < 1 || shape[1] * groups != channels) return std::nullopt;
    return ChannelOf{inner / shape[1], shape[1], weights->element_count() / groups};
  }
  if (is_op(node, {"Gemm"}) && integer(node, "transB", 0) != 0) {
    return shape[0] == channels ? std::optional(ChannelOf{inner, channels}) : std::nullopt;
  }
  const bool fits = is_op(node, {"Gemm", "MatMul"}) && shape.size() == 2 && shape[1] == channels;
  return fits ? std::optional(ChannelOf{1, channels}) : std::nullopt;
}

/// The bias of the linear node per channel (zeros when it has none); nothing when it is not known or not per channel.
std::optional<std::vector<double>> bias_of(const Graph& graph, const Node& node, size_t channels) {
  if (input(node, 2) == kNoValue) return std::vector<double>(channels, 0);
  const TensorData* bias = constant_of(graph, node.inputs[2]);
  if (!bias) return std::nullopt;
  const bool single = bias->element_count() == 1;
  const bool row = !bias->shape().empty() && bias->shape().back() == bias->element_count();
  if (!single && (!row || bias->element_count() != static_cast<int64_t>(channels))) return std::nullopt;
  std::vector<double> values = single ? std::vector<double>(channels, bias->read_double(0)) : numbers(*bias);
  const double beta = is_op(node, {"Gemm"}) ? real(node, "beta", 1) : 1;
  for (double& value : values) value *= beta;
  return values;
}

/// Folds into the linear node that computes x; says why not otherwise.
std::string_view fold_into_weights(Graph& graph, const Matcher& matcher, int index, ValueId x, const Affine& affine) {
  const Node* linear = producer(graph, x);
  if (!linear || !is_op(*linear, {"Conv", "ConvTranspose", "Gemm", "MatMul"})) return "no linear operator computes x";
  if (matcher.only_consumer(x) != index) return "the result before it is read elsewhere";
  if (is_op(*linear, {"Gemm", "MatMul"}) && rank_of(graph, x) != 2) return "the channels are not the columns";
  const auto channel = channel_of(graph, *linear, static_cast<int64_t>(affine.factor.size()));
  const auto bias = bias_of(graph, *linear, affine.factor.size());
  if (!channel || !bias) return "weights or bias are not constants over its channels";

  const TensorData& old_weights = *constant_of(graph, linear->inputs[1]);
  std::vector<double> weights = numbers(old_weights);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] *= affine.factor[(*channel)(static_cast<int64_t>(i))];
  std::vector<double> term = affine.term;
  for (size_t c = 0; c < term.size(); ++c) term[c] += (*bias)[c] * affine.factor[c];
  const DType type = old_weights.type();
  const bool matmul = is_op(*linear, {"MatMul"});
  const std::string name = graph.value(linear->inputs[1]).name;
  const int linear_index = graph.value(x).producer;
  std::vector<ValueId> inputs = {linear->inputs[0]};
  Attributes attributes = linear->attributes;
  const std::string op = matmul ? "Gemm" : linear->op;
  if (op == "Gemm") attributes["beta"] = 1.0;
  TensorData folded = tensor_of(type, old_weights.shape(), weights);
  inputs.push_back(graph.add_constant(name, std::move(folded)));
  inputs.push_back(graph.add_constant(name + "/bias", tensor_of(type, {static_cast<int64_t>(term.size())}, term)));
  replace_node(graph, index, op, std::move(inputs), std::move(attributes));
  take_first_name(graph, index, {linear_index, index});
  return "";
}

/// x * factor + term with constants [channels, 1, 1 ...]
bool lower_to_arithmetic(Graph& graph, int index, const Affine& affine) {
  const Node& node = graph.nodes[index];
  const ValueId x = node.inputs[0];
  const int rank = rank_of(graph, x);
  if (rank < 2) return false;
  std::vector<int64_t> shape(static_cast<size_t>(rank) - 1, 1);
  shape[0] = static_cast<int64_t>(affine.factor.size());
  const DType type = graph.value(x).type;
  const std::string name = node.name;
  const ValueId factor = graph.add_constant(name + "/factor", tensor_of(type, shape, affine.factor));
  const ValueId term = graph.add_constant(name + "/term", tensor_of(type, shape, affine.term));
  const ValueId product = append_node(graph, name + "/scale", "Mul", {x, factor}, type, graph.value(x).shape);
  replace_node(graph, index, "Add", {product, term});
  return true;
}

}  // namespace

bool fold_batch_normalization(Graph& graph, const PassContext& context) {
  return rewrite_nodes(graph, [&](Graph& g, const Matcher& matcher, int index) {
    if (const auto arithmetic = arithmetic_of(g, g.nodes[index])) {
      return fold_into_weights(g, matcher, index, arithmetic->x, arithmetic->affine).empty();
    }
    const auto affine = affine_of(g, g.nodes[index]);
    if (!affine) return false;
    const std::string_view fault = fold_into_weights(g, matcher, index, g.nodes[index].inputs[0], *affine);
    if (fault.empty()) return true;
    context.left("fold_batch_normalization", g.nodes[index], fault);
    return lower_to_arithmetic(g, index, *affine);
  });
}

}  // namespace graft::passes
