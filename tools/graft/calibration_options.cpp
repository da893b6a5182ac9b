// SPDX-License-Identifier: Apache-2.0
#include "calibration_options.h"

#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "calibration_data.h"
#include "console.h"
#include "model_options.h"
#include "output.h"

namespace graft {
namespace {

/// A number of decibels as JSON has it, which knows no infinity.
nlohmann::json finite(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

/// The bound, as a number. Throws UsageError.
std::optional<double> bound_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  size_t used = 0;
  double bound = 0;
  try {
    bound = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != text.size() || !std::isfinite(bound) || bound <= 0) {
    throw UsageError("--max-error is a share of an output's range, above 0: 0.02");
  }
  return bound;
}

}  // namespace

void CalibrationOptions::add_to(Command command) {
  command.add_option("--calibrate", path_,
                      "for int8: samples of the inputs, as an .npy file, an .npz file (entries named like the\n"
                      "inputs), or a folder of such files; each tensor is a sample or a batch")
      .type_name("FILE|FOLDER");
  command.add_option("--method", method_,
                      "for int8: how ranges are chosen: mse (default), entropy, percentile or minmax")
      .one_of({"mse", "entropy", "percentile", "minmax"}).type_name("METHOD");
  command.add_option("--max-error", max_error_,
                      "for int8: the largest difference from f32 that is allowed, as a share of an output's range:\n"
                      "0.02; layers that break it stay f32")
      .type_name("SHARE");
}

void CalibrationOptions::check(bool int8) const {
  if (!int8 && (!path_.empty() || !method_.empty() || !max_error_.empty())) {
    throw UsageError("--calibrate, --method and --max-error are for --precision int8");
  }
  if (int8 && path_.empty()) {
    throw UsageError("--precision int8 needs samples of the inputs: --calibrate FOLDER with .npy files (numpy.save), "
                     "or .npz files with the names of the inputs");
  }
  bound_of(max_error_);
}

quantize::Method CalibrationOptions::method() const {
  return quantize::parse_method(method_).value_or(quantize::Method::kMse);
}

QuantisedModel CalibrationOptions::quantise(const Graph& graph, const CompileOptions& options) const {
  return quantise_model(graph, open_calibration(path_, graph),
                        {.method = method(), .max_error = bound_of(max_error_)}, options);
}

void CalibrationOptions::print_report(std::FILE* stream, const QuantisedModel& quantised) {
  const std::string text = print(quantised);
  for (const std::string_view line : split(text, '\n')) print_to(stream, "{}\n", line);
}

nlohmann::json CalibrationOptions::json_of(const QuantisedModel& quantised) const {
  nlohmann::json layers = nlohmann::json::array();
  for (const QuantisedLayer& layer : quantised.layers) {
    layers.push_back({{"node", layer.node},
                      {"operator", layer.op},
                      {"precision", layer.quantised ? "int8" : "fp32"},
                      {"noise_db", layer.quantised ? finite(layer.noise_db) : nullptr},
                      {"reason", layer.reason}});
  }
  return {{"method", quantize::name_of(method())},
          {"batches", quantised.batches},
          {"error", finite(quantised.error)},
          {"noise_db", finite(quantised.noise_db)},
          {"layers", layers}};
}

}  // namespace graft
