// SPDX-License-Identifier: Apache-2.0
#include "driver/quantize_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/file.h"
#include "base/stopwatch.h"
#include "driver/choose_precision.h"
#include "driver/kept_runs.h"
#include "driver/layer_costs.h"
#include "driver/range_finder.h"
#include "driver/round_weights.h"
#include "graph/evaluate_graph.h"
#include "passes/edit.h"
#include "quantize/budget.h"
#include "quantize/insert.h"
#include "quantize/noise_limit.h"
#include "quantize/places.h"

namespace graft {
namespace {

using passes::is_op;
using quantize::Budget;
using quantize::CurvePoint;
using quantize::Kept;
using quantize::LayerCost;
using quantize::LeftOut;
using quantize::Place;
using quantize::Places;
using quantize::QuantisedLayer;
using quantize::Report;

void check_any(const Places& places, const quantize::Format& format) {
  for (const Place& place : places.nodes) {
    if (place.weighted) return;
  }
  std::string reasons;
  for (const Kept& kept : places.kept) reasons += fmt::format("\n  {} ({}): {}", kept.node, kept.op, kept.reason);
  const std::string_view asked = name_of(format.codes);
  throw Error(ErrorKind::kUnsupported,
              places.kept.empty()
                  ? fmt::format("{} was asked for, but the network has no Conv, MatMul or Gemm, which is what is "
                                "quantised", asked)
                  : fmt::format("{} was asked for, but nothing can be quantised:{}", asked, reasons), "precision");
}

/// The share of the limit that single layers may take.
constexpr double kLimitOfLayers = 0.25;
/// The error of a layer that stands for an infinite one; sums of its square stay exact enough beside others.
constexpr double kHopeless = 1e4;

/// Inputs of a network without samples, to know how long it takes.
std::vector<TensorData> random_run(const Graph& graph) {
  TensorsByName inputs = random_inputs(graph, environment().seed);
  std::vector<TensorData> run;
  for (const ValueId input : graph.inputs) run.push_back(std::move(inputs.at(graph.value(input).name)));
  return run;
}

/// Makes and measures networks of which some layers stay f32.
class Search {
 public:
  Search(Graph graph, const CalibrationData& data, const QuantiseOptions& choices, const CompileOptions& options,
         const std::string& network, const Smoothed& smoothed)
      : graph_(std::move(graph)),
        form_(graph_),
        data_(data),
        choices_(choices),
        options_(options),
        finder_(graph_, form_, data_, choices_, options_, network, smoothed),
        smoothed_(smoothed.scales.size()) {}

  /// Finds the ranges, and measures the network with all layers quantised.
  void prepare() {
    check_any(quantize::find_places(graph_, {}, format_), format_);
    if (choices_.is_static()) finder_.open();
    places_ = quantize::find_places(graph_, finder_.left_out(), format_);
    check_any(places_, format_);
    measure_f32();
    if (choices_.is_static()) {
      finder_.find(places_);
      for (const auto& [name, tensor] : finder_.ranges()) {
        quantisers_[name] = quantize::quantiser_of(tensor.range, format_.codes);
      }
    }
    if (format_.codes == quantize::Codes::kInt4 && data_ && choices_.rounds_by_samples.value_or(true)) {
      rounded_ = round_weights(graph_, places_, format_, data_, form_, options_);
    }
    all_ = try_with({});
  }

  /// What the metric gave for the network in f32, where there is one.
  const std::optional<double>& metric_of_f32() const { return metric_of_f32_; }
  /// Signal to noise of the network with all layers quantised.
  double noise_db() const { return all_.model.report.noise_db; }

  /// The scales that move outliers of activations into weights; empty where there are none, or no samples.
  quantize::Smoothing smoothing() {
    quantize::Smoothing smoothing;
    for (const auto& [name, magnitudes] : choices_.is_static() ? finder_.magnitudes() : magnitudes_of_rows()) {
      std::vector<int> exponents = quantize::smoothing_of(graph_, graph_.find_value(name), magnitudes);
      if (!exponents.empty()) smoothing[name] = std::move(exponents);
    }
    return smoothing;
  }

