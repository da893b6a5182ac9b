// SPDX-License-Identifier: Apache-2.0
// Ranges that were calibrated before: a file of Graft's, or a calibration cache of TensorRT.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "quantize/ranges.h"
#include "quantize/smooth.h"

namespace graft::quantize {

/// The range of an activation.
struct CalibratedTensor {
  Range range;
  /// The mean square of what 8 bits change in it, as a share of its own mean square; not known of a cache of TensorRT.
  std::optional<double> noise;
  bool operator==(const CalibratedTensor&) const = default;
};

/// What a calibration found.
struct Calibration {
  std::optional<Method> method;  ///< nothing: a cache of TensorRT
  int64_t samples = 0;           ///< 0 where that is not known
  std::string network, data;     ///< hash_of() the network, and of the samples in hexadecimal; empty where not known
  std::map<std::string, CalibratedTensor, std::less<>> tensors;
  /// Layers that had to stay f32 with these samples: for the error to be within a bound, or, without one, for the
  /// signal-to-noise ratio of the outputs.
  std::vector<std::string> kept = {};
  std::optional<double> max_error = {};  ///< that bound
  Smoothing smoothed = {};  ///< what was done to the network before: ranges are of what it makes then

  /// Whether it came from TensorRT, which stamps nothing, and calibrates tensors that this network may not have.
  bool is_foreign() const { return !method; }
};

/// What a prepared network computes, in hexadecimal: its nodes, names and weights; neither sizes nor ranges of symbols.
std::string hash_of(const Graph& graph);

/// JSON: {"format": "graft calibration 1", "method", "samples", "network", "data", "tensors": {name: {low, high,
/// noise}}}, with a bound "max_error"; with layers that stay f32 "kept": [names]; with SmoothQuant "smoothed":
/// {name: [exponents]}; of several networks, as the parts of a divided model are, {"format", "networks":
/// [{"method", ...}]}.
std::string print(std::span<const Calibration> calibrations);
/// Reads that, at least one, or the text of TensorRT's caches: a line `TRT-8501-EntropyCalibration2`, then
/// `name: 3c010a14` for each tensor, the big-endian bits of the scale of symmetric s8, which stands for the range from
/// -127 to 127 times it.
/// Throws invalid_argument naming `where`, the tensor and the remedy for what is damaged or makes no sense.
std::vector<Calibration> parse_calibrations(std::string_view text, const std::string& where);

}  // namespace graft::quantize
