// SPDX-License-Identifier: Apache-2.0
// Post-training quantisation: from a network of f32 and samples of its inputs to one of 8 bits, with its error.
#pragma once

#include <functional>
#include <optional>

#include "driver/calibration_data.h"
#include "driver/measured_network.h"
#include "quantize/calibration_file.h"
#include "quantize/report.h"

namespace graft {

struct QuantiseOptions {
  int bits = 8;                                        ///< of weights: 8 or 4
  std::optional<quantize::Activations> activations;    ///< nothing: static with weights of 8 bits, else floats
  std::optional<int64_t> block;                        ///< of 4 bits: elements of the reduced axis with one scale
  std::optional<quantize::Method> method;  ///< how ranges are chosen; nothing: as in the calibration file, else kMse
  /// Of ranges, or empty. One that is there is read instead of running the samples, and refused where it was made by
  /// another method or for another network; else it is written after calibrating. A calibration cache of TensorRT is
  /// read, too: ranges of tensors that it lacks come from the samples; without samples, their layers stay f32.
  std::string calibration_file;
  /// What a network of this graph has counted already (Calibrator): samples then only measure. With a calibration file
  /// it is written there, beside other networks of the file. Without a method: ranges that the model states (foreign).
  std::optional<quantize::Calibration> learned = {};
  std::optional<double> max_error;  ///< bound of Report::error; above 0
  /// How good a network is, more being better: a finite number. Asked for the network in f32 and for each quantised one
  /// that is tried, all compiled for this processor, by the thread that quantises. May throw, which ends quantising.
  std::function<double(const MeasuredNetwork&)> metric;
  std::optional<double> max_drop;  ///< the most that the metric may lose against f32; 0 or more

  quantize::Format format() const;
  /// Whether samples or a calibration file are needed.
  bool is_static() const { return format().activations == quantize::Activations::kStatic; }
};

/// Sets `weights`, `activations`, `block`, `method`, `calibration-file`, `max-error` or `max-drop`; false for all
/// others. Throws invalid_argument naming the key, the value and what is allowed.
bool set_choice(QuantiseOptions& choices, OptionText choice);

/// Throws invalid_argument or unsupported, naming the choice, where choices do not go together, or one of them needs
/// samples and there are none.
void check_choices(const QuantiseOptions& choices, bool has_samples);

struct QuantisedModel {
  Graph graph;  ///< of operators of ONNX
  quantize::Report report;
};

/// Quantises a graph that was imported. Without data, static activations take a calibration file; then the error is not
/// measured, and cannot be bounded. Runs the network in f32, and the quantised one, on this machine. With a bound of
/// the error or the metric, layers stay f32, those that round worst first, in the fewest number that a search by halves
/// finds to meet it. Throws unsupported where nothing can be quantised, naming each candidate's reason, or where the
/// bound cannot be met, naming the best that was found; invalid_argument for data that does not fit or holds NaN, and
/// for a metric that is no finite number; `cancelled`.
QuantisedModel quantise_model(const Graph& imported, const CalibrationData& data, const QuantiseOptions& choices,
                              const CompileOptions& options);

/// Whether a graph that was imported computes with Q/DQ or integer products already.
bool is_quantised(const Graph& imported);
/// Throws unsupported, naming each candidate's reason, where nothing of a prepared graph can be quantised as chosen.
void check_quantisable(const Graph& prepared, const QuantiseOptions& choices);

}  // namespace graft
