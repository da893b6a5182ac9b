// SPDX-License-Identifier: Apache-2.0
#include "driver/quantize_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "base/available_threads.h"
#include "base/call_in_parallel.h"
#include "base/error.h"
#include "driver/load.h"
#include "passes/edit.h"
#include "quantize/insert.h"
#include "quantize/places.h"

namespace graft {
namespace {

using passes::is_op;
using quantize::Histogram;
using quantize::Kept;
using quantize::Place;
using quantize::Places;

using LeftOut = std::set<std::string, std::less<>>;

/// A compiled graph and its results.
class Network {
 public:
  Network(Graph graph, CompileOptions options) : session_(load(built(std::move(graph), options), options.device)) {
    results_.resize(session_.engine().outputs.size());
  }

  /// The results are there until the next run.
  const std::vector<TensorData>& run(const std::vector<TensorData>& inputs) {
    std::vector<BufferView> given, views(results_.size());
    for (const TensorData& tensor : inputs) {
      given.push_back({const_cast<std::byte*>(tensor.bytes().data()), tensor.type(), tensor.shape(), {}});
    }
    const Status status = session_.run(given, views, allocate, this);
    if (!status.ok()) throw Error(ErrorKind::kInvalidArgument, status.message());
    return results_;
  }

 private:
  static Engine built(Graph graph, CompileOptions& options) {
    options.precision = Precision::kFp32;
    options.tuning = Tuning::kOff;
    options.device = "cpu";
    options.targets.clear();
    options.record.clear();
    return compile_from(std::move(graph), Stage::kImport, options).engine;
  }

  static void* allocate(void* context, int output, DType type, std::span<const int64_t> shape, size_t) {
    TensorData& tensor = static_cast<Network*>(context)->results_[static_cast<size_t>(output)];
    const std::vector<int64_t> wanted(shape.begin(), shape.end());
    if (tensor.type() != type || tensor.shape() != wanted) tensor = TensorData::zeros(type, wanted);
    return tensor.mutable_bytes().data();
  }

  Session session_;
  std::vector<TensorData> results_;
};

void stop_if_cancelled(const CompileOptions& options) {
  if (options.cancelled && options.cancelled()) throw Error(ErrorKind::kCancelled, "quantising was cancelled");
}

/// Calls `use(inputs)` for each batch.
void for_each_batch(const CalibrationData& data, const CompileOptions& options, std::string_view what,
                    const std::function<void(const std::vector<TensorData>&)>& use) {
  for (size_t n = 0; n < data.count; ++n) {
    stop_if_cancelled(options);
    report(options, "quantize", what, static_cast<int>(n), static_cast<int>(data.count));
    use(data.batch(n));
  }
}

using Histograms = std::map<std::string, Histogram, std::less<>>;

/// Runs the network in f32 and counts the activations that are quantised.
Histograms calibrate(const Graph& graph, const Places& places, const CalibrationData& data,
                     const CompileOptions& options) {
  Graph watched = graph;
  Histograms histograms;
  std::vector<std::pair<Histogram*, int>> computed, given;  // with the number of the result or of the input
  for (const auto& [value, root] : places.ranges) {
    const std::string& name = graph.value(root).name;
    if (histograms.contains(name)) continue;
    Histogram* histogram = &histograms[name];
    const auto input = std::find(graph.inputs.begin(), graph.inputs.end(), root);
    if (input != graph.inputs.end()) {
      given.emplace_back(histogram, static_cast<int>(input - graph.inputs.begin()));
      continue;
    }
    auto output = std::find(watched.outputs.begin(), watched.outputs.end(), root);
    if (output == watched.outputs.end()) output = watched.outputs.insert(watched.outputs.end(), root);
    computed.emplace_back(histogram, static_cast<int>(output - watched.outputs.begin()));
  }
  Network network(std::move(watched), options);
  const int threads = options.threads > 0 ? options.threads : available_threads();
  for_each_batch(data, options, "calibrating", [&](const std::vector<TensorData>& inputs) {
    for (const auto& [histogram, n] : given) histogram->add(inputs[static_cast<size_t>(n)].as<float>());
    const std::vector<TensorData>& results = network.run(inputs);
    call_in_parallel(computed.size(), threads, [&](size_t n) {
      computed[n].first->add(results[static_cast<size_t>(computed[n].second)].as<float>());
    });
  });
  for (const auto& [name, histogram] : histograms) {
    GRAFT_USER_CHECK(histogram.not_finite() == 0, kInvalidArgument,
                     fmt::format("with this data {} elements of '{}' are NaN or infinite in f32: mend the data, or the "
                                 "network", histogram.not_finite(), name), data.where);
    GRAFT_USER_CHECK(histogram.count() > 0, kInvalidArgument,
                     fmt::format("with this data '{}' has no elements: give samples that reach all layers", name),
                     data.where);
  }
  return histograms;
}

/// The mean square of a distribution.
double mean_square(const Histogram& histogram) {
  double sum = 0;
  for (size_t i = 0; i < histogram.bins().size(); ++i) {
    sum += static_cast<double>(histogram.bins()[i]) * histogram.centre(i) * histogram.centre(i);
  }
  return sum / static_cast<double>(std::max<int64_t>(histogram.count(), 1));
}

double decibels(double noise) {
  return noise > 0 ? -10 * std::log10(noise) : std::numeric_limits<double>::infinity();
}

/// How far results are from those in f32.
class Difference {
 public:
  void add(const std::vector<TensorData>& expected, const std::vector<TensorData>& actual) {
    outputs_.resize(expected.size());
    for (size_t n = 0; n < expected.size(); ++n) {
      if (!is_float(expected[n].type())) continue;
      Output& output = outputs_[n];
      if (expected[n].shape() != actual[n].shape()) {  // sizes that follow from elements
        output.largest = std::numeric_limits<double>::infinity();
        continue;
      }
      for (int64_t i = 0; i < expected[n].element_count(); ++i) {
        const double wanted = expected[n].read_double(i), found = actual[n].read_double(i);
        if (std::isnan(wanted) && std::isnan(found)) continue;
        if (std::isinf(wanted) && wanted == found) continue;
        const double difference = std::fabs(wanted - found);
        output.largest = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                                : std::max(output.largest, difference);
        output.low = std::min(output.low, wanted), output.high = std::max(output.high, wanted);
        signal_ += wanted * wanted, noise_ += difference * difference;
      }
    }
  }

