// SPDX-License-Identifier: Apache-2.0
#include "calibration_options.h"

#include <cmath>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calibration_data.h"
#include "console.h"
#include "model_options.h"
#include "output.h"

namespace graft {
namespace {

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
  command.add_option("--calibration-file", file_,
                      "for int8: a file of ranges. If it exists, it is read, and samples (then optional) only measure\n"
                      "the error; otherwise it is written. A calibration cache of TensorRT is read, too")
      .type_name("FILE");
  command.add_option("--method", method_,
                      "for int8: method for ranges: mse (default), entropy, percentile or minmax")
      .one_of({"mse", "entropy", "percentile", "minmax"}).type_name("METHOD");
  command.add_option("--max-error", max_error_,
                      "for int8: largest allowed difference from f32, as a share of an output's range: 0.02; layers\n"
                      "stay f32 until it holds")
      .type_name("SHARE");
}

void CalibrationOptions::check(bool int8) const {
  if (!int8 && (!path_.empty() || !file_.empty() || !method_.empty() || !max_error_.empty())) {
    throw UsageError("--calibrate, --calibration-file, --method and --max-error are for --precision int8");
  }
  if (int8 && path_.empty() && (file_.empty() || !std::filesystem::exists(file_))) {
    throw UsageError(fmt::format("--precision int8 needs samples of the inputs: --calibrate FOLDER with .npy files "
                                 "(numpy.save), or .npz files with the names of the inputs{}",
                                 file_.empty() ? "" : "; --calibration-file " + file_ + " is not there yet"));
  }
  bound_of(max_error_);
}

QuantisedModel CalibrationOptions::quantise(const Graph& graph, const CompileOptions& options) const {
  const CalibrationData data = path_.empty() ? CalibrationData() : open_calibration(path_, graph);
  return quantise_model(graph, data, {.method = quantize::parse_method(method_), .calibration_file = file_,
                                      .max_error = bound_of(max_error_)}, options);
}

void CalibrationOptions::print_report(std::FILE* stream, const QuantisedModel& quantised) {
  const std::string text = print(quantised.report);
  for (const std::string_view line : split(text, '\n')) print_to(stream, "{}\n", line);
}

nlohmann::json CalibrationOptions::json_of(const QuantisedModel& quantised) {
  return nlohmann::json::parse(quantize::json_of(quantised.report));
}

}  // namespace graft
