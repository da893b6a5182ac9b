// SPDX-License-Identifier: Apache-2.0
// What quantising did and what it cost, for people and for programs.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "quantize/format.h"
#include "quantize/ranges.h"

namespace graft::quantize {

/// What became of a Conv, MatMul or Gemm.
struct QuantisedLayer {
  std::string node, op;
  bool quantised = false;
  /// Signal to noise that its input and weights have after rounding (its weights alone, if activations are not static);
  /// of quantised layers. NaN: not known, as a cache of TensorRT does not tell.
  double noise_db = 0;
  std::string reason;   ///< why it stays f32
  /// Of the network if this layer alone is quantised: the largest difference from f32, as a share of the output's
  /// range. Nothing: not measured.
  std::optional<double> error = {};
  /// Of the layer in f32, and in the network with all layers quantised. Nothing: not measured.
  std::optional<double> milliseconds_f32 = {}, milliseconds_quantised = {};
};

/// A network that was measured: a point of the curve of error against time.
struct CurvePoint {
  int64_t quantised = 0;      ///< layers
  std::string floats;         ///< the type of what is not quantised: fp32, bf16, fp16
  std::optional<double> error, metric;  ///< as in the report; nothing: not measured
  double milliseconds = 0;    ///< of a run
  bool is_met = false;        ///< whether it keeps the bound
  bool is_chosen = false;
};

/// The file that ranges came from or went to.
struct CalibrationUse {
  std::string file;
  bool written = false;              ///< by this call; else read
  int64_t samples = 0;               ///< that it was made from; 0: not known
  std::vector<std::string> missing;  ///< activations of the network that a cache of TensorRT has no range of
  std::optional<bool> same_samples;  ///< whether the error was measured with the samples that it was made from
};

/// A precision that was tried, where the fastest one was asked for.
struct TriedPrecision {
  std::string name;                                   ///< fp32, tf32, bf16, fp16, int8
  std::optional<double> error, metric, milliseconds;  ///< nothing: not measured
  bool is_met = false, is_chosen = false;
  std::string note;                                   ///< what it is made of, or why it was not measured
};

struct Report {
  Format format;
  Method method = Method::kMse;  ///< of static activations
  std::vector<QuantisedLayer> layers;
  size_t batches = 0;        ///< runs of the network in one pass over the samples
  int64_t samples = 0;       ///< used in these
  int64_t calibrated = 0;    ///< samples that ranges come from where the error was measured with the first of them only
  int64_t left_out = 0;      ///< samples at the end, too few for a network that takes a fixed number at a time
  bool is_measured = true;   ///< false without samples: then nothing is known of the error
  /// Over all batches and outputs: the largest difference from f32, as a share of the output's range in f32; of outputs
  /// that are not of floats the share of elements that differ. Infinite where elements are NaN or infinite in one of
  /// the two only.
  double error = 0;
  int64_t not_finite = 0;  ///< elements of the results in f32 that are NaN or infinite
  double noise_db = 0;  ///< signal to noise of all outputs of floats together; infinite where nothing differs
  /// The same of the output with the least, the signal being what it varies by.
  double worst_noise_db = std::numeric_limits<double>::infinity();
  /// That with all layers quantised, where it was too little, so that layers stay floats; NaN: not so.
  double all_noise_db = std::numeric_limits<double>::quiet_NaN();
  /// The user's metric of the network in f32 and of the quantised one.
  std::optional<double> metric_of_f32, metric;
  std::optional<CalibrationUse> calibration;
  std::optional<double> max_error;  ///< the bound of the error
  std::string floats = "fp32";    ///< the type of what is not quantised
  std::vector<CurvePoint> curve;  ///< the network in f32, then in the order of measuring; empty: only one was made

  /// Activations whose outlying channels were moved into weights (smooth()), and the signal to noise without that (NaN:
  /// not measured).
  size_t smoothed = 0;
  size_t rounded = 0;  ///< matrices whose weights were rounded by samples
  double plain_noise_db = std::numeric_limits<double>::quiet_NaN();
  std::vector<TriedPrecision> tried;  ///< where the fastest precision was asked for; then `layers` may be empty
  bool has_random_inputs = false;     ///< the error is that of random inputs

  int64_t count_quantised() const;
  /// int8, fp8, int4, or, where no layers are quantised, the type of floats.
  std::string_view precision() const { return layers.empty() ? floats : name_of(format.codes); }
};

/// A table of the layers and the error, in text.
std::string print(const Report& report);
/// The same as a JSON object: `quantization` of docs/schemas/convert.json.
std::string json_of(const Report& report);

}  // namespace graft::quantize
