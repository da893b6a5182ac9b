// SPDX-License-Identifier: Apache-2.0
#include "quantize/noise_limit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace graft::quantize {
namespace {

constexpr int kTrials = 7;  // each compiles a network and runs all samples

}  // namespace

std::vector<bool> keep_noisiest(const std::vector<double>& noise, double all, double limit,
                                const MeasureNoise& measure) {
  std::vector<size_t> order(noise.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return noise[a] > noise[b]; });
  std::vector<double> left(order.size() + 1, 0);  // by the number of layers in floats: the noise of the others
  for (size_t n = order.size(); n-- > 0;) left[n] = left[n + 1] + noise[order[n]];
  std::vector<bool> best(noise.size(), false);
  double least = all, measured = all;
  size_t failed = 0, met = order.size();  // numbers of layers in floats; the last is no network
  for (int trial = 0; trial < kTrials && least > 0 && met - failed > 1; ++trial) {
    size_t count = failed + (met - failed) / 2;
    if (met == order.size()) {
      // More noise than single layers make together, or an infinite one, tells nothing of how it adds up.
      const double factor = left[failed] > 0 && std::isfinite(measured) ? measured / left[failed] : 1;
      for (count = failed + 1; count + 1 < order.size() && factor * left[count] > limit;) ++count;
    }
    std::vector<bool> kept(noise.size(), false);
    for (size_t n = 0; n < count; ++n) kept[order[n]] = true;
    measured = measure(kept);
    (measured <= limit ? met : failed) = count;
    if (measured <= limit || measured < least) best = std::move(kept), least = std::min(measured, least);
  }
  return best;
}

}  // namespace graft::quantize