  /// What was found, with the calibration file that is to be written.
  QuantisedModel finish(double plain_noise_db = std::numeric_limits<double>::quiet_NaN()) {
    plain_noise_db_ = plain_noise_db;
    all_.model.report.smoothed = smoothed_, all_.model.report.plain_noise_db = plain_noise_db;
    const bool is_searched = reference_ && (has_bound() || choices_.per_layer);
    if (!is_searched && is_too_noisy(all_.model.report)) keep_noisy_layers();
    QuantisedModel made = is_searched ? within_budget(std::move(all_)) : std::move(all_.model);
    std::vector<std::string> kept;
    for (const auto& [layer, reason] : kept_) kept.push_back(layer);
    made.calibration = finder_.finish(kept);
    return made;
  }

 private:
  /// Of activations that have no ranges.
  std::map<std::string, std::vector<float>, std::less<>> magnitudes_of_rows() {
    Places watched;
    const std::vector<ValueId> activations = quantize::smoothable(graph_, places_);
    for (const ValueId value : activations) watched.ranges[value] = value;
    if (activations.empty()) return {};
    Calibrator calibrator(graph_, watched, options_, activations);
    for_each_run(data_, form_, options_, "looking at channels",
                 [&](const std::vector<TensorData>& inputs) { calibrator.run(inputs); });
    return calibrator.magnitudes();
  }

  void measure_f32() {
    if (data_ || choices_.metric) reference_ = std::make_unique<MeasuredNetwork>(graph_, options_);
    metric_of_f32_ = choices_.metric_of_f32;
    if (choices_.metric && !metric_of_f32_) metric_of_f32_ = ask_metric(choices_, *reference_, "in f32", options_);
  }

  bool has_bound() const { return choices_.max_error || choices_.max_drop; }

  /// Whether the network with all layers quantised loses more of its outputs than is allowed where no bound is given.
  bool is_too_noisy(const Report& report) const {
    return !has_bound() && data_ && !choices_.has_random_inputs && choices_.least_snr() > 0 &&
           report.worst_noise_db < choices_.least_snr();
  }

  /// Replaces that network by the one in which the noisiest layers stay f32.
  void keep_noisy_layers() {
    layers_ = Layers(graph_, places_);
    LayerErrors gated = gated_network();
    errors_ = gated.alone([this] { return has_time(1); });
    all_.network.reset();
    std::vector<std::pair<std::vector<bool>, QuantisedModel>> tried;
    const std::vector<bool> chosen = quieter(all_.model.report, gated, [&](const std::vector<bool>& kept) {
      tried.emplace_back(kept, try_with(reasons_of_noise(kept)).model);
      return noise_power(tried.back().second.report.worst_noise_db);
    });
    const auto made = std::find_if(tried.begin(), tried.end(), [&](const auto& each) { return each.first == chosen; });
    if (made == tried.end()) return;
    made->second.report.all_noise_db = all_.model.report.worst_noise_db;
    kept_ = reasons_of_noise(chosen);
    all_.model = std::move(made->second);
  }

  LayerErrors gated_network() const {
    return LayerErrors(graph_, places_, quantisers_, format_, rounded_, runs_.runs(), options_);
  }

  std::vector<bool> quieter(const Report& all, LayerErrors& gated, const quantize::MeasureNoise& measure) const {
    quantize::KnownNoise known{.all = noise_power(all.worst_noise_db)};
    for (const std::optional<LayerError>& layer : errors_) known.alone.push_back(layer ? layer->noise : 0);
    const auto estimate = [&](const std::vector<bool>& kept) {
      report(options_, "quantize", "which layers stay fp32");
      return gated.without(kept).noise;
    };
    return quantize::keep_noisiest(known, noise_power(choices_.least_snr()), estimate, measure);
  }

  LeftOut reasons_of_noise(const std::vector<bool>& kept) const {
    LeftOut reasons;
    for (size_t n = 0; n < kept.size(); ++n) {
      if (!kept[n]) continue;
      reasons[layers_.names[n]] =
          fmt::format("{} of it alone leaves the outputs {:.1f} dB signal to noise", name_of(format_.codes),
                      decibels(errors_[n] ? errors_[n]->noise : 0));
    }
    return reasons;
  }

