// SPDX-License-Identifier: Apache-2.0
// Weights of 4 bits that are rounded by samples: what their products lose, against the nearest codes.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "quantize/round_blocks.h"

namespace graft::quantize {
namespace {

/// Rows whose channels depend on each other, as activations' do: mixtures of a few directions, and noise.
std::vector<float> samples(int64_t rows, int64_t channels, unsigned seed) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 1);
  const int64_t directions = channels / 4;
  std::vector<float> mixture(static_cast<size_t>(directions * channels));
  for (float& each : mixture) each = normal(random);
  random.seed(seed);
  std::vector<float> made(static_cast<size_t>(rows * channels));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t n = 0; n < channels; ++n) made[static_cast<size_t>(row * channels + n)] = 0.2F * normal(random);
    for (int64_t d = 0; d < directions; ++d) {
      const float by = normal(random);
      for (int64_t n = 0; n < channels; ++n) {
        made[static_cast<size_t>(row * channels + n)] += by * mixture[static_cast<size_t>(d * channels + n)];
      }
    }
  }
  return made;
}

TensorData matrix(int64_t rows, int64_t columns) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal(0, 1);
  TensorData made = TensorData::zeros(DType::kFloat32, {rows, columns});
  for (float& each : made.mutable_as<float>()) each = normal(random);
  return made;
}

ChannelProducts products_of(const std::vector<float>& rows, int64_t channels) {
  ChannelProducts products(channels);
  products.add(rows, 2);
  return products;
}

/// The mean square of rows * (codes * scales - weights), from the rows themselves.
double slow_noise(const std::vector<float>& rows, const TensorData& weights, const QuantisedWeights& rounded,
                  int64_t block) {
  const int64_t channels = weights.shape()[0], columns = weights.shape()[1];
  double noise = 0, signal = 0;
  for (size_t row = 0; row < rows.size() / static_cast<size_t>(channels); ++row) {
    for (int64_t c = 0; c < columns; ++c) {
      double changed = 0, whole = 0;
      for (int64_t k = 0; k < channels; ++k) {
        const double x = rows[row * static_cast<size_t>(channels) + static_cast<size_t>(k)];
        const double w = weights.read_double(k * columns + c);
        const double q =
            rounded.codes.read_double(k * columns + c) * rounded.scales.read_double(k / block * columns + c);
        changed += x * (q - w), whole += x * w;
      }
      noise += changed * changed, signal += whole * whole;
    }
  }
  return noise / signal;
}

TEST(RoundBlocks, products_of_channels_are_their_sums) {
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6};
  const ChannelProducts products = products_of(rows, 2);
  EXPECT_EQ(products.rows(), 3);
  EXPECT_EQ(products.of(0, 0), 1 + 9 + 25);
  EXPECT_EQ(products.of(0, 1), 2 + 12 + 30);
  EXPECT_EQ(products.of(1, 0), products.of(0, 1));
}

TEST(RoundBlocks, the_products_of_new_samples_lose_less_than_by_the_nearest_codes) {
  constexpr int64_t kChannels = 96, kColumns = 40, kBlock = 32;
  const TensorData weights = matrix(kChannels, kColumns);
  const std::vector<float> seen = samples(400, kChannels, 1), unseen = samples(100, kChannels, 2);
  const ChannelProducts products = products_of(seen, kChannels);
  const QuantisedWeights nearest = quantise_blocks(weights, 0, kBlock);
  const QuantisedWeights rounded = quantise_blocks(weights, 0, kBlock, products, 2);
  EXPECT_NEAR(product_noise(weights, 0, kBlock, rounded, products, 2), slow_noise(seen, weights, rounded, kBlock),
              1e-6);
  EXPECT_LT(slow_noise(unseen, weights, rounded, kBlock), 0.4 * slow_noise(unseen, weights, nearest, kBlock));
  EXPECT_EQ(quantise_blocks(weights, 0, kBlock, products, 1).noise, rounded.noise) << "for any number of threads";
}

TEST(RoundBlocks, rows_and_columns_mean_the_same) {
  constexpr int64_t kChannels = 50, kColumns = 12, kBlock = 16;  // the last block is short
  const TensorData weights = matrix(kChannels, kColumns);
  TensorData turned = TensorData::zeros(DType::kFloat32, {kColumns, kChannels});
  for (int64_t k = 0; k < kChannels; ++k) {
    for (int64_t c = 0; c < kColumns; ++c) {
      turned.write_double(c * kChannels + k, weights.read_double(k * kColumns + c));
    }
  }
  const ChannelProducts products = products_of(samples(200, kChannels, 3), kChannels);
  const QuantisedWeights a = quantise_blocks(weights, 0, kBlock, products, 2);
  const QuantisedWeights b = quantise_blocks(turned, 1, kBlock, products, 2);
  EXPECT_EQ(b.scales.shape(), (std::vector<int64_t>{kColumns, 4}));
  for (int64_t k = 0; k < kChannels; ++k) {
    for (int64_t c = 0; c < kColumns; ++c) {
      EXPECT_EQ(a.codes.read_double(k * kColumns + c), b.codes.read_double(c * kChannels + k));
    }
  }
}

TEST(RoundBlocks, channels_without_samples_and_few_rows_round_to_something_finite) {
  constexpr int64_t kChannels = 32;
  const TensorData weights = matrix(kChannels, 8);
  for (const int64_t rows : {0, 1, 3}) {
    std::vector<float> few = samples(rows, kChannels, 4);
    for (size_t n = 0; n < few.size(); n += 2) few[n] = 0;  // every other channel is dead
    const ChannelProducts products = products_of(few, kChannels);
    const QuantisedWeights rounded = quantise_blocks(weights, 0, 32, products, 2);
    EXPECT_TRUE(std::isfinite(rounded.noise));
    EXPECT_LE(product_noise(weights, 0, 32, rounded, products, 2),
              product_noise(weights, 0, 32, quantise_blocks(weights, 0, 32), products, 2));
  }
}

}  // namespace
}  // namespace graft::quantize
