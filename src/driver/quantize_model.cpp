// SPDX-License-Identifier: Apache-2.0
#include "driver/quantize_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "driver/calibrator.h"
#include "passes/edit.h"
#include "quantize/calibration_file.h"
#include "quantize/insert.h"
#include "quantize/places.h"
#include "quantize/stated_ranges.h"

namespace graft {
namespace {

using passes::is_op;
using quantize::Calibration;
using quantize::Kept;
using quantize::LeftOut;
using quantize::Place;
using quantize::Places;
using quantize::QuantisedLayer;
using quantize::Report;

constexpr std::string_view kLeftOut = "left out to keep the bound";

/// Whether nodes are left out whose activations have no range in `known`; to be asked again until there are none. What
/// stands between products goes first, as products may have ranges behind it.
bool leave_out_unknown(const Graph& graph, const Places& places, const Calibration& known, const std::string& file,
                       LeftOut& left_out, std::set<std::string>& missing) {
  const size_t before = left_out.size();
  for (const bool weighted : {false, true}) {
    for (const Place& place : places.nodes) {
      const Node& node = graph.nodes[static_cast<size_t>(place.node)];
      for (const size_t n : place.activations) {
        const std::string& name = graph.value(places.ranges.at(node.inputs[n])).name;
        if (place.weighted != weighted || known.tensors.contains(name)) continue;
        missing.insert(name);
        left_out.emplace(node.name, fmt::format("{} has no range of '{}'", file, name));
      }
    }
    if (left_out.size() > before) return true;
  }
  return false;
}

void check_any(const Places& places, const quantize::Format& format) {
  for (const Place& place : places.nodes) {
    if (place.weighted) return;
  }
  std::string reasons;
  for (const Kept& kept : places.kept) reasons += fmt::format("\n  {} ({}): {}", kept.node, kept.op, kept.reason);
  const std::string_view asked = weights_name(format);
  throw Error(ErrorKind::kUnsupported,
              places.kept.empty()
                  ? fmt::format("{} was asked for, but the network has no Conv, MatMul or Gemm, which is what is "
                                "quantised", asked)
                  : fmt::format("{} was asked for, but nothing can be quantised:{}", asked, reasons), "precision");
}

/// Makes and measures networks of which some layers stay f32.
class Search {
 public:
  Search(Graph graph, const CalibrationData& data, const QuantiseOptions& choices, const CompileOptions& options)
      : graph_(std::move(graph)), form_(graph_), data_(data), choices_(choices), options_(options) {}

  QuantisedModel run() {
    check_any(quantize::find_places(graph_, {}, format_), format_);
    if (!choices_.is_static()) return without_ranges();
    if (!choices_.calibration_file.empty()) read_calibration();
    if (choices_.learned && choices_.learned->is_foreign()) known_ = choices_.learned;
    if (known_ && known_->is_foreign()) quantize::spread_ranges(graph_, known_->tensors);
    if (!data_ && known_ && known_->is_foreign()) leave_out_missing();
    if (!data_) keep_the_bound();
    const Places places = quantize::find_places(graph_, left_out_);
    check_any(places, format_);
    measure_f32();
    find_ranges(places);
    for (const auto& [name, tensor] : ranges_) quantisers_[name] = quantize::affine_of(tensor.range);
    QuantisedModel made = search();
    if (made_ && choices_.max_error) write_kept(made.report);
    return made;
  }

 private:
  /// Activations that are not static have none.
  QuantisedModel without_ranges() {
    measure_f32();
    return search();
  }

  void measure_f32() {
    if (data_ || choices_.metric) reference_ = std::make_unique<MeasuredNetwork>(graph_, options_);
    if (choices_.metric) metric_of_f32_ = metric_of(*reference_, "in f32");
  }

  /// The network with the most quantised layers that meets the bound.
  QuantisedModel search() {
    QuantisedModel made = with(0);
    if (is_met(made.report)) return made;
    rank(made.report);
    return meet(std::move(made));
  }

  /// Reads the file that is there, and refuses one that is stale.
  void read_calibration() {
    const std::string& file = choices_.calibration_file;
    network_ = quantize::hash_of(graph_);
    use_ = quantize::CalibrationUse{.file = file};
    if (choices_.learned) return;
    if (!std::filesystem::exists(file)) {
      GRAFT_USER_CHECK(data_, kInvalidArgument, "there is no such file, and there are no samples to make it from",
                       file);
      check_writable(file);
      return;
    }
    const std::vector<Calibration> all = quantize::parse_calibrations(read_text_file(file), file);
    const auto own = std::find_if(all.begin(), all.end(), [&](const Calibration& each) {
      return each.network == network_;
    });
    known_ = own == all.end() ? all.front() : *own;
    use_->samples = known_->samples;
    if (known_->is_foreign()) return;
    GRAFT_USER_CHECK(!choices_.method || *choices_.method == *known_->method, kInvalidArgument,
                     fmt::format("it was calibrated by the method {}, and {} is asked for: delete it to calibrate anew",
                                 name_of(*known_->method), name_of(*choices_.method)), file);
    GRAFT_USER_CHECK(known_->network == network_, kInvalidArgument,
                     "it was calibrated for another network (its nodes, names or weights differ): delete it to "
                     "calibrate anew", file);
    method_ = *known_->method;
  }