  bool is_met(const Report& report) const {
    return (!choices_.max_error || !data_ || report.error <= *choices_.max_error) &&
           (!choices_.max_drop || *metric_of_f32_ - *report.metric <= *choices_.max_drop);
  }
  /// The nearer to the bound: by the metric where it is bounded.
  bool is_better(const Report& a, const Report& b) const {
    return choices_.max_drop ? *a.metric > *b.metric : a.error < b.error;
  }

  /// A network that was made and measured.
  struct Tried {
    QuantisedModel model;
    std::unique_ptr<MeasuredNetwork> network;
  };

  /// The network in which these layers stay f32, measured.
  Tried try_with(const LeftOut& kept, Precision floats = Precision::kFp32) {
    LeftOut left_out = finder_.left_out();
    left_out.insert(kept.begin(), kept.end());
    Tried made{{.graph = graph_, .report = {.format = format_, .method = finder_.method(), .layers = {}}}, nullptr};
    Report& report = made.model.report;
    report.rounded = rounded_.size();
    report.smoothed = smoothed_, report.plain_noise_db = plain_noise_db_;
    const Places places = quantize::find_places(made.model.graph, left_out, format_);
    const auto noise = quantize::insert(made.model.graph, places, quantisers_, format_, rounded_);
    for (const Place& place : places.nodes) {
      if (place.weighted) report.layers.push_back(layer_of(places, place, noise));
    }
    for (const Kept& layer : places.kept) report.layers.push_back({layer.node, layer.op, false, 0, layer.reason});
    report.max_error = choices_.max_error, report.floats = name_of(floats), made.model.floats = floats;
    report.is_measured = static_cast<bool>(data_), report.calibration = finder_.use();
    if (!reference_) return made;
    made.network = std::make_unique<MeasuredNetwork>(made.model.graph, options_, MeasuredForm{.precision = floats});
    if (data_) measure_error(report, *made.network);
    if (!choices_.metric) return made;
    report.metric_of_f32 = metric_of_f32_;
    report.metric = ask_metric(choices_, *made.network, fmt::format("in {}", name_of(format_.codes)), options_);
    return made;
  }

  void measure_error(Report& report, MeasuredNetwork& network) {
    Difference difference;
    if (!expected_) expected_.emplace(*reference_);
    runs_.clear();
    const SampleCount count =
        for_each_run(data_, form_, options_, "measuring", [&](const std::vector<TensorData>& inputs) {
          if (!choices_.is_static()) check_finite(inputs);
          if (timed_run_.empty()) timed_run_ = inputs;
          runs_.add(inputs, form_.is_batched() ? inputs[0].shape()[0] : 1,
                    form_.is_batched() && !form_.is_fixed() && !data_.are_runs);
          difference.add(expected_->of(inputs), network.run(inputs));
        });
    report.batches = count.runs, report.samples = count.samples, report.left_out = count.left_out;
    report.error = difference.error(), report.noise_db = difference.noise_db();
    report.worst_noise_db = difference.worst_noise_db();
    report.not_finite = difference.not_finite();
    if (report.calibration) report.calibration->same_samples = finder_.are_its_samples(count.hash);
  }

  /// Ranges of static activations are checked where they are found; others have none. An infinity may be a mask's.
  void check_finite(const std::vector<TensorData>& inputs) const {
    for (size_t n = 0; n < inputs.size(); ++n) {
      if (!is_float(inputs[n].type())) continue;
      int64_t count = 0;
      for (int64_t i = 0; i < inputs[n].element_count(); ++i) count += std::isnan(inputs[n].read_double(i)) ? 1 : 0;
      GRAFT_USER_CHECK(count == 0, kInvalidArgument,
                       fmt::format("with this data {} elements of '{}' are NaN: mend the data", count,
                                   graph_.value(graph_.inputs[n]).name), data_.where);
    }
  }

