// SPDX-License-Identifier: Apache-2.0
// The options of commands that quantise: samples, how ranges are chosen, and the bound of the error.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "command_line.h"
#include "driver/quantize_model.h"
#include "json_output.h"

namespace graft {

/// `--calibrate`, `--activations`, `--block`, `--calibration-file`, `--method`, `--max-error`, `--metric`,
/// `--max-drop`, `--smooth`, `--rounding`, `--min-snr`, `--search-limit` and `--html`.
class CalibrationOptions {
 public:
  void add_to(Command command);
  /// `precision` is int8, int4, auto, or empty for another one. Throws UsageError where samples or a bound are missing,
  /// or the options are given without one of these, or do not go together.
  void check(const std::string& precision) const;
  /// What is read, or written beside the result: samples and the calibration file; empty where not given.
  std::vector<std::string> paths() const { return {path_, file_}; }
  /// Throws where the page cannot be written, or would replace one of these files.
  void check_page(const std::vector<std::string>& files) const;
  /// Throws UsageError where two of the files that are written are one.
  void check_apart(const std::string& output, const JsonOutput& json) const;
  /// Quantises a graph that was imported, as quantise_model() does. `low_floats`: what is not quantised may be of 16
  /// bits, as in a plan.
  QuantisedModel quantise(const Graph& graph, const std::string& precision, const CompileOptions& options,
                          bool low_floats = false) const;
  /// Writes the page of `--html`, where it was asked for.
  void write_page(const std::string& model, const QuantisedModel& quantised) const;
  /// The layers and the error, as text and as JSON.
  static void print_report(std::FILE* stream, const QuantisedModel& quantised);
  static nlohmann::json json_of(const QuantisedModel& quantised);

 private:
  QuantiseOptions choices(const std::string& precision) const;

  std::string path_, activations_, block_, file_, method_, max_error_, metric_, max_drop_, page_, smooth_, rounding_;
  std::optional<double> search_limit_;  ///< seconds
  std::optional<double> min_snr_;       ///< decibels
};

}  // namespace graft
