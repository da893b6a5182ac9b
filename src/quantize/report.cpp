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

std::string layer_text(const QuantisedLayer& layer, std::string_view precision) {
  if (!layer.quantised) return fmt::format("  fp32             {} ({}): {}\n", layer.node, layer.op, layer.reason);
  if (std::isnan(layer.noise_db)) return fmt::format("  {}             {} ({})\n", precision, layer.node, layer.op);
  return fmt::format("  {}  {:6.1f} dB  {} ({})\n", precision, layer.noise_db, layer.node, layer.op);
}

/// How operands are quantised, where it is not by ranges of samples.
std::string format_text(const Format& format) {
  switch (format.activations) {
    case Activations::kStatic: break;
    case Activations::kDynamic: return ", activations by rows in each run";
    case Activations::kFloat: return format.bits == 4 ? fmt::format(", weights alone, in blocks of {}", format.block)
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
  std::string text;
  const std::string_view precision = weights_name(report.format);
  for (const QuantisedLayer& layer : report.layers) text += layer_text(layer, precision);
  text += fmt::format("{} of {} layers are {}{}; ", report.count_quantised(), report.layers.size(), precision,
                      format_text(report.format));
  text += report.is_measured ? fmt::format("against fp32 on {} samples: at most {:.2g} % of an output's range, "
                                           "{:.1f} dB signal to noise",
                                           report.samples, 100 * report.error, report.noise_db)
                             : "the error is not known: measuring it needs samples";
  if (report.calibrated > 0) text += fmt::format("; ranges come from {} samples", report.calibrated);
  if (report.metric) {
    text += fmt::format("\nmetric: {:.6g}, and {:.6g} in fp32", *report.metric, *report.metric_of_f32);
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
                      {"precision", layer.quantised ? weights_name(report.format) : "fp32"},
                      {"noise_db", layer.quantised ? finite(layer.noise_db) : nullptr},
                      {"reason", layer.reason}});
  }
  nlohmann::json metric = nullptr;
  if (report.metric) metric = {{"fp32", *report.metric_of_f32}, {"quantized", *report.metric}};
  const bool is_static = report.format.activations == Activations::kStatic;
  return nlohmann::json({{"weights", weights_name(report.format)},
                         {"activations", name_of(report.format.activations)},
                         {"block", report.format.bits == 4 ? nlohmann::json(report.format.block) : nullptr},
                         {"method", is_static ? nlohmann::json(name_of(report.method)) : nullptr},
                         {"batches", report.batches},
                         {"samples", report.samples},
                         {"samples_calibrated", report.calibrated > 0 ? report.calibrated : report.samples},
                         {"samples_left_out", report.left_out},
                         {"measured", report.is_measured},
                         {"error", report.is_measured ? finite(report.error) : nullptr},
                         {"noise_db", report.is_measured ? finite(report.noise_db) : nullptr},
                         {"metric", metric},
                         {"calibration", report.calibration ? json_of(*report.calibration) : nullptr},
                         {"layers", layers}})
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace graft::quantize
