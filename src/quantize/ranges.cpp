// SPDX-License-Identifier: Apache-2.0
#include "quantize/ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/convert.h"

namespace graft::quantize {
namespace {

constexpr std::string_view kNames[] = {"minmax", "percentile", "entropy", "mse"};
constexpr double kOutside = 1e-5;
constexpr size_t kEntropyBins = 2048, kEntropyLevels = 128;

Range clipped(const Histogram& histogram, double low, double high) {
  return {std::clamp<double>(low, histogram.low(), 0), std::clamp<double>(high, 0, histogram.high())};
}

/// Leaves out a share of the elements, from whichever side is farther from zero in turn.
Range percentile(const Histogram& histogram) {
  const std::vector<int64_t>& bins = histogram.bins();
  int64_t left = static_cast<int64_t>(kOutside * static_cast<double>(histogram.count()));
  size_t begin = 0, end = bins.size();
  while (begin + 1 < end) {
    const bool from_high = std::fabs(histogram.centre(end - 1)) >= std::fabs(histogram.centre(begin));
    const int64_t count = bins[from_high ? end - 1 : begin];
    if (count > left) break;
    left -= count;
    from_high ? --end : ++begin;
  }
  const double low = static_cast<double>(histogram.first() + static_cast<int64_t>(begin)) * histogram.width();
  const double high = static_cast<double>(histogram.first() + static_cast<int64_t>(end)) * histogram.width();
  return clipped(histogram, low, high);
}

/// The counts of magnitudes in `kEntropyBins` bins up to the largest. The first has as many as its neighbour: zeros, of
/// which Relu makes many, are exact in every range, and would have all bins but theirs clipped.
std::vector<double> magnitudes(const Histogram& histogram, double largest) {
  std::vector<double> counts(kEntropyBins, 0);
  for (size_t i = 0; i < histogram.bins().size(); ++i) {
    if (histogram.bins()[i] == 0) continue;
    const double place = std::fabs(histogram.centre(i)) / largest * static_cast<double>(kEntropyBins);
    counts[std::min(static_cast<size_t>(place), kEntropyBins - 1)] += static_cast<double>(histogram.bins()[i]);
  }
  counts[0] = counts[1];
  return counts;
}

/// The divergence of the first `kept` bins, the rest clipped into the last, from the same in `kEntropyLevels` levels.
/// A level spreads its count evenly over those of its bins that are not empty.
double divergence(const std::vector<double>& counts, size_t kept, double outside, double total) {
  double sum = 0, inside = 0;
  for (size_t i = 0; i < kept; ++i) inside += counts[i];
  if (inside == 0) return std::numeric_limits<double>::infinity();
  for (size_t level = 0; level < kEntropyLevels; ++level) {
    const size_t begin = level * kept / kEntropyLevels, end = (level + 1) * kept / kEntropyLevels;
    double count = 0, filled = 0;
    for (size_t i = begin; i < end; ++i) {
      count += counts[i];
      filled += counts[i] > 0 || (i == kept - 1 && outside > 0) ? 1 : 0;
    }
    for (size_t i = begin; i < end; ++i) {
      const double p = (counts[i] + (i == kept - 1 ? outside : 0)) / total;
      if (p <= 0) continue;
      const double q = std::max(count / filled / inside, std::numeric_limits<double>::epsilon());
      sum += p * std::log(p / q);
    }
  }
  return sum;
}

Range entropy(const Histogram& histogram) {
  const double largest = std::max<double>(-histogram.low(), histogram.high());
  const std::vector<double> counts = magnitudes(histogram, largest);
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  if (total == 0) return {histogram.low(), histogram.high()};
  double outside = 0, best = std::numeric_limits<double>::infinity();
  size_t best_kept = kEntropyBins;
  for (size_t kept = kEntropyBins; kept >= kEntropyLevels; --kept) {
    if (kept < kEntropyBins) outside += counts[kept];
    const double found = divergence(counts, kept, outside, total);
    if (found < best) best = found, best_kept = kept;
  }
  const double threshold = largest * static_cast<double>(best_kept) / static_cast<double>(kEntropyBins);
  return clipped(histogram, -threshold, threshold);
}

/// Shrinks both sides together, then either alone.
Range least_squares(const Histogram& histogram) {
  constexpr int kSteps = 64;
  Range best{histogram.low(), histogram.high()};
  double least = mean_square_error(histogram, quantiser_of(best));
  const auto search = [&](const Range& from, bool low, bool high) {
    for (int step = 1; step < kSteps; ++step) {
      const double share = static_cast<double>(step) / kSteps;
      const Range tried{low ? from.low * share : from.low, high ? from.high * share : from.high};
      const double error = mean_square_error(histogram, quantiser_of(tried));
      if (error < least) least = error, best = tried;
    }
  };
  search(best, true, true);
  search(Range(best), true, false);
  search(Range(best), false, true);
  return best;
}

}  // namespace

std::string_view name_of(Method method) { return kNames[static_cast<int>(method)]; }

std::optional<Method> parse_method(std::string_view name) {
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<Method>(found - std::begin(kNames));
}

Range choose_range(const Histogram& histogram, Method method) {
  if (histogram.count() == 0 || (histogram.low() == 0 && histogram.high() == 0)) return {};
  switch (method) {
    case Method::kPercentile: return percentile(histogram);
    case Method::kEntropy: return entropy(histogram);
    case Method::kMse: return least_squares(histogram);
    case Method::kMinMax: break;
  }
  return {histogram.low(), histogram.high()};
}

float float8_scale(double largest) {
  constexpr double kLargest = 448;
  if (!(largest > 0)) return 1;
  const int exponent = std::clamp(static_cast<int>(std::ceil(std::log2(largest / kLargest))), -100, 100);
  return std::ldexp(1.0F, exponent);
}

double nearest_float8(double value) {
  return decode_float(DType::kFloat8E4M3FN, encode_float(DType::kFloat8E4M3FN, value));
}

Affine quantiser_of(const Range& range, Codes codes) {
  constexpr double kLastCode = 255;
  if (codes == Codes::kFloat8) {
    return {float8_scale(std::max(-range.low, range.high)), 0, DType::kFloat8E4M3FN};
  }
  const auto scale = static_cast<float>((range.high - range.low) / kLastCode);
  if (!(scale >= std::numeric_limits<float>::min())) return {};
  return {scale, static_cast<int>(std::clamp(std::nearbyint(-range.low / scale), 0.0, kLastCode))};
}

double mean_square_error(const Histogram& histogram, const Affine& quantiser) {
  if (histogram.count() == 0) return 0;
  double sum = 0;
  for (size_t i = 0; i < histogram.bins().size(); ++i) {
    const int64_t count = histogram.bins()[i];
    if (count == 0) continue;
    const double value = histogram.centre(i);
    const double code = quantiser.type == DType::kUint8
                            ? std::clamp(std::nearbyint(value / quantiser.scale) + quantiser.zero, 0.0, 255.0)
                            : nearest_float8(value / quantiser.scale);
    const double error = (code - quantiser.zero) * quantiser.scale - value;
    sum += static_cast<double>(count) * error * error;
  }
  return sum / static_cast<double>(histogram.count());
}

}  // namespace graft::quantize