  double error() const {
    double worst = 0;
    for (const Output& output : outputs_) {
      const double range = output.high - output.low;
      if (output.largest > 0) worst = std::max(worst, range > 0 ? output.largest / range : output.largest);
    }
    return worst;
  }
  double noise_db() const { return decibels(signal_ > 0 ? noise_ / signal_ : noise_); }

 private:
  struct Output {
    double largest = 0, low = std::numeric_limits<double>::infinity(), high = -low;
  };
  std::vector<Output> outputs_;
  double signal_ = 0, noise_ = 0;
};

/// Makes and measures networks of which some layers stay f32.
class Search {
 public:
  Search(Graph graph, const CalibrationData& data, const QuantiseOptions& choices, const CompileOptions& options)
      : graph_(std::move(graph)), data_(data), choices_(choices), options_(options) {}

  QuantisedModel run() {
    const Places places = quantize::find_places(graph_);
    check_any(places);
    histograms_ = calibrate(graph_, places, data_, options_);
    for (const auto& [name, histogram] : histograms_) {
      quantisers_[name] = quantize::affine_of(choose_range(histogram, choices_.method));
    }
    reference_ = std::make_unique<Network>(graph_, options_);
    QuantisedModel all = with(0);
    if (!choices_.max_error || all.error <= *choices_.max_error) return all;
    rank(all);
    return meet(std::move(all));
  }

 private:
  void check_any(const Places& places) const {
    for (const Place& place : places.nodes) {
      if (place.weighted) return;
    }
    std::string reasons;
    for (const Kept& kept : places.kept) reasons += fmt::format("\n  {} ({}): {}", kept.node, kept.op, kept.reason);
    throw Error(ErrorKind::kUnsupported,
                places.kept.empty()
                    ? "int8 was asked for, but the network has no Conv, MatMul or Gemm, which is what is quantised"
                    : "int8 was asked for, but nothing can be quantised:" + reasons, "precision");
  }

  /// The layers, those that round worst first.
  void rank(const QuantisedModel& all) {
    std::vector<QuantisedLayer> layers;
    for (const QuantisedLayer& layer : all.layers) {
      if (layer.quantised) layers.push_back(layer);
    }
    std::stable_sort(layers.begin(), layers.end(),
                     [](const auto& a, const auto& b) { return a.noise_db < b.noise_db; });
    for (const QuantisedLayer& layer : layers) ranked_.push_back(layer.node);
  }

