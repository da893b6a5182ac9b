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
  float low = 0, high = 0;
  int64_t finite = 0;
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const float element : elements) {
    const bool is_finite = std::fabs(element) <= kLargest;
    finite += is_finite ? 1 : 0;
    const float value = is_finite ? element : 0.0f;
    low = value < low ? value : low, high = value > high ? value : high;
  }
  not_finite_ += static_cast<int64_t>(elements.size()) - finite;
  if (finite == 0) return;
  if (count_ == 0 || low < low_ || high > high_) cover(low, high);
  count_ += finite;
  const double inverse = std::ldexp(1.0, -exponent_);
  const bool all_finite = finite == static_cast<int64_t>(elements.size());
  int64_t* const bins = bins_.data();
  for (const float element : elements) {
    if (!all_finite && !(std::fabs(element) <= kLargest)) continue;
    ++bins[bin_of(element, inverse) - first_];
  }
}

}  // namespace graft::quantize
