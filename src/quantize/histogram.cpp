// SPDX-License-Identifier: Apache-2.0
#include "quantize/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace graft::quantize {
namespace {

/// floor(value / width), without a call of the library's floor.
int64_t bin_of(double value, double inverse_width) {
  const double place = value * inverse_width;
  const auto truncated = static_cast<int64_t>(place);
  return truncated - (place < static_cast<double>(truncated) ? 1 : 0);
}

/// floor(bin / 2)
int64_t half(int64_t bin) { return bin >> 1; }

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr size_t kLanes = 16;  // loops over so many elements become vectors

/// The smallest finite element or zero, and the largest.
struct Extent {
  float low = 0, high = 0;
  int64_t not_finite = 0;
};

Extent extent_of(std::span<const float> elements) {
  float low[kLanes] = {}, high[kLanes] = {};
  int32_t finite[kLanes] = {};
  const auto take = [&](size_t lane, float element) {
    const bool is_finite = std::fabs(element) <= kLargest;
    const float value = is_finite ? element : 0.0f;
    low[lane] = value < low[lane] ? value : low[lane];
    high[lane] = value > high[lane] ? value : high[lane];
    finite[lane] += is_finite ? 1 : 0;
  };
  size_t i = 0;
  for (; i + kLanes <= elements.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) take(lane, elements[i + lane]);
  }
  for (; i < elements.size(); ++i) take(0, elements[i]);
  Extent extent{.not_finite = static_cast<int64_t>(elements.size())};
  for (size_t lane = 0; lane < kLanes; ++lane) {
    extent.low = std::min(extent.low, low[lane]), extent.high = std::max(extent.high, high[lane]);
    extent.not_finite -= finite[lane];
  }
  return extent;
}

/// Counts that go into a histogram's bins later: neighbours count in tables of their own, as equal elements would wait
/// for each other.
class PartialCounts {
 public:
  void count(std::span<const float> elements, float inverse_width, int32_t first_bin, size_t bins) {
    tables_.resize(kTables * bins);
    bins_ = bins;
    int32_t places[kLanes];
    size_t i = 0;
    for (; i + kLanes <= elements.size(); i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        places[lane] = place(elements[i + lane], inverse_width) - first_bin;
      }
      for (size_t lane = 0; lane < kLanes; ++lane) {
        ++tables_[(lane % kTables) * bins + static_cast<size_t>(places[lane])];
      }
    }
    for (; i < elements.size(); ++i) {
      ++tables_[static_cast<size_t>(place(elements[i], inverse_width) - first_bin)];
    }
  }
  /// Empties them into the bins that they were counted by.
  void add_to(std::vector<int64_t>& bins) {
    for (size_t i = 0; i < tables_.size(); ++i) bins[i % bins_] += tables_[i];
    tables_.clear();
  }

 private:
  static constexpr size_t kTables = 4;

  static int32_t place(float element, float inverse_width) {
    const float scaled = element * inverse_width;
    const auto truncated = static_cast<int32_t>(scaled);
    return truncated - (scaled < static_cast<float>(truncated) ? 1 : 0);
  }

  std::vector<uint32_t> tables_;
  size_t bins_ = 1;
};

}  // namespace

double Histogram::width() const { return std::ldexp(1.0, exponent_); }

void Histogram::cover(float low, float high) {
  low_ = std::min(low_, low), high_ = std::max(high_, high);
  int exponent = exponent_;
  const auto bins_at = [&](int e) {
    const double inverse = std::ldexp(1.0, -e);
    return std::floor(high_ * inverse) - std::floor(low_ * inverse) + 1;
  };
  while (bins_at(exponent) > static_cast<double>(kMostBins)) ++exponent;
  for (; exponent_ < exponent; ++exponent_) {
    if (count_ == 0) continue;  // nothing to merge
    const int64_t first = half(first_), last = half(first_ + static_cast<int64_t>(bins_.size()) - 1);
    std::vector<int64_t> merged(static_cast<size_t>(last - first + 1), 0);
    for (size_t i = 0; i < bins_.size(); ++i) {
      merged[static_cast<size_t>(half(first_ + static_cast<int64_t>(i)) - first)] += bins_[i];
    }
    bins_ = std::move(merged), first_ = first;
  }
  const double inverse = std::ldexp(1.0, -exponent_);
  const int64_t first = bin_of(low_, inverse), last = bin_of(high_, inverse);
  std::vector<int64_t> wider(static_cast<size_t>(last - first + 1), 0);
  if (count_ > 0) std::copy(bins_.begin(), bins_.end(), wider.begin() + (first_ - first));
  bins_ = std::move(wider), first_ = first;
}

void Histogram::add(std::span<const float> elements) {
  constexpr size_t kChunk = 16384;  // stays in a cache between the two passes over it
  PartialCounts counts;
  for (size_t first = 0; first < elements.size(); first += kChunk) {
    const std::span<const float> chunk = elements.subspan(first, std::min(kChunk, elements.size() - first));
    const Extent extent = extent_of(chunk);
    const auto finite = static_cast<int64_t>(chunk.size()) - extent.not_finite;
    not_finite_ += extent.not_finite;
    if (finite == 0) continue;
    if (count_ == 0 || extent.low < low_ || extent.high > high_) {
      counts.add_to(bins_);
      cover(extent.low, extent.high);
    }
    count_ += finite;
    // Scaling by a power of two is exact in float but at the ends of its range.
    if (extent.not_finite == 0 && std::abs(exponent_) < 100 && elements.size() >= 16 * bins_.size()) {
      counts.count(chunk, std::ldexp(1.0f, -exponent_), static_cast<int32_t>(first_), bins_.size());
      continue;
    }
    const double inverse = std::ldexp(1.0, -exponent_);
    for (const float element : chunk) {
      if (std::fabs(element) <= kLargest) ++bins_[static_cast<size_t>(bin_of(element, inverse) - first_)];
    }
  }
  counts.add_to(bins_);
}

}  // namespace graft::quantize
