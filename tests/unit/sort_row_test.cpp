// SPDX-License-Identifier: Apache-2.0
// Rows sorted in place against std::stable_sort over copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "device/cpu/host_functions.h"

namespace graft {
namespace {

template <class T>
bool less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return !std::isnan(a) && (std::isnan(b) || a < b);
  return a < b;
}

/// Moves the first few of a row to its front, whose sorted order is given.
template <class T>
void expect_selected(const std::vector<T>& keys, DType type, const std::vector<size_t>& order, int64_t stride,
                     bool descending) {
  for (const size_t count : {size_t{1}, size_t{3}, keys.size() / 4, keys.size()}) {
    if (count == 0) continue;
    std::vector<T> row(keys.size() * static_cast<size_t>(stride), T{});
    for (size_t n = 0; n < keys.size(); ++n) row[n * static_cast<size_t>(stride)] = keys[n];
    std::vector<int64_t> places(2 * count, -5);
    graft_host_select(row.data(), stride, places.data(), 1, static_cast<int64_t>(keys.size()),
                      static_cast<int64_t>(count), onnx_code(type), descending);
    for (size_t n = 0; n < std::min(count, keys.size()); ++n) {
      const size_t at = n * static_cast<size_t>(stride);
      ASSERT_EQ(places[n], static_cast<int64_t>(order[n])) << n << " of the first " << count << " of " << keys.size();
      ASSERT_EQ(std::memcmp(&row[at], &keys[order[n]], sizeof(T)), 0) << n << " of the first " << count;
    }
  }
}

/// Sorts both ways; keys are compared by their bits, so that -0 and NaNs must move too.
template <class T>
void expect_sorted(const std::vector<T>& keys, DType type, std::vector<int64_t> positions = {}, int64_t stride = 1) {
  if (positions.empty()) {
    positions.resize(keys.size());
    std::iota(positions.begin(), positions.end(), 0);
  }
  for (const bool descending : {false, true}) {
    std::vector<size_t> order(keys.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return descending ? less(keys[b], keys[a]) : less(keys[a], keys[b]);
    });
    if constexpr (sizeof(T) <= 4) expect_selected(keys, type, order, stride, descending);
    std::vector<T> sorted(keys.size() * static_cast<size_t>(stride), T{});
    std::vector<int64_t> moved(sorted.size(), -5);
    for (size_t n = 0; n < keys.size(); ++n) {
      sorted[n * static_cast<size_t>(stride)] = keys[n];
      moved[n * static_cast<size_t>(stride)] = positions[n];
    }
    graft_host_sort(sorted.data(), stride, moved.data(), stride, static_cast<int64_t>(keys.size()),
                    onnx_code(type), descending);
    for (size_t n = 0; n < keys.size(); ++n) {
      const size_t at = n * static_cast<size_t>(stride);
      ASSERT_EQ(moved[at], positions[order[n]]) << "place " << n << " of " << keys.size();
      ASSERT_EQ(std::memcmp(&sorted[at], &keys[order[n]], sizeof(T)), 0) << "place " << n << " of " << keys.size();
    }
  }
}

constexpr size_t kLengths[] = {0, 1, 2, 17, 63, 64, 65, 255, 256, 257, 1000, 20000};

TEST(SortRow, floats_with_nan_zeros_of_both_signs_infinities_and_equal_keys) {
  std::mt19937 random(3);
  for (const size_t length : kLengths) {
    std::vector<float> keys(length);
    for (float& key : keys) {
      const auto kind = random() % 8;
      const float few = static_cast<float>(static_cast<int>(random() % 9) - 4);
      key = kind == 0   ? std::numeric_limits<float>::quiet_NaN()
            : kind == 1 ? -0.0F
            : kind == 2 ? std::copysign(std::numeric_limits<float>::infinity(), few)
            : kind == 3 ? few
            : kind == 4 ? std::copysign(std::numeric_limits<float>::denorm_min(), few)
                        : std::normal_distribution<float>()(random);
    }
    expect_sorted(keys, DType::kFloat32);
  }
}

TEST(SortRow, integers_of_few_and_of_all_values) {
  std::mt19937_64 random(4);
  for (const size_t length : kLengths) {
    std::vector<int64_t> few(length), all(length);
    std::vector<uint64_t> unsigned_all(length);
    std::vector<int32_t> words(length);
    std::vector<int8_t> bytes(length);
    for (size_t n = 0; n < length; ++n) {
      few[n] = static_cast<int64_t>(random() % 80) - 40;
      all[n] = static_cast<int64_t>(random());
      unsigned_all[n] = random();
      words[n] = static_cast<int32_t>(random());
      bytes[n] = static_cast<int8_t>(random());
    }
    expect_sorted(few, DType::kInt64);
    expect_sorted(all, DType::kInt64);
    expect_sorted(unsigned_all, DType::kUint64);
    expect_sorted(words, DType::kInt32);
    expect_sorted(bytes, DType::kInt8);
  }
}

TEST(SortRow, doubles_that_lie_close_and_far_apart) {
  std::mt19937_64 random(5);
  for (const size_t length : kLengths) {
    std::vector<double> close(length), far(length);
    for (size_t n = 0; n < length; ++n) {
      close[n] = 1 + static_cast<double>(random() % 1000) * std::numeric_limits<double>::epsilon();
      far[n] = std::ldexp(static_cast<double>(random() % 1000) - 500, static_cast<int>(random() % 600) - 300);
    }
    expect_sorted(close, DType::kFloat64);
    expect_sorted(far, DType::kFloat64);
  }
}

TEST(SortRow, positions_that_are_not_counted_through_and_strides) {
  std::mt19937 random(6);
  std::vector<float> keys(3000);
  for (float& key : keys) key = static_cast<float>(random() % 500);
  std::vector<int64_t> positions(keys.size());
  for (int64_t& position : positions) position = static_cast<int64_t>(random()) - 1000;
  expect_sorted(keys, DType::kFloat32, positions);
  expect_sorted(keys, DType::kFloat32, {}, 3);
}

TEST(SortRow, all_keys_equal_and_keys_in_order) {
  std::vector<float> keys(5000, 2.5F);
  expect_sorted(keys, DType::kFloat32);
  std::iota(keys.begin(), keys.end(), -100.0F);
  expect_sorted(keys, DType::kFloat32);
  std::reverse(keys.begin(), keys.end());
  expect_sorted(keys, DType::kFloat32);
}

}  // namespace
}  // namespace graft
