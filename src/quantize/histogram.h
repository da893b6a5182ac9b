// SPDX-License-Identifier: Apache-2.0
// The distribution of a tensor's elements over a calibration, in memory that does not grow with the samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace graft::quantize {

/// Counts of float elements in bins of one width, a power of two. Bin `first + i` counts elements in
/// [(first + i) * width, (first + i + 1) * width). The width is the smallest that covers all elements, and zero, by at
/// most kMostBins bins. Neighbouring bins merge exactly where it doubles, so the result depends neither on the order of
/// the elements nor on how they were divided into calls. One thread at a time uses a histogram.
class Histogram {
 public:
  static constexpr int64_t kMostBins = 8192;

  /// Counts elements; those that are NaN or infinite are counted apart.
  void add(std::span<const float> elements);

  int64_t count() const { return count_; }            ///< finite elements
  int64_t not_finite() const { return not_finite_; }  ///< NaN and infinite elements
  float low() const { return low_; }                  ///< the smallest element or zero, which is less
  float high() const { return high_; }                ///< the largest element or zero, which is more
  double width() const;                               ///< of a bin
  int64_t first() const { return first_; }            ///< the number of the first bin
  const std::vector<int64_t>& bins() const { return bins_; }
  /// The middle of bin `index` of bins().
  double centre(size_t index) const {
    return (static_cast<double>(first_ + static_cast<int64_t>(index)) + 0.5) * width();
  }

 private:
  void cover(float low, float high);

  int exponent_ = -140;  ///< of the width; finer bins hold no f32 apart that matters
  int64_t first_ = 0, count_ = 0, not_finite_ = 0;
  float low_ = 0, high_ = 0;
  std::vector<int64_t> bins_ = {0};
};

}  // namespace graft::quantize