  QuantisedLayer layer_of(const Places& places, const Place& place,
                          const std::map<std::string, double, std::less<>>& noise) const {
    const Node& node = graph_.nodes[static_cast<size_t>(place.node)];
    if (!choices_.is_static()) return {node.name, node.op, true, decibels(noise.at(node.name)), ""};
    const std::string& input = graph_.value(places.ranges.at(node.inputs[0])).name;
    const std::optional<double>& of_input = finder_.ranges().at(input).noise;
    const double noise_db =
        of_input ? decibels(*of_input + noise.at(node.name)) : std::numeric_limits<double>::quiet_NaN();
    return {node.name, node.op, true, noise_db, ""};
  }

  /// The times of a network: on the device that it is compiled for, which may not be that of its errors.
  NetworkTimes time(const Graph& graph, MeasuredNetwork& network, Precision floats,
                    std::shared_ptr<const Engine>& engine) {
    report(options_, "quantize", "measuring times");
    engine = network.loaded()->engine;
    if (options_.device == "cpu") return network.time(timed_run_, options_);
    MeasuredNetwork there(graph, options_, {floats, options_.device});
    engine = there.loaded()->engine;
    return there.time(timed_run_, options_);
  }

  /// The fastest network that was found within the bound, with what was found of others and of the layers.
  QuantisedModel within_budget(Tried all) {
    if (timed_run_.empty()) timed_run_ = random_run(graph_);
    const std::vector<LayerCost> costs = measure_layers(all);
    std::vector<Report> reports = {all.model.report};
    const auto trial_of = [this](const Report& report, double milliseconds) {
      const double unknown = std::numeric_limits<double>::infinity();
      return quantize::Trial{{}, data_ ? report.error : unknown, milliseconds, is_met(report)};
    };
    quantize::Trial first = trial_of(all.model.report, all_times_.milliseconds);
    first.kept.assign(layers_.names.size(), false);
    all_is_met_ = first.is_met;
    const Budget budget{.layers = costs,
                        .most_error = data_ ? choices_.max_error : std::nullopt,
                        .milliseconds = all_times_.milliseconds,
                        .measure = [&](const std::vector<bool>& kept) {
                          Tried tried = try_with(reasons_of(kept, costs));
                          std::shared_ptr<const Engine> engine;
                          const double milliseconds =
                              time(tried.model.graph, *tried.network, Precision::kFp32, engine).milliseconds;
                          reports.push_back(tried.model.report);
                          return trial_of(tried.model.report, milliseconds);
                        },
                        .has_time = [this] { return has_time(1); }};
    all.network.reset();
    std::vector<quantize::Trial> trials = {first};
    if (has_bound()) trials = quantize::search(budget, first);
    const bool is_noisy = !has_bound() && is_too_noisy(reports[0]);
    const std::optional<size_t> best = is_noisy ? add_quieter(budget, trials, reports) : quantize::fastest(trials);
    if (!best) refuse(trials, reports);
    kept_ = reasons_of(trials[*best].kept, costs);
    QuantisedModel made = finished(reports[*best], trials[*best].kept);
    add_curve(made.report, trials, reports, *best);
    try_low_floats(made);
    return made;
  }

  /// Measures networks in which the noisiest layers stay f32, and gives the number of the trial to take.
  size_t add_quieter(const Budget& budget, std::vector<quantize::Trial>& trials, std::vector<Report>& reports) const {
    LayerErrors gated = gated_network();
    const std::vector<bool> chosen = quieter(Report(reports[0]), gated, [&](const std::vector<bool>& kept) {
      trials.push_back(budget.measure(kept));
      trials.back().kept = kept;
      return noise_power(reports.back().worst_noise_db);
    });
    const auto best = std::find_if(trials.begin(), trials.end(), [&](const auto& each) { return each.kept == chosen; });
    const auto number = static_cast<size_t>(best - trials.begin());
    if (number > 0) reports[number].all_noise_db = reports[0].worst_noise_db;
    return number;
  }

  bool has_time(double share) const { return watch_.seconds() < share * choices_.search_limit; }

