// SPDX-License-Identifier: Apache-2.0
// Post-training quantisation: from a network of f32 and samples of its inputs to one of 8 bits, with its error.
#pragma once

#include "driver/calibration_data.h"
#include "driver/measured_network.h"
#include "driver/quantize_options.h"
#include "quantize/report.h"

namespace graft {

struct QuantisedModel {
  Graph graph;  ///< of operators of ONNX
  quantize::Report report;
  /// What it is to be compiled with: what is not quantised is in this type (Report::floats).
  Precision floats = Precision::kFp32;
  std::optional<quantize::Calibration> calibration = {};  ///< what its file is to get (write_calibration)
};

/// Quantises a graph that was imported. Without data, static activations take a calibration file; then the error is not
/// measured, and cannot be bounded. Runs the network in f32, and the quantised one, on this machine. With a bound of
/// the error or the metric, layers stay in floats: the result is the fastest of the measured networks that keep the
/// bound (quantize::search), with Report::curve; times are of `options.device`. Throws unsupported where nothing can be
/// quantised, naming each candidate's reason, or where the bound cannot be met, naming the best that was found and its
/// time; invalid_argument for data that does not fit or holds NaN, and for a metric that is no finite number;
/// `cancelled`. It writes no file: write_calibration() does, once the result has been used.
QuantisedModel quantise_model(const Graph& imported, const CalibrationData& data, const QuantiseOptions& choices,
                              const CompileOptions& options);

/// Writes the calibration file, where one is made with the result, beside what it has of other networks.
void write_calibration(const QuantisedModel& made);

/// Whether a graph that was imported computes with Q/DQ or integer products already.
bool is_quantised(const Graph& imported);
/// Throws unsupported, naming each candidate's reason, where nothing of a prepared graph can be quantised as chosen.
void check_quantisable(const Graph& prepared, const QuantiseOptions& choices);

}  // namespace graft
