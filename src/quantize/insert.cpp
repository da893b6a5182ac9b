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
constexpr int64_t kZeroOfRows = 128;
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

/// A matrix of s8, transposed.
TensorData turned(const TensorData& matrix) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  TensorData made = TensorData::zeros(DType::kInt8, {columns, rows});
  const std::span<const int8_t> from = matrix.as<int8_t>();
  const std::span<int8_t> to = made.mutable_as<int8_t>();
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    for (size_t c = 0; c < static_cast<size_t>(columns); ++c) {
      to[c * static_cast<size_t>(rows) + r] = from[r * static_cast<size_t>(columns) + c];
    }
  }
  return made;
}

class Inserting {
 public:
  Inserting(Graph& graph, const Places& places, const Quantisers& quantisers, const Format& format,
            const RoundedWeights& rounded)
      : graph_(graph), places_(places), quantisers_(quantisers), format_(format), rounded_(rounded) {}

  std::map<std::string, double, std::less<>> run() {
    for (const Place& place : places_.nodes) {
      switch (format_.activations) {
        case Activations::kStatic: quantise(place); break;
        case Activations::kDynamic:
          place.activations.empty() ? quantise_weights_of(place) : multiply_rows(place.node);
          break;
        case Activations::kFloat: quantise_weights_of(place); break;
      }
    }
    graph_.sort_nodes();
    passes::sweep(graph_);
    return std::move(noise_);
  }

 private:
  void quantise(const Place& place) {
    if (place.weighted) quantise_constants(place.node);
    for (const size_t n : place.activations) {
      const ValueId read = activation(graph_.nodes[static_cast<size_t>(place.node)].inputs[n]);
      graph_.nodes[static_cast<size_t>(place.node)].inputs[n] = read;
    }
  }

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
    TensorData none = TensorData::zeros(quantiser.type, {});
    if (quantiser.zero != 0) none.write_integer(0, quantiser.zero);
    const ValueId zero = graph_.add_constant(name + "/zero_point", std::move(none));
    const ValueId codes =
        append(name + "/QuantizeLinear", "QuantizeLinear", {value, scale, zero}, quantiser.type, shape);
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

  /// In codes of 8 bits.
  QuantisedWeights weights_of(const TensorData& weights, int64_t axis, std::span<const float> bias = {},
                              double activation_scale = 0) const {
    if (format_.codes == Codes::kFloat8) return float8_weights(weights, axis);
    return quantise_weights(weights, axis, bias, activation_scale);
  }