  /// What each layer adds and wins.
  std::vector<LayerCost> measure_layers(Tried& all) {
    layers_ = Layers(graph_, places_);
    std::shared_ptr<const Engine> engine;
    f32_times_ = time(graph_, *reference_, Precision::kFp32, engine);
    f32_layers_ = times_of(layers_, graph_, *engine, f32_times_.steps);
    all_times_ = time(all.model.graph, *all.network, Precision::kFp32, engine);
    all_layers_ = times_of(layers_, graph_, *engine, all_times_.steps);
    errors_.assign(layers_.names.size(), std::nullopt);
    if (data_) errors_ = gated_network().alone([this] { return has_time(kLimitOfLayers); });
    std::vector<LayerCost> costs;
    const std::vector<double> expected = expected_errors(all.model.report);
    for (size_t n = 0; n < layers_.names.size(); ++n) {
      const double error = errors_[n] ? errors_[n]->error : expected[n];  // NaN: infinite, and no noise is near
      costs.push_back({error < kHopeless ? error : kHopeless, f32_layers_[n] - all_layers_[n]});
    }
    return costs;
  }

  /// The error of layers that were not measured: the noise of their operands, times what such noise makes of the error
  /// in the nearest layers that were.
  std::vector<double> expected_errors(const Report& report) const {
    const size_t count = layers_.names.size();
    std::vector<double> noise;
    for (size_t n = 0; n < count; ++n) {
      const double db = report.layers[n].noise_db;  // not known: as if it were all noise
      noise.push_back(std::isnan(db) || db < -200 ? 1 : std::max(std::pow(10, -db / 20), 1e-12));
    }
    const auto ratio = [&](size_t n) { return errors_[n]->error / noise[n]; };
    std::vector<double> expected = noise;
    for (size_t n = 0; n < count; ++n) {
      size_t before = n, after = n;
      while (before > 0 && !errors_[before]) --before;
      while (after + 1 < count && !errors_[after]) ++after;
      if (errors_[before] && errors_[after]) expected[n] *= std::sqrt(ratio(before) * ratio(after));
      else if (errors_[before] || errors_[after]) expected[n] *= ratio(errors_[before] ? before : after);
    }
    return expected;
  }

  /// Why layers stay in floats.
  LeftOut reasons_of(const std::vector<bool>& kept, const std::vector<LayerCost>& costs) const {
    if (!has_bound()) return reasons_of_noise(kept);
    LeftOut reasons;
    const std::string_view name = name_of(format_.codes);
    for (size_t n = 0; n < kept.size(); ++n) {
      if (!kept[n]) continue;
      std::string& reason = reasons[layers_.names[n]];
      if (!all_is_met_) reason = kLeftOutForBound;
      if (costs[n].won > 0) continue;
      reason += fmt::format("{}{} is not faster here: {:.3g} ms, in fp32 {:.3g} ms", reason.empty() ? "" : "; ", name,
                            all_layers_[n], f32_layers_[n]);
    }
    return reasons;
  }

  /// The network of a report, which was measured, with what is known of its layers.
  QuantisedModel finished(Report report, const std::vector<bool>& kept) {
    LeftOut left_out = finder_.left_out();
    left_out.insert(kept_.begin(), kept_.end());
    QuantisedModel made{.graph = graph_, .report = std::move(report)};
    quantize::insert(made.graph, quantize::find_places(made.graph, left_out, format_), quantisers_, format_,
                     rounded_);
    std::map<std::string, size_t, std::less<>> places;
    for (size_t n = 0; n < kept.size(); ++n) places[layers_.names[n]] = n;
    for (QuantisedLayer& layer : made.report.layers) {
      const auto place = places.find(layer.node);
      if (place == places.end()) continue;
      if (errors_[place->second]) layer.error = errors_[place->second]->error;
      layer.milliseconds_f32 = f32_layers_[place->second];
      layer.milliseconds_quantised = all_layers_[place->second];
    }
    return made;
  }