  void leave_out_missing() {
    std::set<std::string> missing;
    const std::string where = use_ ? use_->file : "the model";
    while (leave_out_unknown(graph_, quantize::find_places(graph_, left_out_), *known_, where, left_out_, missing)) {
    }
    if (use_) use_->missing.assign(missing.begin(), missing.end());
  }

  /// Without samples a bound holds that the file's samples have met.
  void keep_the_bound() {
    if (known_ && known_->max_error) {
      for (const std::string& layer : known_->kept) left_out_.emplace(layer, kLeftOut);
    }
    const bool is_kept = known_ && known_->max_error && choices_.max_error && *known_->max_error <= *choices_.max_error;
    GRAFT_USER_CHECK(is_kept || !choices_.max_error, kInvalidArgument,
                     "the error is measured with samples, and there are none", "max-error");
  }

  void write_kept(const Report& report) {
    made_->max_error = choices_.max_error;
    for (const QuantisedLayer& layer : report.layers) {
      if (layer.reason == kLeftOut) made_->kept.push_back(layer.node);
    }
    write_calibration(*made_);
  }

  /// From what was counted before, the samples, the calibration file, or both.
  void find_ranges(const Places& places) {
    if (choices_.learned && !known_) {
      ranges_ = choices_.learned->tensors;
      if (use_) write_calibration(*choices_.learned);
      return;
    }
    if (known_ && !known_->is_foreign()) {
      ranges_ = known_->tensors;
      return check_complete(places);
    }
    if (!data_) {
      ranges_ = known_->tensors;
      return;
    }
    Calibrator calibrator(graph_, places, options_);
    const SampleCount count =
        for_each_run(data_, form_, options_, "calibrating",
                     [&](const std::vector<TensorData>& inputs) { calibrator.run(inputs); });
    ranges_ = calibrator.ranges(method_, known_ ? &*known_ : nullptr, data_.where);
    for (const auto& [name, tensor] : ranges_) {
      if (known_ && !known_->tensors.contains(name)) use_->missing.push_back(name);
    }
    if (use_ && !known_) {
      write_calibration({.method = method_,
                         .samples = count.samples,
                         .network = network_,
                         .data = fmt::format("{:016x}", count.hash),
                         .tensors = ranges_});
    }
  }

  /// A file of this network has all of its ranges, unless somebody has edited it.
  void check_complete(const Places& places) const {
    for (const auto& [value, root] : places.ranges) {
      const std::string& name = graph_.value(root).name;
      GRAFT_USER_CHECK(ranges_.contains(name), kInvalidArgument,
                       fmt::format("it has no range of '{}': delete it to calibrate anew", name), use_->file);
    }
  }

  /// Beside what the file has of other networks.
  void write_calibration(const Calibration& made) {
    made_ = made;
    use_->written = true, use_->samples = made.samples;
    std::vector<Calibration> all;
    if (std::filesystem::exists(use_->file)) all = quantize::parse_calibrations(read_text_file(use_->file), use_->file);
    std::erase_if(all, [&](const Calibration& each) { return each.is_foreign() || each.network == made_->network; });
    all.push_back(*made_);
    write_file(use_->file, print(all));
  }

  double metric_of(const MeasuredNetwork& network, std::string_view which) const {
    report(options_, "quantize", "asking the metric");
    const double found = choices_.metric(network);
    GRAFT_USER_CHECK(std::isfinite(found), kInvalidArgument,
                     fmt::format("of the network {} it is {}: it has to be a finite number", which, found), "metric");
    return found;
  }

  bool is_met(const Report& report) const {
    return (!choices_.max_error || !data_ || report.error <= *choices_.max_error) &&
           (!choices_.max_drop || *metric_of_f32_ - *report.metric <= *choices_.max_drop);
  }
  /// The nearer to the bound: by the metric where it is bounded.
  bool is_better(const Report& a, const Report& b) const {
    return choices_.max_drop ? *a.metric > *b.metric : a.error < b.error;
  }

