// SPDX-License-Identifier: Apache-2.0
// Where ranges of static activations come from: samples, what was counted before, a calibration file, or several.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "driver/calibration_data.h"
#include "driver/calibrator.h"
#include "driver/quantize_options.h"
#include "quantize/calibration_file.h"
#include "quantize/places.h"
#include "quantize/report.h"

namespace graft {

/// The reason of a layer that stays f32 so that a bound holds.
inline constexpr std::string_view kLeftOutForBound = "left out to keep the bound";
inline constexpr std::string_view kLeftOutForNoise = "left out for the signal-to-noise ratio of the outputs";

/// Scales that a network's activations were divided by.
struct Smoothed {
  quantize::Smoothing scales;
  bool is_recorded = false;  ///< in the calibration file that is there; else this call has found them
};

/// Reads the calibration file, and calibrates. All references outlive it.
class RangeFinder {
 public:
  /// `network`: the hash of the network as it was prepared, where there is a calibration file; `smoothed`: what was
  /// done to it since.
  RangeFinder(const Graph& graph, const SampleForm& form, const CalibrationData& data, const QuantiseOptions& choices,
              const CompileOptions& options, std::string network, Smoothed smoothed);

  /// Reads the file that is there, and refuses one that is stale; says which nodes have no ranges.
  void open();
  /// Finds the ranges of the activations at these places.
  void find(const quantize::Places& places);

  /// Nodes without ranges, and those that a bound of the file keeps in f32.
  const quantize::LeftOut& left_out() const { return left_out_; }
  const CalibratedTensors& ranges() const { return ranges_; }
  quantize::Method method() const { return method_; }
  /// Of the calibration file, where there is to be one.
  const std::optional<quantize::CalibrationUse>& use() const { return use_; }
  /// Compares the samples that measured the error with those of the file.
  std::optional<bool> are_its_samples(uint64_t hash) const;
  /// What channels of the activations that can be smoothed have reached, where samples were run for find().
  const std::map<std::string, std::vector<float>, std::less<>>& magnitudes() const { return magnitudes_; }
  /// What the file is to get where this call makes it, with the layers that stay f32 for the bound.
  std::optional<quantize::Calibration> finish(const std::vector<std::string>& kept) const;

 private:
  void read_calibration();
  void leave_out_missing();
  void keep_the_bound();
  void check_complete(const quantize::Places& places) const;
  void calibrate(const quantize::Places& places);
  void make(const quantize::Calibration& made);

  const Graph& graph_;
  const SampleForm& form_;
  const CalibrationData& data_;
  const bool has_samples_;  ///< which random inputs are not
  const QuantiseOptions& choices_;
  const CompileOptions& options_;
  quantize::Method method_;
  const std::string network_;
  const Smoothed smoothed_;
  std::map<std::string, std::vector<float>, std::less<>> magnitudes_;
  std::optional<quantize::Calibration> known_;   ///< of the calibration file that is there
  std::optional<quantize::Calibration> made_;    ///< what is to be written to it
  std::optional<quantize::CalibrationUse> use_;
  quantize::LeftOut left_out_;
  CalibratedTensors ranges_;
};

/// Writes what was made into a file, beside what it has of other networks.
void write_calibration(const quantize::Calibration& made, const std::string& file);

}  // namespace graft