  void add_curve(Report& report, const std::vector<quantize::Trial>& trials, const std::vector<Report>& reports,
                 size_t best) const {
    report.curve.push_back({.floats = "fp32", .error = 0, .metric = metric_of_f32_,
                            .milliseconds = f32_times_.milliseconds, .is_met = true});
    if (!data_) report.curve[0].error.reset();
    for (size_t n = 0; n < trials.size(); ++n) {
      report.curve.push_back(point_of(reports[n], trials[n].milliseconds));
      report.curve.back().is_chosen = n == best;
    }
  }
  CurvePoint point_of(const Report& report, double milliseconds) const {
    CurvePoint point{.quantised = report.count_quantised(), .floats = report.floats, .error = std::nullopt,
                     .metric = report.metric, .milliseconds = milliseconds, .is_met = is_met(report)};
    if (data_) point.error = report.error;
    return point;
  }

  /// What stays in floats in a type of 16 bits that the machine has units for, if the bound holds and it is faster.
  void try_low_floats(QuantisedModel& made) {
    if (!choices_.low_floats || !has_bound() || !has_time(1)) return;
    Tried tried = try_with(kept_, *choices_.low_floats);
    std::shared_ptr<const Engine> engine;
    const double milliseconds = time(tried.model.graph, *tried.network, *choices_.low_floats, engine).milliseconds;
    CurvePoint point = point_of(tried.model.report, milliseconds);
    const auto chosen = std::find_if(made.report.curve.begin(), made.report.curve.end(),
                                     [](const CurvePoint& each) { return each.is_chosen; });
    constexpr double kFaster = 0.98;
    if (point.is_met && milliseconds < kFaster * chosen->milliseconds) {
      chosen->is_chosen = false, point.is_chosen = true;
      made.floats = *choices_.low_floats, made.report.floats = point.floats;
      made.report.error = tried.model.report.error, made.report.noise_db = tried.model.report.noise_db;
      made.report.metric = tried.model.report.metric;
    }
    made.report.curve.push_back(std::move(point));
  }

  [[noreturn]] void refuse(const std::vector<quantize::Trial>& trials, const std::vector<Report>& reports) const {
    size_t nearest = 0;
    for (size_t n = 1; n < reports.size(); ++n) nearest = is_better(reports[n], reports[nearest]) ? n : nearest;
    const Report& best = reports[nearest];
    std::string wanted, found;
    if (choices_.max_error) {
      wanted = fmt::format("has an error of at most {:g}", *choices_.max_error);
      found = fmt::format("an error of {:.3g}", best.error);
    }
    if (choices_.max_drop) {
      wanted += fmt::format("{}loses at most {:g} of the metric", wanted.empty() ? "" : " and ", *choices_.max_drop);
      found += fmt::format("{}a metric of {:.6g}, and {:.6g} in f32", found.empty() ? "" : " and ", *best.metric,
                           *metric_of_f32_);
    }
    throw Error(ErrorKind::kUnsupported,
                fmt::format("no network with a layer of {0} {1}: the best that was found has {2}, with {3} of {4} "
                            "layers of {0}, in {5:.3g} ms (fp32: {6:.3g} ms); allow more, or compile with --precision "
                            "bf16",
                            name_of(format_.codes), wanted, found, best.count_quantised(), best.layers.size(),
                            trials[nearest].milliseconds, f32_times_.milliseconds),
                choices_.max_drop ? "max-drop" : "max-error");
  }

