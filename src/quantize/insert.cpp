// SPDX-License-Identifier: Apache-2.0
#include "quantize/insert.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "passes/edit.h"

namespace graft::quantize {
namespace {

constexpr double kLastCode = 127;
constexpr double kLargestBias = 1 << 30;

/// The elements of one index along an axis, as places in the tensor.
struct Columns {
  int64_t count = 1, inner = 1;
  Columns(const TensorData& data, int64_t axis) : count(data.shape()[static_cast<size_t>(axis)]) {
    for (size_t d = static_cast<size_t>(axis) + 1; d < data.shape().size(); ++d) inner *= data.shape()[d];
  }
  size_t of(size_t element) const {
    return static_cast<size_t>(static_cast<int64_t>(element) / inner % count);
  }
};

class Inserting {
 public:
  Inserting(Graph& graph, const Places& places, const Quantisers& quantisers)
      : graph_(graph), places_(places), quantisers_(quantisers) {}

  std::map<std::string, double, std::less<>> run() {
    for (const Place& place : places_.nodes) {
      if (place.weighted) quantise_constants(place.node);
      for (const size_t n : place.activations) {
        const ValueId read = activation(graph_.nodes[static_cast<size_t>(place.node)].inputs[n]);
        graph_.nodes[static_cast<size_t>(place.node)].inputs[n] = read;
      }
    }
    graph_.sort_nodes();
    passes::sweep(graph_);
    return std::move(noise_);
  }

 private:
  const Affine& quantiser_of(ValueId value) const {
    return quantisers_.at(graph_.value(places_.ranges.at(value)).name);
  }

  ValueId append(std::string_view name, std::string_view op, std::vector<ValueId> inputs, DType type,
                 const std::optional<Shape>& shape, Attributes attributes = {}) {
    return passes::append_node(graph_, name, op, std::move(inputs), type, shape, std::move(attributes));
  }

  /// The activation as its consumers are to read it: DQ(Q(value)), once for all of them.
  ValueId activation(ValueId value) {
    if (const auto known = dequantised_.find(value); known != dequantised_.end()) return known->second;
    const Affine& quantiser = quantiser_of(value);
    const std::string name = graph_.value(value).name;
    const std::optional<Shape> shape = graph_.value(value).shape;
    const ValueId scale = graph_.add_constant(
        name + "/scale", TensorData::from_values<float>(DType::kFloat32, {}, {quantiser.scale}));
    const ValueId zero = graph_.add_constant(
        name + "/zero_point", TensorData::from_values<int>(DType::kUint8, {}, {quantiser.zero}));
    const ValueId codes =
        append(name + "/QuantizeLinear", "QuantizeLinear", {value, scale, zero}, DType::kUint8, shape);
    const ValueId read =
        append(name + "/DequantizeLinear", "DequantizeLinear", {codes, scale, zero}, DType::kFloat32, shape);
    return dequantised_[value] = read;
  }

  /// DQ(codes) of constants.
  ValueId dequantise(const std::string& name, TensorData codes, TensorData scales, int64_t axis) {
    const DType type = codes.type();
    const std::vector<int64_t> sizes = scales.shape();
    Shape shape(codes.shape().begin(), codes.shape().end());
    const ValueId value = graph_.add_constant(name + "/quantized", std::move(codes));
    const ValueId scale = graph_.add_constant(name + "/scale", std::move(scales));
    const ValueId zero = graph_.add_constant(name + "/zero_point", TensorData::zeros(type, sizes));
    return append(name + "/DequantizeLinear", "DequantizeLinear", {value, scale, zero}, DType::kFloat32, shape,
                  {{"axis", axis}});
  }

