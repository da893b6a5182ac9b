// SPDX-License-Identifier: Apache-2.0
#include "calibration_options.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calibration_data.h"
#include "console.h"
#include "metric_script.h"
#include "model_options.h"
#include "output.h"
#include "quantization_page.h"

namespace graft {
namespace {

/// A bound that was given, as a number. Throws UsageError.
std::optional<double> bound_of(const std::string& text, double least, const char* what) {
  if (text.empty()) return std::nullopt;
  size_t used = 0;
  double bound = 0;
  try {
    bound = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != text.size() || !std::isfinite(bound) || bound < least) throw UsageError(what);
  return bound;
}

/// What does not go together, or nothing.
std::string fault_of(const QuantiseOptions& choices, bool has_samples) {
  try {
    check_choices(choices, has_samples);
    return "";
  } catch (const Error& error) {
    return std::string("--") + error.what();
  }
}

}  // namespace

void CalibrationOptions::add_to(Command command) {
  command.add_option("--calibrate", path_,
                      "for int8, fp8 and int4: samples of the inputs, as an .npy file, an .npz file (entries named\n"
                      "like the inputs), or a folder of such files; each tensor is a sample or a batch")
      .type_name("FILE|FOLDER");
  command.add_option("--activations", activations_,
                      "for int8: static, by ranges of samples (default); dynamic, each row by its own range in each\n"
                      "run, which needs no samples; or float, which quantises weights alone, as int4 does")
      .one_of({"static", "dynamic", "float"}).type_name("KIND");
  command.add_option("--block", block_, "for int4: how many weights of a column share a scale: 32 (default)")
      .one_of({"16", "32", "64", "128", "256"}).type_name("N");
  command.add_option("--calibration-file", file_,
                      "for int8 and fp8: a file of ranges. If it exists, it is read, and samples (then optional) only\n"
                      "measure the error; otherwise it is written. A calibration cache of TensorRT is read, too")
      .type_name("FILE");
  command.add_option("--method", method_,
                      "for int8 and fp8: method for ranges: mse (default), entropy, percentile or minmax (of fp8 the\n"
                      "default)")
      .one_of({"mse", "entropy", "percentile", "minmax"}).type_name("METHOD");
  command.add_option("--smooth", smooth_,
                      "for int8, with samples: auto moves outlying channels of activations into the weights that read\n"
                      "them (SmoothQuant) if less noise remains; off (auto)")
      .one_of({"auto", "off"}).type_name("CHOICE");
  command.add_option("--rounding", rounding_,
                      "for int4, with samples: auto rounds weights so that the products of the samples stay near\n"
                      "(GPTQ); nearest takes the nearest codes (auto)")
      .one_of({"auto", "nearest"}).type_name("CHOICE");
  command.add_option("--min-snr", min_snr_,
                      "for int8, fp8 and int4, with samples and without a bound: the noisiest layers stay in\n"
                      "floats until each output keeps this signal-to-noise ratio in decibels; 0: all layers are\n"
                      "quantised (20; of int4 0)")
      .in_range(0.0, 200.0).type_name("DB");
  command.add_option("--max-error", max_error_,
                      "for int8, fp8, int4 and auto: largest allowed difference from f32, as a share of an output's\n"
                      "range: 0.02; the result is the fastest quantised network within the bound (of auto also one\n"
                      "of floats)")
      .type_name("SHARE");
  command.add_option("--metric", metric_,
                      "for int8, fp8 and int4: a function of Python, score(run) -> number, more being better, of the\n"
                      "network in f32 and of each one that is tried; `run` is a graft.Engine")
      .type_name("SCRIPT.py:FUNCTION");
  command.add_option("--max-drop", max_drop_,
                      "largest allowed loss of the metric against f32: 0.5; the result is the fastest quantised\n"
                      "network within the bound (of auto also one of floats)")
      .type_name("NUMBER");
  command.add_option("--search-limit", search_limit_,
                      "limit in seconds of the search for the fastest network within a bound: then it takes the best\n"
                      "that it has (300)")
      .in_range(0.0, 86400.0).type_name("SECONDS");
  command.add_option("--html", page_,
                      "for int8, fp8, int4 and auto: write a page for a browser (no network needed): error against\n"
                      "time of the networks that were measured, and for each layer its error, the time it wins, and\n"
                      "why it stays in floats; measures single layers")
      .type_name("FILE");
}

void CalibrationOptions::check(const std::string& precision) const {
  const std::string* given[] = {&path_,      &activations_, &block_,  &file_,
                                &method_,    &max_error_,   &metric_, &max_drop_, &page_, &smooth_, &rounding_};
  const bool any = search_limit_ || min_snr_ || std::any_of(std::begin(given), std::end(given),
                                                [](const auto* each) { return !each->empty(); });
  if (precision.empty()) {
    if (!any) return;
    throw UsageError("--calibrate, --activations, --block, --calibration-file, --method, --max-error, --metric, "
                     "--max-drop, --smooth, --rounding, --min-snr, --search-limit and --html are for --precision int8, "
                     "fp8, int4 and auto");
  }
  if (precision == kAutomatic && max_error_.empty() && max_drop_.empty()) {
    throw UsageError("--precision auto takes the fastest network within a bound: --max-error 0.01, the largest "
                     "difference from fp32 as a share of an output's range (on --calibrate SAMPLES, or on random "
                     "inputs), or --metric with --max-drop");
  }
  if (search_limit_ && max_error_.empty() && max_drop_.empty() && page_.empty()) {
    throw UsageError("--search-limit bounds the search for a network within a bound: give one, --max-error or "
                     "--max-drop, or --html, which measures single layers");
  }
  if (min_snr_ && (path_.empty() || !max_error_.empty() || !max_drop_.empty())) {
    throw UsageError("--min-snr says what the outputs keep on samples where there is no bound: give --calibrate "
                     "SAMPLES, and neither --max-error nor --max-drop");
  }
  const QuantiseOptions chosen = choices(precision);
  if (const std::string fault = fault_of(chosen, !path_.empty()); !fault.empty()) throw UsageError(fault);
  if (!chosen.automatic && chosen.is_static() && path_.empty() && (file_.empty() || !std::filesystem::exists(file_))) {
    throw UsageError(fmt::format("--precision {} needs samples of the inputs: --calibrate FOLDER with .npy files "
                                 "(numpy.save), or .npz files with the names of the inputs{}; or --activations {}, "
                                 "which need none",
                                 precision, file_.empty() ? "" : " (--calibration-file " + file_ + " is not there yet)",
                                 chosen.codes == quantize::Codes::kInt8 ? "dynamic or float" : "float"));
  }
}

QuantiseOptions CalibrationOptions::choices(const std::string& precision) const {
  QuantiseOptions choices;
  set_choice(choices, {precision == kAutomatic ? "precision" : "weights", precision});
  if (!activations_.empty()) set_choice(choices, {"activations", activations_});
  if (!block_.empty()) set_choice(choices, {"block", block_});
  choices.method = quantize::parse_method(method_);
  choices.calibration_file = file_;
  choices.max_error = bound_of(max_error_, std::numeric_limits<double>::min(),
                               "--max-error is a share of an output's range, above 0: 0.02");
  choices.max_drop = bound_of(max_drop_, 0, "--max-drop is what the metric may lose, 0 or more: 0.5");
  if (!rounding_.empty()) set_choice(choices, {"rounding", rounding_});
  if (!smooth_.empty()) set_choice(choices, {"smooth", smooth_});
  if (min_snr_) choices.min_snr = *min_snr_;
  if (search_limit_) choices.search_limit = *search_limit_;
  choices.per_layer = !page_.empty();
  if (!metric_.empty()) choices.metric = MetricScript(metric_);
  return choices;
}

QuantisedModel CalibrationOptions::quantise(const Graph& graph, const std::string& precision,
                                            const CompileOptions& options, bool low_floats) const {
  const CalibrationData data = path_.empty() ? CalibrationData() : open_calibration(path_, graph);
  QuantiseOptions chosen = choices(precision);
  if (!metric_.empty()) chosen.metric = MetricScript(metric_, options.cancelled);
  if (low_floats) chosen.low_floats = fast_floats(options);
  return quantise_model(graph, data, chosen, options);
}

void CalibrationOptions::check_page(const std::vector<std::string>& files) const {
  check_output("--html", page_, files);
}

void CalibrationOptions::check_apart(const std::string& output, const JsonOutput& json) const {
  check_outputs_apart({{"--output", output}, {"--json", json.path()}, {"--html", page_},
                       {"--calibration-file", file_}});
}

void CalibrationOptions::write_page(const std::string& model, const QuantisedModel& quantised) const {
  if (!page_.empty()) write_output(page_, quantization_page(model, json_of(quantised)));
}

void CalibrationOptions::print_report(std::FILE* stream, const QuantisedModel& quantised) {
  const std::string text = print(quantised.report);
  for (const std::string_view line : split(text, '\n')) print_to(stream, "{}\n", line);
}

nlohmann::json CalibrationOptions::json_of(const QuantisedModel& quantised) {
  return nlohmann::json::parse(quantize::json_of(quantised.report));
}

}  // namespace graft
