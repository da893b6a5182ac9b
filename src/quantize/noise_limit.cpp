// SPDX-License-Identifier: Apache-2.0
#include "quantize/noise_limit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace graft::quantize {
namespace {

constexpr int kTrials = 12;   // of a search: each runs a few samples
constexpr int kMeasured = 4;  // networks at most that are compiled and run all samples
/// Networks with less noise than this share of the limit may have more layers quantised.
constexpr double kMuchBelow = 0.4;
/// Of the limit, what the next network is to have by its estimate, so that it has the limit: less after each miss.
constexpr double kMargin = 0.9, kMarginOfMiss = 0.7;

/// What was measured of a network.
struct Measured {
  std::vector<bool> kept;
  double noise;

  auto count() const { return std::count(kept.begin(), kept.end(), true); }
};

/// Whether `a` is to be taken before `b`: with fewer layers in floats where both are within the limit.
bool is_better(const Measured& a, const Measured& b, double limit) {
  const bool a_fits = a.noise <= limit, b_fits = b.noise <= limit;
  if (a_fits != b_fits) return a_fits;
  return a_fits ? a.count() < b.count() : a.noise < b.noise;
}

}  // namespace

std::vector<bool> keep_noisiest(const KnownNoise& known, double limit, const MeasureNoise& measure) {
  constexpr int kPredictions = 3;  // that may fail before numbers are halved
  const std::vector<double>& noise = known.alone;
  std::vector<size_t> order(noise.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return noise[a] > noise[b]; });
  std::vector<double> left(order.size() + 1, 0);  // by the number of layers in floats: the noise of the others
  for (size_t n = order.size(); n-- > 0;) left[n] = left[n + 1] + noise[order[n]];
  std::vector<bool> best(noise.size(), false);
  double least = known.all, measured = known.all;
  size_t failed = 0, met = order.size();  // numbers of layers in floats; the last is no network
  for (int trial = 0; trial < kTrials && least > 0 && met - failed > 1; ++trial) {
    size_t count = failed + (met - failed) / 2;
    if (met == order.size()) {
      // More noise than single layers make together, or an infinite one, tells nothing of how it adds up.
      const double factor = left[failed] > 0 && std::isfinite(measured) ? measured / left[failed] : 1;
      size_t predicted = failed + 1;
      while (predicted + 1 < order.size() && factor * left[predicted] > limit) ++predicted;
      count = trial < kPredictions ? predicted : std::max(predicted, count);
    }
    std::vector<bool> kept(noise.size(), false);
    for (size_t n = 0; n < count; ++n) kept[order[n]] = true;
    measured = measure(kept);
    (measured <= limit ? met : failed) = count;
    if (measured <= limit || measured < least) best = std::move(kept), least = std::min(measured, least);
  }
  return best;
}

std::vector<bool> keep_noisiest(const KnownNoise& known, double limit, const MeasureNoise& estimate,
                                const MeasureNoise& measure) {
  std::map<std::vector<bool>, double> estimates;  // searches ask for the same networks
  const auto remembered = [&](const std::vector<bool>& kept) {
    const auto [at, is_new] = estimates.try_emplace(kept, 0);
    if (is_new) at->second = estimate(kept);
    return at->second;
  };
  const std::vector<bool> none(known.alone.size(), false);
  std::vector<Measured> measured = {{none, known.all}};
  KnownNoise estimated{known.alone, remembered(none)};
  double reached = estimated.all, margin = kMargin;  // of the last of them, as estimated
  for (int trial = 0; trial < kMeasured; ++trial) {
    const Measured& last = measured.back();
    const bool is_known = std::isfinite(reached) && std::isfinite(last.noise) && last.noise > 0;
    const double asked = limit * (is_known ? margin * reached / last.noise : 1);
    std::vector<bool> kept = keep_noisiest(estimated, asked, remembered);
    const auto same = [&](const Measured& each) { return each.kept == kept; };
    if (std::any_of(measured.begin(), measured.end(), same)) break;
    reached = remembered(kept);
    const double noise = measure(kept);
    if (noise > limit) margin *= kMarginOfMiss;
    measured.push_back({std::move(kept), noise});
    if (noise <= limit && noise >= kMuchBelow * limit) break;
  }
  const auto better = [&](const Measured& a, const Measured& b) { return is_better(a, b, limit); };
  return std::min_element(measured.begin(), measured.end(), better)->kept;
}

}  // namespace graft::quantize
