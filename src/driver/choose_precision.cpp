// SPDX-License-Identifier: Apache-2.0
#include "driver/choose_precision.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/stopwatch.h"
#include "graph/evaluate_graph.h"
#include "target/target.h"

namespace graft {
namespace {

using quantize::Report;
using quantize::TriedPrecision;

constexpr uint64_t kRandomRuns = 4;
constexpr double kFaster = 0.98;  // of the time of fp32: measurements do not tell less apart

/// Runs of random inputs, for want of samples.
CalibrationData random_data(const Graph& graph) {
  const auto batch = [&graph](size_t index) -> std::optional<std::vector<TensorData>> {
    if (index >= kRandomRuns) return std::nullopt;
    TensorsByName inputs = random_inputs(graph, environment().seed + index);
    std::vector<TensorData> run;
    for (const ValueId input : graph.inputs) run.push_back(std::move(inputs.at(graph.value(input).name)));
    return run;
  };
  return {batch, kRandomRuns, "random inputs", true};
}

class Choosing {
 public:
  Choosing(const Graph& imported, const CalibrationData& data, const QuantiseOptions& choices,
           const CompileOptions& options)
      : imported_(imported),
        form_(imported),
        random_(data ? CalibrationData() : random_data(imported)),
        has_samples_(static_cast<bool>(data)),
        data_(data ? data : random_),
        choices_(choices),
        options_(options) {}

  QuantisedModel run() {
    check();
    measure_f32();
    for (const Precision precision : {Precision::kTf32, Precision::kBf16, Precision::kFp16}) {
      if (precision != Precision::kTf32 || options_.device != "cpu") try_floats(precision);
    }
    try_int8();
    return finished();
  }

 private:
  /// What would be found only after the floats were measured, or measured wrongly.
  void check() const {
    for (const std::string& name : options_.targets) {
      const Target target = find_target(name, options_.threads), here = measured_target();
      const bool is_here = target.kind == here.kind && why_not_runnable(target, here).empty();
      GRAFT_USER_CHECK(is_here, kUnsupported,
                       fmt::format("precision auto measures times on this machine ({}), which says nothing of {}: run "
                                   "it there, or choose a precision", here.name, target.name), "target");
    }
    const std::string& file = choices_.calibration_file;
    GRAFT_USER_CHECK(has_samples_ || file.empty() || std::filesystem::exists(file), kInvalidArgument,
                     "there is no such file, and there are no samples to make it from: random inputs are none", file);
  }

  Target measured_target() const {
    CompileOptions measured = options_;
    measured.targets.clear();
    return targets_of(measured).front();
  }

  void measure_f32() {
    reference_ = std::make_unique<MeasuredNetwork>(imported_, options_, MeasuredForm{.device = options_.device});
    TriedPrecision row{.name = "fp32", .error = 0, .is_met = true};
    if (choices_.metric) row.metric = metric_of_f32_ = ask_metric(choices_, *reference_, "in fp32", options_);
    for_each_run(data_, form_, options_, "measuring", [&](const std::vector<TensorData>& inputs) {
      if (timed_run_.empty()) timed_run_ = inputs;
    });
    row.milliseconds = reference_->time(timed_run_, options_).milliseconds;
    tried_.push_back(std::move(row));
  }

  bool is_met(const TriedPrecision& row) const {
    return (!choices_.max_error || *row.error <= *choices_.max_error) &&
           (!choices_.max_drop || *metric_of_f32_ - *row.metric <= *choices_.max_drop);
  }

  /// Fills in a row; what a machine or a network does not support is noted there.
  template <class Trying>
  void attempt(std::string_view name, const Trying& trying) {
    TriedPrecision row{.name = std::string(name)};
    if (watch_.seconds() > choices_.search_limit) {
      row.note = fmt::format("not tried: the search has had its {:g} s", choices_.search_limit);
    } else {
      report(options_, "quantize", fmt::format("trying {}", name));
      try {
        trying(row);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kUnsupported) throw;
        const std::string_view message = error.what();
        row.note = message.substr(0, message.find('\n'));
      }
    }
    tried_.push_back(std::move(row));
  }

