// SPDX-License-Identifier: Apache-2.0
// What a caller chooses when a network is quantised, and its text form.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "driver/compile_options.h"
#include "quantize/calibration_file.h"
#include "quantize/format.h"
#include "quantize/ranges.h"

namespace graft {

class MeasuredNetwork;

/// The name of the precision that is chosen by measuring.
inline constexpr std::string_view kAutomatic = "auto";

/// Decibels: a tenth of what an output varies by. Fitted on `./dev bench accuracy`, AMD EPYC, 2026-11: networks of
/// 13 to 18 dB lost up to 11 points, those above 20 dB at most half a point.
inline constexpr double kLeastSnr = 20;

struct QuantiseOptions {
  bool automatic = false;                              ///< the fastest precision within a bound (choose_precision)
  quantize::Codes codes = quantize::Codes::kInt8;
  std::optional<quantize::Activations> activations;    ///< nothing: static with weights of 8 bits, else floats
  std::optional<int64_t> block;                        ///< of 4 bits: elements of the reduced axis with one scale
  /// How ranges are chosen; nothing: as in the calibration file, else kMse, of floats of 8 bits kMinMax.
  std::optional<quantize::Method> method;
  /// Of ranges, or empty. One that is there is read instead of running the samples, and refused where it was made by
  /// another method or for another network; else it is made of the samples (write_calibration). A calibration cache of
  /// TensorRT is read, too: ranges of tensors that it lacks come from the samples; without samples, their layers stay
  /// f32.
  std::string calibration_file;
  /// What a network of this graph has counted already (Calibrator): samples then only measure. With a calibration file
  /// it is written there, beside other networks of the file. Without a method: ranges that the model states (foreign).
  std::optional<quantize::Calibration> learned = {};
  std::optional<double> max_error;  ///< bound of Report::error; above 0
  /// How good a network is, more being better: a finite number. Asked for the network in f32 and for each quantised one
  /// that is tried, all compiled for this processor, by the thread that quantises. May throw, which ends quantising.
  std::function<double(const MeasuredNetwork&)> metric;
  std::optional<double> metric_of_f32 = {};  ///< where it was asked already; nothing: it is asked first
  std::optional<double> max_drop;  ///< the most that the metric may lose against f32; 0 or more
  /// Whether scales of outlying channels may move from activations into weights (quantize::smooth), if samples show
  /// that less noise remains; nothing: they may.
  std::optional<bool> smooths = {};
  /// Weights of 4 bits, where there are samples (GPTQ), which nothing means, too; else to the nearest code.
  std::optional<bool> rounds_by_samples = {};
  /// The least signal to noise of the outputs, in decibels: without a bound, the noisiest layers stay in floats until
  /// samples show it. 0: all layers are quantised. Nothing: kLeastSnr with weights of 8 bits, else 0.
  std::optional<double> min_snr = {};
  bool has_random_inputs = false;  ///< the data are no samples: they measure, but make no ranges and keep no bound
  /// Whether single layers are measured also where no bound is to be kept.
  bool per_layer = false;
  double search_limit = 300;  ///< seconds after which a search for the bound takes the best that it has
  /// The type that what is not quantised may take where a bound holds (fast_floats()); nothing: f32 always, as where
  /// the result is written as a model.
  std::optional<Precision> low_floats = {};

  quantize::Format format() const;
  quantize::Method usual_method() const {
    return codes == quantize::Codes::kFloat8 ? quantize::Method::kMinMax : quantize::Method::kMse;
  }
  double least_snr() const { return min_snr.value_or(codes == quantize::Codes::kInt4 ? 0 : kLeastSnr); }
  /// Whether samples or a calibration file are needed.
  bool is_static() const { return format().activations == quantize::Activations::kStatic; }
};

/// Sets `precision` where it is auto, `weights`, `activations`, `block`, `method`, `calibration-file`, `max-error`,
/// `max-drop`, `smooth`, `rounding`, `min-snr`, `per-layer` or `search-limit`; false for all others. Throws
/// invalid_argument naming the key, the value and what is allowed.
bool set_choice(QuantiseOptions& choices, OptionText choice);

/// Throws invalid_argument or unsupported, naming the choice, where choices do not go together, or one of them needs
/// samples and there are none.
void check_choices(const QuantiseOptions& choices, bool has_samples);

/// What the metric of `choices` finds of a network; `which` says which one, as `in int8`. Throws invalid_argument where
/// that is no finite number, and what the metric throws.
double ask_metric(const QuantiseOptions& choices, const MeasuredNetwork& network, std::string_view which,
                  const CompileOptions& options);

/// The type of 16 bits that the device of the options, on this machine, multiplies faster than f32: fp16 on a GPU, bf16
/// on a processor with units for it; nothing on others.
std::optional<Precision> fast_floats(const CompileOptions& options);

}  // namespace graft
