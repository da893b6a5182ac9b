// SPDX-License-Identifier: Apache-2.0
// Recurrences along rows and down columns, at numbers of points around those that go side by side.
#include "llvm/kernel_runner.h"

namespace graft::codegen {
namespace {

struct Direction {
  bool exclusive = false, reverse = false;
};

/// y = running sums of x along the last axis, or down the first where `columns`.
void expect_sums(const Target& target, int64_t points, int64_t steps, bool columns, const Direction& direction) {
  const Size n = Size::symbol("n");
  const Shape shape = columns ? Shape{Size(steps), n} : Shape{n, Size(steps)};
  tile::Program program =
      make_program({make_buffer("x", DType::kFloat32, shape), make_buffer("y", DType::kFloat32, shape, true)}, {"n"});
  const tile::Axis point = make_axis(n), step = make_axis(steps);
  const Expr state = make_variable(DType::kFloat32);
  const std::vector<Expr> at =
      columns ? std::vector{step.variable, point.variable} : std::vector{point.variable, step.variable};
  tile::Scan scan{.axes = {point},
                  .axis = step,
                  .state = {state},
                  .initial = {make_constant(DType::kFloat32, 0.5)},
                  .step = {state + make_load(0, DType::kFloat32, at)},
                  .stores = {store_to(1, at, state)},
                  .exclusive = direction.exclusive,
                  .reverse = direction.reverse};
  program.body.push_back({scan});
  Kernel kernel(program, target);
  const auto elements = static_cast<size_t>(points * steps);
  std::vector<float> x(elements + 1), y(elements + 1, -1);
  for (size_t k = 0; k < elements; ++k) x[k] = static_cast<float>(k * 7 % 23) - 11;
  ASSERT_EQ(kernel.run({x.data(), y.data()}, {{"n", points}}), 0);
  for (int64_t p = 0; p < points; ++p) {
    float sum = 0.5f;
    for (int64_t k = 0; k < steps; ++k) {
      const int64_t t = direction.reverse ? steps - 1 - k : k;
      const auto place = static_cast<size_t>(columns ? t * points + p : p * steps + t);
      const float before = sum;
      sum += x[place];
      ASSERT_EQ(y[place], direction.exclusive ? before : sum)
          << target.name << ": " << points << " points, step " << t << (columns ? " of columns" : " of rows");
    }
  }
  EXPECT_EQ(y.back(), -1) << "wrote past the end";
}

TEST(EmitScan, adds_along_rows_and_down_columns) {
  for (const Target& target : runnable_targets()) {
    for (const int64_t points : {0, 1, 3, 7, 8, 9, 16, 31, 64, 65, 130}) {
      for (const bool columns : {false, true}) {
        expect_sums(target, points, 21, columns, {});
        expect_sums(target, points, 1, columns, {.exclusive = true});
        expect_sums(target, points, 6, columns, {.exclusive = true, .reverse = true});
        expect_sums(target, points, 6, columns, {.reverse = true});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(EmitScan, two_states_step_together) {
  for (const Target& target : runnable_targets()) {
    const int64_t steps = 30;
    tile::Program program = make_program({make_buffer("y", DType::kInt64, {11, steps}, true)});
    const tile::Axis point = make_axis(11), step = make_axis(steps);
    const Expr a = make_variable(), b = make_variable();
    tile::Scan scan{.axes = {point},
                    .axis = step,
                    .state = {a, b},
                    .initial = {point.variable, make_index(1)},
                    .step = {b, a + b},
                    .stores = {store_to(0, {point.variable, step.variable}, a)}};
    program.body.push_back({scan});
    Kernel kernel(program, target);
    std::vector<int64_t> y(11 * 30);
    ASSERT_EQ(kernel.run({y.data()}), 0);
    for (int64_t p = 0; p < 11; ++p) {
      int64_t first = p, second = 1;
      for (int64_t t = 0; t < steps; ++t) {
        const int64_t next = first + second;
        first = second, second = next;
        ASSERT_EQ(y[static_cast<size_t>(p * steps + t)], first) << target.name;
      }
    }
  }
}

}  // namespace
}  // namespace graft::codegen
