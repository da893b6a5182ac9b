// SPDX-License-Identifier: Apache-2.0
#include "quantize/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace graft::quantize {
namespace {

/// A number as JSON has it, which knows no infinity.
nlohmann::json finite(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

nlohmann::json known(const std::optional<double>& value) { return value ? finite(*value) : nlohmann::json(nullptr); }

/// What a layer alone adds to the error, and what it takes; empty columns where one of several was not measured.
std::string costs_text(const QuantisedLayer& layer) {
  std::string text = layer.error ? fmt::format("{:9.2g} %", 100 * *layer.error) : std::string(11, ' ');
  if (!layer.milliseconds_f32) return text + std::string(22, ' ');
  return text + fmt::format("  {:8.3g} -> {:<8.3g}", *layer.milliseconds_f32, *layer.milliseconds_quantised);
}

std::string layer_text(const Report& report, const QuantisedLayer& layer) {
  const bool has_noise = layer.quantised && !std::isnan(layer.noise_db);
  std::string text = fmt::format("  {:<4}", layer.quantised ? name_of(report.format.codes) : report.floats);
  text += has_noise ? fmt::format("  {:6.1f} dB", layer.noise_db) : std::string(11, ' ');
  if (!report.curve.empty()) text += costs_text(layer);
  text += fmt::format("  {} ({})", layer.node, layer.op);
  return text + (layer.quantised ? "\n" : fmt::format(": {}\n", layer.reason));
}

std::string point_text(const CurvePoint& point, std::string_view precision) {
  std::string text = fmt::format("  {} {:5} layers of {}", point.is_chosen ? '*' : ' ', point.quantised, precision);
  if (point.floats != "fp32") text += fmt::format(", others {}", point.floats);
  text += fmt::format("  {:8.3g} ms", point.milliseconds);
  if (point.error) text += fmt::format("  error {:.2g} %", 100 * *point.error);
  if (point.metric) text += fmt::format("  metric {:.6g}", *point.metric);
  return text + (point.is_met ? "\n" : "  breaks the bound\n");
}

/// The precisions that were tried, and which one was taken.
std::string tried_text(const Report& report) {
  std::string text = fmt::format("precision auto: {}, the fastest within the bound (*)\n", report.precision());
  for (const TriedPrecision& row : report.tried) {
    text += fmt::format("  {} {:<5}", row.is_chosen ? '*' : ' ', row.name);
    if (row.milliseconds) text += fmt::format("  {:8.3g} ms", *row.milliseconds);
    if (row.error) text += fmt::format("  error {:.2g} %", 100 * *row.error);
    if (row.metric) text += fmt::format("  metric {:.6g}", *row.metric);
    if (row.milliseconds && !row.is_met) text += "  breaks the bound";
    text += row.note.empty() ? "\n" : fmt::format("  {}\n", row.note);
  }
  return text;
}

nlohmann::json json_of(const TriedPrecision& row) {
  return {{"precision", row.name},
          {"error", known(row.error)},
          {"metric", known(row.metric)},
          {"milliseconds", known(row.milliseconds)},
          {"within_bound", row.is_met},
          {"chosen", row.is_chosen},
          {"note", row.note}};
}

/// The measured networks, the fastest first.
std::string curve_text(const Report& report) {
  std::vector<CurvePoint> points = report.curve;
  std::stable_sort(points.begin(), points.end(),
                   [](const CurvePoint& a, const CurvePoint& b) { return a.milliseconds < b.milliseconds; });
  std::string text = "measured networks, the fastest first (*: this one):\n";
  for (const CurvePoint& point : points) text += point_text(point, name_of(report.format.codes));
  return text;
}

/// Where a network that was asked to be quantised is slower for that.
std::string faster_text(const Report& report) {
  if (report.curve.empty()) return "";
  const double in_f32 = report.curve[0].milliseconds;
  for (const CurvePoint& point : report.curve) {
    if (!point.is_chosen || point.milliseconds <= in_f32) continue;
    return fmt::format("fp32 is faster here: {:.3g} ms against {:.3g} ms; --precision auto chooses among both\n",
                       in_f32, point.milliseconds);
  }
  return "";
}

nlohmann::json json_of(const CurvePoint& point) {
  return {{"layers", point.quantised},          {"floats", point.floats},
          {"error", known(point.error)},        {"metric", known(point.metric)},
          {"milliseconds", point.milliseconds}, {"within_bound", point.is_met},
          {"chosen", point.is_chosen}};
}

/// How operands are quantised, where it is not by ranges of samples.
std::string format_text(const Format& format) {
  switch (format.activations) {
    case Activations::kStatic: break;
    case Activations::kDynamic: return ", activations by rows in each run";
    case Activations::kFloat:
      return format.codes == Codes::kInt4 ? fmt::format(", weights alone, in blocks of {}", format.block)
                                          : ", weights alone";
  }
  return "";
}

/// What came from the calibration file, and what did not.
std::string calibration_text(const CalibrationUse& use) {
  std::string text = fmt::format("\n{}: ranges {}", use.file, use.written ? "written" : "read");
  if (use.samples > 0) text += fmt::format(", of {} samples", use.samples);
  if (use.same_samples == false) text += "; the error was measured with other samples";
  if (!use.missing.empty()) text += fmt::format("; it has none of {}", fmt::join(use.missing, ", "));
  return text;
}

nlohmann::json json_of(const CalibrationUse& use) {
  return {{"file", use.file},
          {"written", use.written},
          {"samples", use.samples},
          {"missing", use.missing},
          {"same_samples", use.same_samples ? nlohmann::json(*use.same_samples) : nlohmann::json(nullptr)}};
}

}  // namespace

int64_t Report::count_quantised() const {
  return std::count_if(layers.begin(), layers.end(), [](const QuantisedLayer& layer) { return layer.quantised; });
}

std::string print(const Report& report) {
  std::string text = report.tried.empty() ? "" : tried_text(report);
  const std::string_view precision = name_of(report.format.codes);
  if (!report.curve.empty()) {
    text += fmt::format("  type   operands      alone      ms fp32 -> {}\n", precision);
  }
  for (const QuantisedLayer& layer : report.layers) text += layer_text(report, layer);
  if (!report.curve.empty()) text += curve_text(report);
  if (report.tried.empty()) text += faster_text(report);
  text += report.layers.empty() ? fmt::format("{} ", report.floats)
                                : fmt::format("{} of {} layers are {}{}; ", report.count_quantised(),
                                              report.layers.size(), precision, format_text(report.format));
  text += report.is_measured ? fmt::format("against fp32 on {} {}: at most {:.2g} % of an output's range, "
                                           "{:.1f} dB signal to noise",
                                           report.samples,
                                           report.has_random_inputs ? "random inputs" : "samples", 100 * report.error,
                                           report.noise_db)
                             : "the error is not known: measuring it needs samples";
  if (report.not_finite > 0) {
    text += fmt::format("\nwarning: {} elements of the fp32 results are not finite on these {}", report.not_finite,
                        report.has_random_inputs ? "inputs" : "samples");
  }
  if (report.calibrated > 0) text += fmt::format("; ranges come from {} samples", report.calibrated);
  if (report.metric) {
    text += fmt::format("\nmetric: {:.6g}, and {:.6g} in fp32", *report.metric, *report.metric_of_f32);
  }
  if (report.rounded > 0) {
    text += fmt::format("\nweights of {} matrices are rounded by the samples (GPTQ)", report.rounded);
  }
  if (report.smoothed > 0) {
    text += fmt::format("\nSmoothQuant: outlying channels of {} activations are moved into weights", report.smoothed);
    if (!std::isnan(report.plain_noise_db)) text += fmt::format("; {:.1f} dB without that", report.plain_noise_db);
  }
  if (!std::isnan(report.all_noise_db)) {
    text += fmt::format("\nthe noisiest layers stay fp32: {:.1f} dB of the worst output, {:.1f} dB with all layers {}",
                        report.worst_noise_db, report.all_noise_db, name_of(report.format.codes));
  }
  if (report.left_out > 0) {
    text += fmt::format("\n{} samples at the end were left out: the network takes a fixed number at a time",
                        report.left_out);
  }
  if (report.calibration) text += calibration_text(*report.calibration);
  return text;
}

std::string json_of(const Report& report) {
  nlohmann::json layers = nlohmann::json::array();
  for (const QuantisedLayer& layer : report.layers) {
    layers.push_back({{"node", layer.node},
                      {"operator", layer.op},
                      {"precision", layer.quantised ? name_of(report.format.codes) : report.floats},
                      {"noise_db", layer.quantised ? finite(layer.noise_db) : nullptr},
                      {"error", known(layer.error)},
                      {"milliseconds_fp32", known(layer.milliseconds_f32)},
                      {"milliseconds_quantized", known(layer.milliseconds_quantised)},
                      {"reason", layer.reason}});
  }
  nlohmann::json curve = nlohmann::json::array();
  for (const CurvePoint& point : report.curve) curve.push_back(json_of(point));
  nlohmann::json tried = nlohmann::json::array();
  for (const TriedPrecision& row : report.tried) tried.push_back(json_of(row));
  nlohmann::json metric = nullptr;
  if (report.metric) metric = {{"fp32", *report.metric_of_f32}, {"quantized", *report.metric}};
  const bool is_static = report.format.activations == Activations::kStatic;
  return nlohmann::json({{"precision", report.precision()},
                         {"tried", tried},
                         {"random_inputs", report.has_random_inputs},
                         {"weights", name_of(report.format.codes)},
                         {"activations", name_of(report.format.activations)},
                         {"block", report.format.codes == Codes::kInt4 ? nlohmann::json(report.format.block) : nullptr},
                         {"method", is_static ? nlohmann::json(name_of(report.method)) : nullptr},
                         {"batches", report.batches},
                         {"samples", report.samples},
                         {"samples_calibrated", report.calibrated > 0 ? report.calibrated : report.samples},
                         {"samples_left_out", report.left_out},
                         {"measured", report.is_measured},
                         {"error", report.is_measured ? finite(report.error) : nullptr},
                         {"noise_db", report.is_measured ? finite(report.noise_db) : nullptr},
                         {"not_finite_fp32", report.not_finite},
                         {"metric", metric},
                         {"calibration", report.calibration ? json_of(*report.calibration) : nullptr},
                         {"smoothed", report.smoothed},
                         {"rounded_by_samples", report.rounded},
                         {"noise_db_unsmoothed", finite(report.plain_noise_db)},
                         {"noise_db_worst_output", report.is_measured ? finite(report.worst_noise_db) : nullptr},
                         {"noise_db_all_layers", finite(report.all_noise_db)},
                         {"max_error", known(report.max_error)},
                         {"floats", report.floats},
                         {"curve", curve},
                         {"layers", layers}})
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace graft::quantize