  void quantise_constants(int index) {
    const Node node = graph_.nodes[static_cast<size_t>(index)];
    const TensorData weights = *graph_.value(node.inputs[1]).constant;
    const int64_t axis = result_axis(node), results = weights.shape()[static_cast<size_t>(axis)];
    const double scale = quantiser_of(node.inputs[0]).scale;
    const ValueId bias_value = passes::input(node, 2);
    const TensorData* bias = passes::constant_of(graph_, bias_value);
    const bool takes_bias = format_.codes == Codes::kInt8 && bias && bias->type() == DType::kFloat32 &&
                            bias->element_count() == results && bias->shape().size() == 1;
    QuantisedWeights made =
        weights_of(weights, axis, takes_bias ? bias->as<float>() : std::span<const float>(), scale);
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

  /// The weights alone; once where several nodes read them alike.
  void quantise_weights_of(const Place& place) {
    const Node& node = graph_.nodes[static_cast<size_t>(place.node)];
    const ValueId weights = node.inputs[place.weights];
    const int64_t results = result_axis(node);
    auto [known, is_new] = weights_.try_emplace({weights, results});
    if (is_new) known->second = decoded(fmt::format("{}/weights", node.name), weights, results);
    noise_[graph_.nodes[static_cast<size_t>(place.node)].name] = known->second.noise;
    graph_.nodes[static_cast<size_t>(place.node)].inputs[place.weights] = known->second.value;
  }

  struct Decoded {
    ValueId value = kNoValue;
    double noise = 0;
  };

  /// DQ(codes) of a matrix, with a scale for each result or each block of one.
  Decoded decoded(const std::string& name, ValueId of_weights, int64_t results) {
    const TensorData weights = *graph_.value(of_weights).constant;
    if (format_.codes != Codes::kInt4) {
      QuantisedWeights made = weights_of(weights, results);
      return {dequantise(name, std::move(made.codes), std::move(made.scales), results), made.noise};
    }
    const auto rounded = rounded_.find({of_weights, results});
    QuantisedWeights made = rounded != rounded_.end() ? rounded->second
                                                      : quantise_blocks(weights, 1 - results, format_.block);
    const ValueId codes = graph_.add_constant(name + "/quantized", std::move(made.codes));
    const ValueId scales = graph_.add_constant(name + "/scale", std::move(made.scales));
    const ValueId value = append(name + "/DequantizeLinear", "DequantizeLinear", {codes, scales}, DType::kFloat32,
                                 Shape(weights.shape().begin(), weights.shape().end()),
                                 {{"axis", 1 - results}, {"block_size", format_.block}});
    return {value, made.noise};
  }

  ValueId scalar(const std::string& name, float value) {
    return graph_.add_constant(name, TensorData::from_values<float>(DType::kFloat32, {}, {value}));
  }

  /// An activation as codes, and the scale of each row.
  struct Rows {
    ValueId codes, scales, zero;
  };

  /// Once for all readers.
  const Rows& rows_of(ValueId value) {
    if (const auto known = rows_.find(value); known != rows_.end()) return known->second;
    const std::string name = graph_.value(value).name;
    const std::optional<Shape> shape = graph_.value(value).shape;
    std::optional<Shape> of_scales = shape;
    if (of_scales) of_scales->back() = 1;
    const auto f32 = [&](std::string_view step, std::string_view op, std::vector<ValueId> inputs,
                         const std::optional<Shape>& of_step) {
      return append(fmt::format("{}/{}", name, step), op, std::move(inputs), DType::kFloat32, of_step);
    };
    const ValueId last = passes::add_integers(graph_, name + "/last_axis", {-1});
    const ValueId largest = f32("largest", "ReduceMax", {f32("magnitudes", "Abs", {value}, shape), last}, of_scales);
    const ValueId step = f32("step", "Mul", {largest, scalar(name + "/step_of_one", static_cast<float>(1 / kLastCode))},
                             of_scales);
    // Of a row of zeros: any other than 0.
    const ValueId scales = f32("scale", "Max", {step, scalar(name + "/smallest_scale", 1e-30F)}, of_scales);
    const ValueId rounded = f32("rounded", "Round", {f32("steps", "Div", {value, scales}, shape)}, shape);
    const ValueId moved = f32("moved", "Add", {rounded, scalar(name + "/middle", kZeroOfRows)}, shape);
    const ValueId codes = append(name + "/codes", "Cast", {moved}, DType::kUint8, shape,
                                 {{"to", int64_t{onnx_code(DType::kUint8)}}});
    const ValueId zero = graph_.add_constant(
        name + "/zero_point", TensorData::from_values<int64_t>(DType::kUint8, {}, {kZeroOfRows}));
    return rows_.emplace(value, Rows{codes, scales, zero}).first->second;
  }

  /// The product of an activation's rows and its weights' codes, scaled.
  void multiply_rows(int index) {
    const Node node = graph_.nodes[static_cast<size_t>(index)];
    const bool is_turned = result_axis(node) == 0;
    QuantisedWeights made = quantise_weights(*graph_.value(node.inputs[1]).constant, result_axis(node), {}, 0);
    noise_[node.name] = made.noise;
    const std::string& name = node.name;
    const ValueId codes = graph_.add_constant(name + "/weights/quantized",
                                              is_turned ? turned(made.codes) : std::move(made.codes));
    const ValueId of_results = graph_.add_constant(name + "/weights/scale", std::move(made.scales));
    const Rows rows = rows_of(node.inputs[0]);
    const std::optional<Shape> shape = graph_.value(node.outputs[0]).shape;
    const ValueId sums = append(name + "/MatMulInteger", "MatMulInteger", {rows.codes, codes, rows.zero},
                                DType::kInt32, shape);
    const ValueId floats = append(name + "/Cast", "Cast", {sums}, DType::kFloat32, shape,
                                  {{"to", int64_t{onnx_code(DType::kFloat32)}}});
    const ValueId of_row = append(name + "/of_row", "Mul", {floats, rows.scales}, DType::kFloat32, shape);
    const ValueId bias = passes::input(node, 2);
    if (bias == kNoValue) return passes::replace_node(graph_, index, "Mul", {of_row, of_results});
    const ValueId scaled = append(name + "/scaled", "Mul", {of_row, of_results}, DType::kFloat32, shape);
    passes::replace_node(graph_, index, "Add", {scaled, bias});
  }

  Graph& graph_;
  const Places& places_;
  const Quantisers& quantisers_;
  const Format format_;
  const RoundedWeights& rounded_;
  std::map<ValueId, ValueId> dequantised_;
  std::map<ValueId, Rows> rows_;
  std::map<std::pair<ValueId, int64_t>, Decoded> weights_;  ///< by value and axis of results
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

QuantisedWeights float8_weights(const TensorData& weights, int64_t axis) {
  const Columns columns(weights, axis);
  const std::span<const float> values = weights.as<float>();
  std::vector<double> largest(static_cast<size_t>(columns.count), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    largest[columns.of(i)] = std::max<double>(largest[columns.of(i)], std::fabs(values[i]));
  }
  QuantisedWeights made{TensorData::zeros(DType::kFloat8E4M3FN, weights.shape()),
                        TensorData::zeros(DType::kFloat32, {columns.count}), 0};
  const std::span<float> scales = made.scales.mutable_as<float>();
  for (size_t n = 0; n < largest.size(); ++n) scales[n] = float8_scale(largest[n]);
  double signal = 0, noise = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double scale = scales[columns.of(i)], code = nearest_float8(values[i] / scale);
    made.codes.write_double(static_cast<int64_t>(i), code);
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

std::map<std::string, double, std::less<>> insert(Graph& graph, const Places& places, const Quantisers& quantisers,
                                                  const Format& format, const RoundedWeights& rounded) {
  return Inserting(graph, places, quantisers, format, rounded).run();
}

}  // namespace graft::quantize