  /// The network in which the `kept` worst layers stay f32, measured.
  QuantisedModel with(size_t kept) {
    const LeftOut left_out(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(kept));
    QuantisedModel made{.graph = graph_, .layers = {}, .batches = data_.count};
    const Places places = quantize::find_places(made.graph, left_out);
    const auto noise = quantize::insert(made.graph, places, quantisers_);
    for (const Place& place : places.nodes) {
      if (place.weighted) made.layers.push_back(layer_of(places, place, noise));
    }
    for (const Kept& layer : places.kept) made.layers.push_back({layer.node, layer.op, false, 0, layer.reason});
    Network network(made.graph, options_);
    Difference difference;
    for_each_batch(data_, options_, "measuring", [&](const std::vector<TensorData>& inputs) {
      difference.add(reference_->run(inputs), network.run(inputs));
    });
    made.error = difference.error(), made.noise_db = difference.noise_db();
    return made;
  }

  QuantisedLayer layer_of(const Places& places, const Place& place,
                          const std::map<std::string, double, std::less<>>& noise) const {
    const Node& node = graph_.nodes[static_cast<size_t>(place.node)];
    const std::string& input = graph_.value(places.ranges.at(node.inputs[0])).name;
    const Histogram& histogram = histograms_.at(input);
    const double signal = mean_square(histogram);
    const double of_input = signal > 0 ? mean_square_error(histogram, quantisers_.at(input)) / signal : 0;
    return {node.name, node.op, true, decibels(of_input + noise.at(node.name)), ""};
  }

  /// Doubles the number of layers that stay f32 until the bound is met, then halves the gap.
  QuantisedModel meet(QuantisedModel best) {
    size_t failed = 0, kept = 1;
    std::optional<QuantisedModel> met;
    size_t met_at = 0;
    while (!met && failed + 1 < ranked_.size()) {
      kept = std::min(kept, ranked_.size() - 1);
      QuantisedModel tried = with(kept);
      if (tried.error <= *choices_.max_error) {
        met = std::move(tried), met_at = kept;
      } else {
        failed = kept;
        if (tried.error < best.error) best = std::move(tried);
      }
      kept *= 2;
    }
    if (!met) {
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("no network with a layer of int8 has an error of at most {:g}: the best that was found "
                              "has {:.3g}, with {} of {} layers of int8; allow more, or compile with --precision bf16",
                              *choices_.max_error, best.error, count_quantised(best), best.layers.size()),
                  "max-error");
    }
    while (met_at - failed > 1) {
      const size_t middle = failed + (met_at - failed) / 2;
      QuantisedModel tried = with(middle);
      if (tried.error <= *choices_.max_error) {
        met = std::move(tried), met_at = middle;
      } else {
        failed = middle;
      }
    }
    return std::move(*met);
  }

  static int64_t count_quantised(const QuantisedModel& model) {
    return std::count_if(model.layers.begin(), model.layers.end(), [](const auto& layer) { return layer.quantised; });
  }

  const Graph graph_;
  const CalibrationData& data_;
  const QuantiseOptions& choices_;
  const CompileOptions& options_;
  Histograms histograms_;
  quantize::Quantisers quantisers_;
  std::unique_ptr<Network> reference_;
  std::vector<std::string> ranked_;
};

void check(const Graph& graph, const CalibrationData& data, const QuantiseOptions& choices) {
  GRAFT_USER_CHECK(data.count > 0, kInvalidArgument, "there are no samples to calibrate with", data.where);
  GRAFT_USER_CHECK(!choices.max_error || (std::isfinite(*choices.max_error) && *choices.max_error > 0),
                   kInvalidArgument, "the bound is a share of an output's range, above 0: 0.02", "max-error");
  for (const Node& node : graph.nodes) {
    GRAFT_USER_CHECK(!is_op(node, {"QuantizeLinear", "DequantizeLinear"}), kUnsupported,
                     "the model is quantised already (it has such nodes): compile it as it is", node.name);
  }
}

}  // namespace

QuantisedModel quantise_model(const Graph& imported, const CalibrationData& data, const QuantiseOptions& choices,
                              const CompileOptions& options) {
  check(imported, data, choices);
  Graph graph = imported;
  quantize::prepare(graph, {.cancelled = options.cancelled});
  return Search(std::move(graph), data, choices, options).run();
}

std::string print(const QuantisedModel& model) {
  std::string text;
  size_t quantised = 0;
  for (const QuantisedLayer& layer : model.layers) {
    quantised += layer.quantised ? 1 : 0;
    text += layer.quantised ? fmt::format("  int8  {:6.1f} dB  {} ({})\n", layer.noise_db, layer.node, layer.op)
                            : fmt::format("  fp32             {} ({}): {}\n", layer.node, layer.op, layer.reason);
  }
  return text + fmt::format("{} of {} layers are int8; against fp32 on {} batches: at most {:.2g} % of an output's "
                            "range, {:.1f} dB signal to noise",
                            quantised, model.layers.size(), model.batches, 100 * model.error, model.noise_db);
}

}  // namespace graft
