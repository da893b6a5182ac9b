// SPDX-License-Identifier: Apache-2.0
// Bounds of what a region computes: they hold, and are as narrow as the forms let them be.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "passes/value_ranges.h"

namespace graft::passes {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Bounds of z in a region of the operands x and y.
ValueRange range_of(const std::string& forms, ValueRange x = {-2, 3}, ValueRange y = {1, 4}) {
  const Region region = parse_region(R"(region test
tensor x: f32[m, n]
tensor y: f32[m, n]
tensor z: f32[m, n]
tensor row: f32[m]
tensor parts: f32[m, n]
tensor sum: f32[m]
input x
input y
output z
)" + forms);
  return value_ranges(region, {x, y})[region.outputs[0]];
}

ValueRange of_element(const std::string& value, ValueRange x = {-2, 3}, ValueRange y = {1, 4}) {
  return range_of("compute z over [i0 < m, i1 < n] {\n  value " + value + "\n}\n", x, y);
}

void expect_near(const ValueRange& actual, double low, double high) {
  EXPECT_TRUE(actual.low == low || std::abs(actual.low - low) < 1e-12) << actual.low << " for " << low;
  EXPECT_TRUE(actual.high == high || std::abs(actual.high - high) < 1e-12) << actual.high << " for " << high;
}

TEST(ValueRanges, follow_arithmetic) {
  expect_near(of_element("add(x[i0, i1], y[i0, i1])"), -1, 7);
  expect_near(of_element("sub(x[i0, i1], y[i0, i1])"), -6, 2);
  expect_near(of_element("mul(x[i0, i1], y[i0, i1])"), -8, 12);
  expect_near(of_element("mul(x[i0, i1], x[i0, i1])"), 0, 9);
  expect_near(of_element("div(x[i0, i1], y[i0, i1])"), -2, 3);
  expect_near(of_element("div(y[i0, i1], x[i0, i1])"), -kInfinity, kInfinity);
  expect_near(of_element("min(x[i0, i1], y[i0, i1])"), -2, 3);
  expect_near(of_element("neg(abs(x[i0, i1]))"), -3, 0);
  expect_near(of_element("exp(x[i0, i1])"), std::exp(-2), std::exp(3));
  expect_near(of_element("log(x[i0, i1])"), -kInfinity, kInfinity);
  expect_near(of_element("log(y[i0, i1])"), 0, std::log(4));
  expect_near(of_element("cosh(x[i0, i1])"), 1, std::cosh(3));
  expect_near(of_element("pow(x[i0, i1], 2:f32)"), 0, 9);
  expect_near(of_element("pow(x[i0, i1], 0.5:f32)"), -kInfinity, kInfinity);
  expect_near(of_element("cast<f32>(i1)"), 0, 63);
}

TEST(ValueRanges, know_in_each_branch_what_was_compared) {
  expect_near(of_element("select(gt(x[i0, i1], 0:f32), x[i0, i1], expm1(x[i0, i1]))"), std::expm1(-2), 3);
  expect_near(of_element("select(lt(x[i0, i1], 0:f32), exp(x[i0, i1]), 1:f32)"), std::exp(-2), 1);
  expect_near(of_element("select(gt(x[i0, i1], 5:f32), exp(x[i0, i1]), 0:f32)"), 0, 0);
}

/// Folds the rows of a tensor.
std::string reduce(const std::string& into, const std::string& from, const std::string& identity,
                   const std::string& combine) {
  return "reduce " + into + " over [i0 < m] fold [k0 < n] {\n  left l0: f32\n  right r0: f32\n  lift " + from +
         "[i0, k0]\n  identity " + identity + "\n  combine " + combine + "(l0, r0)\n}\n";
}

TEST(ValueRanges, sum_over_open_axes) {
  const std::string read = "compute z over [i0 < m, i1 < n] {\n  value row[i0]\n}\n";
  expect_near(range_of(reduce("row", "x", "0:f32", "add") + read), -128, 192);
  expect_near(range_of(reduce("row", "x", "-inf:f32", "max") + read), -2, 3);
  const std::string mean = "compute z over [i0 < m, i1 < n] {\n  value div(row[i0], cast<f32>(size(n)))\n}\n";
  expect_near(range_of(reduce("row", "x", "0:f32", "add") + mean), -2, 3);
}

TEST(ValueRanges, know_the_largest_of_a_row_and_the_parts_of_a_sum) {
  const std::string parts = "compute parts over [i0 < m, i1 < n] {\n  value exp(sub(x[i0, i1], row[i0]))\n}\n";
  const std::string shares = "compute z over [i0 < m, i1 < n] {\n  value div(parts[i0, i1], sum[i0])\n}\n";
  EXPECT_EQ(range_of(reduce("row", "x", "-inf:f32", "max") + parts + reduce("sum", "parts", "0:f32", "add") + shares),
            (ValueRange{0, 1}));
}

}  // namespace
}  // namespace graft::passes