  void try_floats(Precision precision) {
    attempt(name_of(precision), [&](TriedPrecision& row) {
      MeasuredNetwork network(imported_, options_, {precision, options_.device});
      Difference difference;
      const SampleCount count =
          for_each_run(data_, form_, options_, "measuring", [&](const std::vector<TensorData>& inputs) {
            difference.add(reference_->run(inputs), network.run(inputs));
          });
      if (choices_.metric) row.metric = ask_metric(choices_, network, "in " + row.name, options_);
      row.error = difference.error(), row.milliseconds = network.time(timed_run_, options_).milliseconds;
      row.is_met = is_met(row);
      noise_db_[row.name] = difference.noise_db(), count_ = count, not_finite_ = difference.not_finite();
    });
  }

  void try_int8() {
    attempt("int8", [&](TriedPrecision& row) {
      QuantiseOptions choices = choices_;
      choices.automatic = false, choices.codes = quantize::Codes::kInt8, choices.metric_of_f32 = metric_of_f32_;
      choices.has_random_inputs = !has_samples_;
      choices.low_floats = fast_floats(options_);
      choices.search_limit = std::max(choices_.search_limit - watch_.seconds(), 0.0);
      const bool is_static = has_samples_ || !choices.calibration_file.empty();
      if (!choices.activations) {
        choices.activations = is_static ? quantize::Activations::kStatic : quantize::Activations::kDynamic;
      }
      quantised_ = quantise_model(imported_, data_, choices, options_);
      const Report& made = quantised_->report;
      row.error = made.error, row.metric = made.metric, row.is_met = true;
      for (const quantize::CurvePoint& point : made.curve) {
        if (point.is_chosen) row.milliseconds = point.milliseconds;
      }
      row.note = fmt::format("{} activations, {} of {} layers{}", name_of(made.format.activations),
                             made.count_quantised(), made.layers.size(),
                             made.floats == "fp32" ? "" : ", others " + made.floats);
    });
  }

  QuantisedModel finished() {
    size_t best = 0;
    for (size_t n = 1; n < tried_.size(); ++n) {
      if (!tried_[n].is_met || !tried_[n].milliseconds) continue;
      const double limit = *tried_[best].milliseconds * (best == 0 ? kFaster : 1);
      if (*tried_[n].milliseconds < limit) best = n;
    }
    tried_[best].is_chosen = true;
    QuantisedModel made;
    if (tried_[best].name == "int8") {
      made = std::move(*quantised_);
    } else {
      made.graph = imported_, made.report = report_of(tried_[best]);
      made.floats = precision_of(tried_[best].name);
    }
    made.report.tried = std::move(tried_), made.report.has_random_inputs = !has_samples_;
    return made;
  }

  /// Of a network of floats.
  Report report_of(const TriedPrecision& chosen) const {
    Report report{.layers = {}};
    report.batches = count_.runs, report.samples = count_.samples, report.left_out = count_.left_out;
    report.error = *chosen.error, report.metric = chosen.metric, report.metric_of_f32 = metric_of_f32_;
    const auto noise = noise_db_.find(chosen.name);
    report.noise_db = noise == noise_db_.end() ? std::numeric_limits<double>::infinity() : noise->second;
    report.max_error = choices_.max_error, report.floats = chosen.name, report.not_finite = not_finite_;
    return report;
  }

  static Precision precision_of(std::string_view name) {
    for (const Precision each : {Precision::kTf32, Precision::kBf16, Precision::kFp16}) {
      if (name == name_of(each)) return each;
    }
    return Precision::kFp32;
  }

  const Stopwatch watch_;
  const Graph& imported_;
  const SampleForm form_;
  const CalibrationData random_;
  const bool has_samples_;
  const CalibrationData& data_;
  const QuantiseOptions& choices_;
  const CompileOptions& options_;
  std::unique_ptr<MeasuredNetwork> reference_;
  std::optional<double> metric_of_f32_;
  std::vector<TensorData> timed_run_;
  SampleCount count_;
  int64_t not_finite_ = 0;
  std::map<std::string, double, std::less<>> noise_db_;
  std::vector<TriedPrecision> tried_;  ///< fp32 first
  std::optional<QuantisedModel> quantised_;
};

}  // namespace

QuantisedModel choose_precision(const Graph& imported, const CalibrationData& data, const QuantiseOptions& choices,
                                const CompileOptions& options) {
  return Choosing(imported, data, choices, options).run();
}

}  // namespace graft