  /// The layers, those that round worst first.
  void rank(const Report& all) {
    std::vector<QuantisedLayer> layers;
    for (const QuantisedLayer& layer : all.layers) {
      if (layer.quantised) layers.push_back(layer);
    }
    const auto key = [](const QuantisedLayer& layer) {  // those of which nothing is known first
      return std::isnan(layer.noise_db) ? -std::numeric_limits<double>::infinity() : layer.noise_db;
    };
    std::stable_sort(layers.begin(), layers.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    for (const QuantisedLayer& layer : layers) ranked_.push_back(layer.node);
  }

  /// The network in which the `kept` worst layers stay f32, measured.
  QuantisedModel with(size_t kept) {
    LeftOut left_out = left_out_;
    for (size_t n = 0; n < kept; ++n) left_out.emplace(ranked_[n], kLeftOut);
    QuantisedModel made{.graph = graph_, .report = {.format = format_, .method = method_, .layers = {}}};
    const Places places = quantize::find_places(made.graph, left_out, format_);
    const auto noise = quantize::insert(made.graph, places, quantisers_, format_);
    for (const Place& place : places.nodes) {
      if (place.weighted) made.report.layers.push_back(layer_of(places, place, noise));
    }
    for (const Kept& layer : places.kept) made.report.layers.push_back({layer.node, layer.op, false, 0, layer.reason});
    measure(made);
    return made;
  }

  void measure(QuantisedModel& made) {
    made.report.is_measured = static_cast<bool>(data_);
    made.report.calibration = use_;
    if (!reference_) return;
    MeasuredNetwork network(made.graph, options_);
    if (data_) measure_error(made.report, network);
    if (!choices_.metric) return;
    made.report.metric_of_f32 = metric_of_f32_;
    made.report.metric = metric_of(network, fmt::format("in {}", weights_name(format_)));
  }

  void measure_error(Report& report, MeasuredNetwork& network) const {
    Difference difference;
    const SampleCount count =
        for_each_run(data_, form_, options_, "measuring", [&](const std::vector<TensorData>& inputs) {
          difference.add(reference_->run(inputs), network.run(inputs));
        });
    report.batches = count.runs, report.samples = count.samples, report.left_out = count.left_out;
    report.error = difference.error(), report.noise_db = difference.noise_db();
    if (!known_ || known_->is_foreign()) return;
    report.calibration->same_samples = known_->data == fmt::format("{:016x}", count.hash);
  }

  QuantisedLayer layer_of(const Places& places, const Place& place,
                          const std::map<std::string, double, std::less<>>& noise) const {
    const Node& node = graph_.nodes[static_cast<size_t>(place.node)];
    if (!choices_.is_static()) return {node.name, node.op, true, decibels(noise.at(node.name)), ""};
    const std::string& input = graph_.value(places.ranges.at(node.inputs[0])).name;
    const std::optional<double>& of_input = ranges_.at(input).noise;
    const double noise_db =
        of_input ? decibels(*of_input + noise.at(node.name)) : std::numeric_limits<double>::quiet_NaN();
    return {node.name, node.op, true, noise_db, ""};
  }

  /// Doubles the number of layers that stay f32 until the bound is met, then halves the gap.
  QuantisedModel meet(QuantisedModel best) {
    size_t failed = 0, kept = 1;
    std::optional<QuantisedModel> met;
    size_t met_at = 0;
    while (!met && failed + 1 < ranked_.size()) {
      kept = std::min(kept, ranked_.size() - 1);
      QuantisedModel tried = with(kept);
      if (is_met(tried.report)) {
        met = std::move(tried), met_at = kept;
      } else {
        failed = kept;
        if (is_better(tried.report, best.report)) best = std::move(tried);
      }
      kept *= 2;
    }
    if (!met) refuse(best.report);
    while (met_at - failed > 1) {
      const size_t middle = failed + (met_at - failed) / 2;
      QuantisedModel tried = with(middle);
      if (is_met(tried.report)) {
        met = std::move(tried), met_at = middle;
      } else {
        failed = middle;
      }
    }
    return std::move(*met);
  }

  [[noreturn]] void refuse(const Report& best) const {
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
                            "layers of {0}; allow more, or compile with --precision bf16",
                            weights_name(format_), wanted, found, best.count_quantised(), best.layers.size()),
                choices_.max_drop ? "max-drop" : "max-error");
  }