  const Stopwatch watch_;
  const Graph graph_;
  const SampleForm form_;
  const CalibrationData& data_;
  const QuantiseOptions& choices_;
  const CompileOptions& options_;
  const quantize::Format format_ = choices_.format();
  RangeFinder finder_;
  const size_t smoothed_;  ///< activations
  double plain_noise_db_ = std::numeric_limits<double>::quiet_NaN();
  Tried all_;  ///< the network with all layers quantised
  Places places_;  ///< of the network with all layers that can be quantised
  quantize::Quantisers quantisers_;
  quantize::RoundedWeights rounded_;
  std::unique_ptr<MeasuredNetwork> reference_;
  std::optional<ReferenceResults> expected_;
  std::optional<double> metric_of_f32_;
  KeptRuns runs_;
  std::vector<TensorData> timed_run_;  ///< the first one of the samples
  Layers layers_;
  NetworkTimes f32_times_, all_times_;
  std::vector<double> f32_layers_, all_layers_;  ///< milliseconds
  std::vector<std::optional<LayerError>> errors_;  ///< of single layers
  bool all_is_met_ = false;                      ///< the bound, with all layers quantised
  LeftOut kept_;                                 ///< layers that stay in floats in the result
};

/// The scales that the calibration file has of this network.
Smoothed recorded_smoothing(const QuantiseOptions& choices, const std::string& network) {
  const std::string& file = choices.calibration_file;
  if (file.empty() || choices.learned || !std::filesystem::exists(file)) return {};
  for (const quantize::Calibration& each : quantize::parse_calibrations(read_text_file(file), file)) {
    if (each.network != network) continue;
    GRAFT_USER_CHECK(choices.smooths.value_or(true) || each.smoothed.empty(), kInvalidArgument,
                     "its ranges are those behind SmoothQuant, and smooth off is asked for: delete it to calibrate "
                     "anew, or leave smooth out", file);
    return {each.smoothed, true};
  }
  return {};
}

void check(const Graph& graph, const CalibrationData& data, const QuantiseOptions& choices) {
  check_choices(choices, static_cast<bool>(data));
  GRAFT_USER_CHECK(data || !choices.is_static() || choices.learned || !choices.calibration_file.empty(),
                   kInvalidArgument,
                   "int8 needs samples of the inputs, or a calibration file; dynamic activations (found in each run) "
                   "and float ones (weights alone are quantised) need none", "int8");
  for (const Node& node : graph.nodes) {
    GRAFT_USER_CHECK(!is_op(node, {"QuantizeLinear", "DequantizeLinear"}), kUnsupported,
                     "the model is quantised already (it has such nodes): compile it as it is", node.name);
  }
}

}  // namespace

QuantisedModel quantise_model(const Graph& imported, const CalibrationData& data, const QuantiseOptions& choices,
                              const CompileOptions& options) {
  if (choices.automatic) {
    check_choices(choices, static_cast<bool>(data));
    return choose_precision(imported, data, choices, options);
  }
  check(imported, data, choices);
  Graph graph = imported;
  quantize::prepare(graph, {.cancelled = options.cancelled});
  const std::string network = choices.calibration_file.empty() ? "" : quantize::hash_of(graph);
  const Smoothed recorded = recorded_smoothing(choices, network);
  if (!recorded.scales.empty()) quantize::smooth(graph, recorded.scales, choices.calibration_file);
  Search plain(graph, data, choices, options, network, recorded);
  plain.prepare();
  const bool is_wanted = choices.smooths.value_or(true) && choices.codes == quantize::Codes::kInt8 &&
                         recorded.scales.empty() && choices.format().activations != quantize::Activations::kFloat;
  const bool may_smooth = is_wanted && data && !choices.has_random_inputs && !choices.learned;
  const Smoothed found{may_smooth ? plain.smoothing() : quantize::Smoothing(), false};
  if (found.scales.empty()) return plain.finish();
  quantize::smooth(graph, found.scales, "smooth");
  QuantiseOptions again = choices;
  again.metric_of_f32 = plain.metric_of_f32();
  Search smoothed(std::move(graph), data, again, options, network, found);
  smoothed.prepare();
  return smoothed.noise_db() > plain.noise_db() ? smoothed.finish(plain.noise_db()) : plain.finish();
}

void write_calibration(const QuantisedModel& made) {
  if (made.calibration) write_calibration(*made.calibration, made.report.calibration->file);
}

bool is_quantised(const Graph& imported) {
  return std::any_of(imported.nodes.begin(), imported.nodes.end(), [](const Node& node) {
    return is_op(node, {"QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger",
                        "MatMulInteger"});
  });
}

void check_quantisable(const Graph& prepared, const QuantiseOptions& choices) {
  const quantize::Format format = choices.format();
  check_any(quantize::find_places(prepared, {}, format), format);
}

}  // namespace graft
