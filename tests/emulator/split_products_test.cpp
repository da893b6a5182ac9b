// SPDX-License-Identifier: Apache-2.0
// Products of f32 by parts of tf32 on emulated GPUs, whose tensor cores cut sums off: as exact as multiply-adds, and
// the same where numbers are infinite, no numbers, or near the ends of their range.
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emulator/gpu_run.h"
#include "support/library_graphs.h"

namespace graft {
namespace {

constexpr const char* kMultiplyAdds = "product m=32 n=32 k=16 threads=64 stages=3 panel=0 producers=0 teams=1 group=1 "
                                      "split=1 early=0";
constexpr const char* kByWarps = "product m=64 n=32 k=32 threads=64 stages=3 panel=0 producers=0 teams=1 group=1 "
                                 "split=1 early=0 unit=mma_tf32x3";
constexpr const char* kByGroups = "product m=64 n=64 k=32 threads=128 stages=4 panel=1 producers=128 teams=1 group=1 "
                                  "split=1 early=0 unit=wgmma_tf32x3";

/// The largest error of the only output, as a share of the sum of magnitudes, against sums in f64.
double largest_error(const GpuCase& on_gpu, const std::string& schedule) {
  const TensorData &x = on_gpu.input("x"), &w = on_gpu.input("w");
  const auto outputs = on_gpu.run("sm_90a", "product", schedule);
  if (outputs.empty()) return HUGE_VAL;
  const int64_t rows = x.shape()[0], depth = x.shape()[1], columns = w.shape()[1];
  double largest = 0;
  for (int64_t i = 0; i < rows * columns; ++i) {
    double sum = 0, magnitude = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const double product = x.read_double(i / columns * depth + k) * w.read_double(k * columns + i % columns);
      sum += product, magnitude += std::fabs(product);
    }
    if (magnitude > 0) largest = std::fmax(largest, std::fabs(outputs[0].read_double(i) - sum) / magnitude);
  }
  return largest;
}

TensorData rectified(TensorData data) {
  for (int64_t i = 0; i < data.element_count(); ++i) data.write_double(i, std::fabs(data.read_double(i)));
  return data;
}

TEST(SplitProducts, are_as_exact_as_multiply_adds) {
  for (const int depth : {64, 100, 500, 2048}) {  // shorter sums are multiply-adds
    GpuCase on_gpu(product_graph("20", 24, depth, {}, {}), {});
    for (const bool rectifies : {false, true}) {
      SCOPED_TRACE(fmt::format("k = {}{}", depth, rectifies ? ", rectified" : ""));
      if (rectifies) {
        for (const char* name : {"x", "w"}) on_gpu.replace(name, rectified(on_gpu.input(name)));
      }
      const double allowed = std::fmax(0x1p-23, largest_error(on_gpu, kMultiplyAdds));
      EXPECT_LE(largest_error(on_gpu, kByWarps), allowed);
      EXPECT_LE(largest_error(on_gpu, kByGroups), allowed);
    }
  }
}

/// Rows that meet the ends of the range of f32, and one that does not.
TensorData extreme_rows(int64_t rows, int64_t depth) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kValues[] = {1.5f,   kInfinity, -kInfinity, kNan,  3.4e38f, -3e38f,
                               1e-45f, -3e-42f,   2e-38f,     -0.0f, 1e30f};
  TensorData data = TensorData::zeros(DType::kFloat32, {rows, depth});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < depth; ++k) {
      const float usual = static_cast<float>((row * 31 + k * 17) % 64 - 32) / 16;
      const size_t kind = static_cast<size_t>(row) % std::size(kValues);
      // Small ones and zeros fill their rows, the others come once.
      const bool is_small = std::fabs(kValues[kind]) < 1e-30f;
      const float value = is_small ? kValues[kind] * usual : k == row % depth ? kValues[kind] : usual;
      data.write_double(row * depth + k, static_cast<double>(value));
    }
  }
  return data;
}

/// Whether a result is what multiply-adds in f32 may give: within rounding, or the same infinity or NaN.
void expect_near(const TensorData& x, const TensorData& w, const TensorData& y, int64_t at) {
  const int64_t depth = x.shape()[1], columns = w.shape()[1];
  float sum = 0;
  double exact = 0, magnitude = 0;
  for (int64_t k = 0; k < depth; ++k) {
    const double a = x.read_double(at / columns * depth + k), b = w.read_double(k * columns + at % columns);
    sum = std::fmaf(static_cast<float>(a), static_cast<float>(b), sum);
    exact += a * b, magnitude += std::fabs(a * b);
  }
  const double actual = y.read_double(at);
  if (!std::isfinite(sum)) {
    EXPECT_TRUE(std::isnan(sum) ? std::isnan(actual) : actual == static_cast<double>(sum))
        << at << ": " << actual << " for " << sum;
    return;
  }
  constexpr double kSmallest = 0x1p-149;
  EXPECT_LE(std::fabs(actual - exact), magnitude * 0x1p-21 + kSmallest * static_cast<double>(depth))
      << at << ": " << actual << " for " << exact;
}

TEST(SplitProducts, meet_the_ends_of_the_range) {
  const int depth = 70;
  GpuCase on_gpu(product_graph("66", 40, depth, {}, {}), {});
  on_gpu.replace("x", extreme_rows(66, depth));
  TensorData w = on_gpu.input("w");
  for (int64_t k = 0; k < depth; ++k) {
    w.write_double(k * 40 + 1, 0);
    w.write_double(k * 40 + 2, 1e-41 * static_cast<double>(k));
    w.write_double(k * 40 + 3, 2e38);
    w.write_double(k * 40 + 4, k % 2 ? 1 : -1);
  }
  on_gpu.replace("w", w);
  for (const char* schedule : {kMultiplyAdds, kByWarps, kByGroups}) {
    SCOPED_TRACE(schedule);
    const auto outputs = on_gpu.run("sm_90a", "product", schedule);
    ASSERT_EQ(outputs.size(), 1u);
    for (int64_t at = 0; at < outputs[0].element_count(); ++at) {
      expect_near(on_gpu.input("x"), on_gpu.input("w"), outputs[0], at);
    }
  }
}

TEST(SplitProducts, of_small_numbers_alone_lose_nothing) {
  for (const double scale : {0x1p-100, 0x1p-120, 0x1p-130}) {
    SCOPED_TRACE(scale);
    GpuCase on_gpu(product_graph("20", 24, 100, {}, {}), {});
    TensorData x = on_gpu.input("x");
    for (int64_t i = 0; i < x.element_count(); ++i) x.write_double(i, x.read_double(i) * scale);
    on_gpu.replace("x", x);
    const double allowed = std::fmax(0x1p-23, largest_error(on_gpu, kMultiplyAdds));
    EXPECT_LE(largest_error(on_gpu, kByWarps), allowed);
    EXPECT_LE(largest_error(on_gpu, kByGroups), allowed);
  }
}

}  // namespace
}  // namespace graft
