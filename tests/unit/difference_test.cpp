// SPDX-License-Identifier: Apache-2.0
// The error that bounds of quantisation are kept by, where results are not finite or not of floats.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "driver/measured_network.h"

namespace graft {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class Element>
Difference between(DType type, const std::vector<Element>& expected, const std::vector<Element>& actual) {
  const std::vector<int64_t> shape = {static_cast<int64_t>(expected.size())};
  Difference difference;
  difference.add({TensorData::from_values<Element>(type, shape, expected)},
                 {TensorData::from_values<Element>(type, shape, actual)});
  return difference;
}

Difference between(const std::vector<float>& expected, const std::vector<float>& actual) {
  return between<float>(DType::kFloat32, expected, actual);
}

TEST(Difference, is_a_share_of_the_range_of_finite_elements) {
  EXPECT_NEAR(between({0, 4, kInfinity, -kInfinity, kNan}, {0, 3, kInfinity, -kInfinity, kNan}).error(), 0.25, 1e-12);
  EXPECT_EQ(between({0, 4, kInfinity, -kInfinity, kNan}, {0, 3, kInfinity, -kInfinity, kNan}).not_finite(), 3);
  EXPECT_EQ(between({kNan, kInfinity}, {kNan, kInfinity}).error(), 0);
}

TEST(Difference, is_infinite_where_one_of_two_is_not_finite) {
  const std::vector<float> finite = {0, 1, 2};
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    for (const Difference& found : {between(finite, {0, bad, 2}), between({0, bad, 2}, finite),
                                    between({bad, bad, bad}, {kInfinity == bad ? kNan : kInfinity, bad, bad})}) {
      EXPECT_TRUE(std::isinf(found.error()) && found.error() > 0) << bad;
      EXPECT_TRUE(std::isinf(found.noise_db()) && found.noise_db() < 0) << bad;
    }
  }
  EXPECT_TRUE(std::isinf(between({-kInfinity, kInfinity}, {-kInfinity, -kInfinity}).error()));
}

TEST(Difference, of_doubles_whose_range_is_no_double) {
  EXPECT_NEAR(between<double>(DType::kFloat64, {-1.7e308, 1.7e308}, {-1.7e308, 1.6e308}).error(), 0.1 / 3.4, 1e-9);
}

TEST(Difference, of_integers_is_the_share_that_differs) {
  EXPECT_EQ(between<int64_t>(DType::kInt64, {1, 2, 3, 4}, {1, 2, 3, 9}).error(), 0.25);
  EXPECT_EQ(between<int>(DType::kBool, {1, 0}, {0, 1}).error(), 1);
  EXPECT_EQ(between<int64_t>(DType::kInt64, {1, 2}, {1, 2}).error(), 0);
}

TEST(Decibels, of_unknown_noise_are_the_worst) {
  EXPECT_EQ(decibels(std::nan("")), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(decibels(0), std::numeric_limits<double>::infinity());
  EXPECT_NEAR(decibels(0.01), 20, 1e-12);
}

}  // namespace
}  // namespace graft