  void quantise_constants(int index) {
    const Node node = graph_.nodes[static_cast<size_t>(index)];
    const TensorData weights = *graph_.value(node.inputs[1]).constant;
    const int64_t axis = result_axis(node), results = weights.shape()[static_cast<size_t>(axis)];
    const double scale = quantiser_of(node.inputs[0]).scale;
    const ValueId bias_value = passes::input(node, 2);
    const TensorData* bias = passes::constant_of(graph_, bias_value);
    const bool takes_bias = bias && bias->type() == DType::kFloat32 && bias->element_count() == results &&
                            bias->shape().size() == 1;
    QuantisedWeights made =
        quantise_weights(weights, axis, takes_bias ? bias->as<float>() : std::span<const float>(), scale);
    noise_[node.name] = made.noise;
    if (takes_bias) {
      TensorData codes = TensorData::zeros(DType::kInt32, {results});
      TensorData scales = TensorData::zeros(DType::kFloat32, {results});
      for (int64_t n = 0; n < results; ++n) {
        const auto of_sum = static_cast<float>(scale * made.scales.read_double(n));
        scales.write_double(n, of_sum);
        codes.write_integer(n, std::llrint(bias->read_double(n) / of_sum));
      }
      const std::string name = fmt::format("{}/bias", node.name);
      const ValueId read = dequantise(name, std::move(codes), std::move(scales), 0);
      graph_.nodes[static_cast<size_t>(index)].inputs[2] = read;
    }
    const ValueId read = dequantise(fmt::format("{}/weights", node.name), std::move(made.codes),
                                    std::move(made.scales), axis);
    graph_.nodes[static_cast<size_t>(index)].inputs[1] = read;
  }

  Graph& graph_;
  const Places& places_;
  const Quantisers& quantisers_;
  std::map<ValueId, ValueId> dequantised_;
  std::map<std::string, double, std::less<>> noise_;
};

}  // namespace

QuantisedWeights quantise_weights(const TensorData& weights, int64_t axis, std::span<const float> bias,
                                  double activation_scale) {
  const Columns columns(weights, axis);
  const std::span<const float> values = weights.as<float>();
  std::vector<double> largest(static_cast<size_t>(columns.count), 0);
  double largest_of_all = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    double& of_column = largest[columns.of(i)];
    of_column = std::max<double>(of_column, std::fabs(values[i]));
    largest_of_all = std::max(largest_of_all, of_column);
  }
  QuantisedWeights made{TensorData::zeros(DType::kInt8, weights.shape()),
                        TensorData::zeros(DType::kFloat32, {columns.count}), 0};
  for (size_t n = 0; n < largest.size(); ++n) {
    double scale = (largest[n] > 0 ? largest[n] : largest_of_all > 0 ? largest_of_all : 1) / kLastCode;
    if (!bias.empty()) scale = std::max(scale, std::fabs(bias[n]) / (activation_scale * kLargestBias));
    made.scales.write_double(static_cast<int64_t>(n), std::max(scale, 1e-30));
  }
  const std::span<const float> scales = made.scales.as<float>();
  const std::span<int8_t> codes = made.codes.mutable_as<int8_t>();
  double signal = 0, noise = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const float scale = scales[columns.of(i)];
    const double code = std::clamp(std::nearbyint(static_cast<double>(values[i]) / scale), -kLastCode, kLastCode);
    codes[i] = static_cast<int8_t>(code);
    const double error = code * scale - values[i];
    signal += static_cast<double>(values[i]) * values[i], noise += error * error;
  }
  made.noise = signal > 0 ? noise / signal : 0;
  return made;
}

void prepare(Graph& graph, const PassContext& context) {
  constexpr std::string_view kNames[] = {
      "infer",             "inline_if",           "fold_constants",           "remove_identities",
      "merge_equal_nodes", "lower_pad_into_conv", "fold_batch_normalization", "fold_constants",
      "remove_identities", "remove_dead_nodes"};
  for (const std::string_view name : kNames) {
    const Pass* pass = find_pass(name);
    GRAFT_CHECK(pass, "the pipeline has this pass");
    run_pass(graph, *pass, context);
  }
}

std::map<std::string, double, std::less<>> insert(Graph& graph, const Places& places, const Quantisers& quantisers) {
  return Inserting(graph, places, quantisers).run();
}

}  // namespace graft::quantize
