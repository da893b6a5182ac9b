// SPDX-License-Identifier: Apache-2.0
#include "quantize/noise_limit.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

namespace graft::quantize {
namespace {

/// Networks whose noise is `factor` times the sum of their layers' own.
struct Networks {
  std::vector<double> noise;
  double factor = 1;
  int measured = 0;

  double of(const std::vector<bool>& kept) const {
    double sum = 0;
    for (size_t n = 0; n < noise.size(); ++n) sum += kept[n] ? 0 : noise[n];
    return factor * sum;
  }
  std::vector<bool> keep(double limit) {
    return keep_noisiest({noise, of(std::vector<bool>(noise.size(), false))}, limit,
                         [&](const std::vector<bool>& kept) {
                           ++measured;
                           return of(kept);
                         });
  }
};

TEST(NoiseLimit, keeps_the_fewest_layers_and_the_noisiest) {
  Networks networks{{0.001, 5, 0.002, 3, 0.001}};
  EXPECT_EQ(networks.keep(0.1), (std::vector<bool>{false, true, false, true, false}));
  EXPECT_LE(networks.measured, 3);
}

TEST(NoiseLimit, measures_where_single_layers_predict_too_much) {
  Networks networks;
  for (int n = 0; n < 64; ++n) networks.noise.push_back(64 - n);
  const std::vector<double> noise = networks.noise;
  // With the first layers in floats the noise of the others vanishes, which the sums do not tell.
  const std::vector<bool> kept = keep_noisiest({noise, 2080}, 100, [&](const std::vector<bool>& trial) {
    ++networks.measured;
    return std::count(trial.begin(), trial.end(), true) >= 5 ? 1.0 : 2000.0;
  });
  const auto count = std::count(kept.begin(), kept.end(), true);
  EXPECT_GE(count, 5);
  EXPECT_LE(count, 7);
  EXPECT_LE(networks.measured, 7);
}

TEST(NoiseLimit, gives_the_least_noise_where_no_network_is_within_it) {
  Networks networks{{1, 1, 1}, 10};
  const std::vector<bool> kept = networks.keep(0.001);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), true), 2);
}

TEST(NoiseLimit, takes_infinite_noise) {
  const double infinite = std::numeric_limits<double>::infinity();
  const auto measure = [&](const std::vector<bool>& trial) { return trial[0] ? 0.002 : infinite; };
  const std::vector<bool> kept = keep_noisiest({{infinite, 1e-3, 1e-3}, infinite}, 0.01, measure);
  EXPECT_EQ(kept, (std::vector<bool>{true, false, false}));
}

TEST(NoiseLimit, halves_the_numbers_where_predictions_fail) {
  std::vector<double> noise(200, 1e-4);
  for (size_t n = 0; n < noise.size(); ++n) noise[n] /= static_cast<double>(n + 1);
  int measured = 0;
  // Far more noise than single layers tell, until most of them are in floats.
  const std::vector<bool> kept = keep_noisiest({noise, 0.3}, 0.01, [&](const std::vector<bool>& trial) {
    ++measured;
    const auto count = std::count(trial.begin(), trial.end(), true);
    return count >= 120 ? 0.009 : 0.3 - 1e-4 * static_cast<double>(count);
  });
  const auto count = std::count(kept.begin(), kept.end(), true);
  EXPECT_GE(count, 120);
  EXPECT_LE(count, 125);
  EXPECT_LE(measured, 12);
}

/// The expensive measurements of a search by estimates that are off by these factors.
struct Estimated {
  std::vector<double> noise;
  double factor = 1, bias = 0;  ///< of the estimate; what all samples add that few do not show
  int measured = 0;

  double of(const std::vector<bool>& kept) const {
    double sum = bias;
    for (size_t n = 0; n < noise.size(); ++n) sum += kept[n] ? 0 : noise[n];
    return sum;
  }
  std::vector<bool> keep(double limit) {
    const auto estimate = [&](const std::vector<bool>& kept) { return factor * (of(kept) - bias); };
    return keep_noisiest({noise, of(std::vector<bool>(noise.size(), false))}, limit, estimate,
                         [&](const std::vector<bool>& kept) {
                           ++measured;
                           return of(kept);
                         });
  }
};

TEST(NoiseLimit, estimates_search_and_few_networks_are_measured) {
  for (const double factor : {0.2, 1.0, 5.0}) {
    for (const double bias : {0.0, 5.0}) {
      Estimated networks{.noise = {}, .factor = factor, .bias = bias};
      for (int n = 0; n < 64; ++n) networks.noise.push_back(64 - n);
      const std::vector<bool> kept = networks.keep(100);
      EXPECT_LE(networks.of(kept), 100) << factor << " " << bias;
      EXPECT_GE(networks.of(kept), 40) << factor << " " << bias;
      EXPECT_LE(networks.measured, 4) << factor << " " << bias;
    }
  }
}

TEST(NoiseLimit, gives_what_was_measured_where_estimates_promise_too_much) {
  Estimated networks{.noise = {3, 2, 1}, .factor = 1e-6, .bias = 50};
  const std::vector<bool> kept = networks.keep(1);
  EXPECT_LE(networks.of(kept), 56);
  EXPECT_GE(networks.measured, 1);
}

TEST(NoiseLimit, leaves_a_network_of_one_layer_quantised) {
  Networks networks{{1}};
  EXPECT_EQ(networks.keep(0.1), (std::vector<bool>{false}));
  EXPECT_EQ(networks.measured, 0);
}

}  // namespace
}  // namespace graft::quantize