  const Graph graph_;
  const SampleForm form_;
  const CalibrationData& data_;
  const QuantiseOptions& choices_;
  const CompileOptions& options_;
  const quantize::Format format_ = choices_.format();
  quantize::Method method_ = choices_.method.value_or(quantize::Method::kMse);
  std::string network_;                          ///< its hash, where there is a calibration file
  std::optional<Calibration> known_;             ///< of the calibration file that is there
  std::optional<Calibration> made_;              ///< what was written to it
  std::optional<quantize::CalibrationUse> use_;  ///< where there is to be a calibration file
  LeftOut left_out_;                             ///< nodes without ranges
  CalibratedTensors ranges_;
  quantize::Quantisers quantisers_;
  std::unique_ptr<MeasuredNetwork> reference_;
  std::optional<double> metric_of_f32_;
  std::vector<std::string> ranked_;
};

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

double number_of(OptionText choice, std::string_view what) {
  double number = 0;
  const char* end = choice.value.data() + choice.value.size();
  const auto [stop, fault] = std::from_chars(choice.value.data(), end, number);
  GRAFT_USER_CHECK(fault == std::errc() && stop == end && std::isfinite(number), kInvalidArgument,
                   fmt::format("'{}' is not {}", choice.value, what), std::string(choice.key));
  return number;
}

constexpr int64_t kSmallestBlock = 16, kLargestBlock = 256;

int64_t block_of(OptionText choice) {
  const double number = number_of(choice, "a number");
  for (int64_t block = kSmallestBlock; block <= kLargestBlock; block *= 2) {
    if (number == static_cast<double>(block)) return block;
  }
  throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is not 16, 32, 64, 128 or 256", choice.value), "block");
}

}  // namespace

quantize::Format QuantiseOptions::format() const {
  const auto usual = bits == 8 ? quantize::Activations::kStatic : quantize::Activations::kFloat;
  quantize::Format format{.activations = activations.value_or(usual), .bits = bits};
  if (block) format.block = *block;
  return format;
}

bool set_choice(QuantiseOptions& choices, OptionText choice) {
  if (choice.key == "weights") {
    const std::optional<int> bits = quantize::parse_weights(choice.value);
    GRAFT_USER_CHECK(bits, kInvalidArgument, fmt::format("'{}' is not int8 or int4", choice.value), "weights");
    choices.bits = *bits;
  } else if (choice.key == "activations") {
    choices.activations = quantize::parse_activations(choice.value);
    GRAFT_USER_CHECK(choices.activations, kInvalidArgument,
                     fmt::format("'{}' is not static, dynamic or float", choice.value), "activations");
  } else if (choice.key == "block") {
    choices.block = block_of(choice);
  } else if (choice.key == "method") {
    choices.method = quantize::parse_method(choice.value);
    GRAFT_USER_CHECK(choices.method, kInvalidArgument,
                     fmt::format("'{}' is not mse, entropy, percentile or minmax", choice.value), "method");
  } else if (choice.key == "calibration-file") {
    choices.calibration_file = choice.value;
  } else if (choice.key == "max-error") {
    choices.max_error = number_of(choice, "a share of an output's range: 0.02");
  } else if (choice.key == "max-drop") {
    choices.max_drop = number_of(choice, "a number that the metric may lose: 0.5");
  } else {
    return false;
  }
  return true;
}

void check_choices(const QuantiseOptions& choices, bool has_samples) {
  const quantize::Format format = choices.format();
  const std::string_view activations = name_of(format.activations);
  GRAFT_USER_CHECK(format.bits == 8 || format.activations == quantize::Activations::kFloat, kUnsupported,
                   fmt::format("{} with weights of 4 bits: their products take floats", activations), "activations");
  GRAFT_USER_CHECK(!choices.block || format.bits == 4, kInvalidArgument,
                   "blocks are of 4 bits; weights of 8 bits have a scale for each result", "block");
  GRAFT_USER_CHECK(choices.is_static() || !choices.method, kInvalidArgument,
                   fmt::format("it chooses ranges of static activations, and they are {}", activations), "method");
  GRAFT_USER_CHECK(choices.is_static() || choices.calibration_file.empty(), kInvalidArgument,
                   fmt::format("it has ranges of static activations, and they are {}", activations),
                   "calibration-file");
  GRAFT_USER_CHECK(!choices.max_error || (std::isfinite(*choices.max_error) && *choices.max_error > 0),
                   kInvalidArgument, "the bound is a share of an output's range, above 0: 0.02", "max-error");
  GRAFT_USER_CHECK(!choices.max_drop || choices.metric, kInvalidArgument,
                   "it bounds what the metric loses, and there is no metric", "max-drop");
  GRAFT_USER_CHECK(!choices.max_drop || (std::isfinite(*choices.max_drop) && *choices.max_drop >= 0), kInvalidArgument,
                   "the bound is what the metric may lose, 0 or more: 0.5", "max-drop");
  GRAFT_USER_CHECK(has_samples || choices.is_static() || !choices.max_error, kInvalidArgument,
                   "the error is measured with samples, and there are none", "max-error");
}

QuantisedModel quantise_model(const Graph& imported, const CalibrationData& data, const QuantiseOptions& choices,
                              const CompileOptions& options) {
  check(imported, data, choices);
  Graph graph = imported;
  quantize::prepare(graph, {.cancelled = options.cancelled});
  return Search(std::move(graph), data, choices, options).run();
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
