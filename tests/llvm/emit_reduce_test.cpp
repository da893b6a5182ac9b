// SPDX-License-Identifier: Apache-2.0
// Reductions, sorts and control flow against plain loops on every target this machine can run.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "llvm/kernel_runner.h"

namespace graft::codegen {
namespace {

const std::vector<int64_t> kLengths{0, 1, 3, 8, 15, 16, 17, 40, 64, 65, 130, 200};

/// Values that f32 adds exactly in any order.
std::vector<float> small_integers(size_t count) {
  std::vector<float> v(count);
  for (size_t n = 0; n < count; ++n) v[n] = static_cast<float>((n * 37 + 11) % 23) - 11;
  return v;
}

/// y[i] = fold over j of x[i, j], or of x[j, i] when `columns`.
tile::Program reduce_program(Intrinsic op, bool columns, bool accumulate = false) {
  const Size m = Size::symbol("m"), n = Size::symbol("n");
  tile::Program program = make_program({make_buffer("x", DType::kFloat32, columns ? Shape{n, m} : Shape{m, n}),
                                        make_buffer("y", DType::kFloat32, {m}, true)},
                                       {"m", "n"});
  const tile::Axis i = make_axis(m), j = make_axis(n);
  tile::Reduce reduce;
  reduce.axes = {i};
  reduce.reduced = {j};
  reduce.lift = {
      make_load(0, DType::kFloat32,
                columns ? std::vector<Expr>{j.variable, i.variable} : std::vector<Expr>{i.variable, j.variable})};
  reduce.monoid = make_monoid(op, DType::kFloat32);
  reduce.outputs = {store_to(1, {i.variable})};
  reduce.accumulate = accumulate;
  program.body.push_back({reduce});
  return program;
}

TEST(EmitReduce, folds_rows_and_columns_at_every_length) {
  for (const Target& target : runnable_targets()) {
    for (const bool columns : {false, true}) {
      for (const Intrinsic op : {Intrinsic::kAdd, Intrinsic::kMax}) {
        for (const bool accumulate : {false, true}) {
          Kernel kernel(reduce_program(op, columns, accumulate), target);
          for (const int64_t m : {1, 19}) {
            for (const int64_t n : kLengths) {
              auto x = small_integers(static_cast<size_t>(m * n + 1));
              std::vector<float> y(static_cast<size_t>(m), 3);
              kernel.run({x.data(), y.data()}, {{"m", m}, {"n", n}});
              for (int64_t i = 0; i < m; ++i) {
                float expected = op == Intrinsic::kAdd ? 0 : -INFINITY;
                if (accumulate) expected = op == Intrinsic::kAdd ? 3.0f : std::max(expected, 3.0f);
                for (int64_t j = 0; j < n; ++j) {
                  const float e = x[static_cast<size_t>(columns ? j * m + i : i * n + j)];
                  expected = op == Intrinsic::kAdd ? expected + e : std::max(expected, e);
                }
                ASSERT_EQ(y[static_cast<size_t>(i)], expected)
                    << target.name << " columns " << columns << " m " << m << " n " << n;
              }
            }
          }
        }
      }
    }
  }
}

TEST(EmitReduce, keeps_the_first_of_equal_maxima) {
  const Size n = Size::symbol("n");
  tile::Program program =
      make_program({make_buffer("x", DType::kFloat32, {n}), make_buffer("value", DType::kFloat32, {Size(1)}, true),
                    make_buffer("at", DType::kInt64, {Size(1)}, true)},
                   {"n"});
  const tile::Axis j = make_axis(n);
  tile::Reduce reduce;
  reduce.reduced = {j};
  reduce.lift = {make_load(0, DType::kFloat32, {j.variable}), j.variable};
  Monoid& monoid = reduce.monoid;
  monoid.identity = {make_constant(DType::kFloat32, -INFINITY), make_index(-1)};
  monoid.left = {make_variable(DType::kFloat32), make_variable()};
  monoid.right = {make_variable(DType::kFloat32), make_variable()};
  const Expr later = gt(monoid.right[0], monoid.left[0]);
  monoid.combine = {select(later, monoid.right[0], monoid.left[0]), select(later, monoid.right[1], monoid.left[1])};
  reduce.outputs = {store_to(1, {make_index(0)}), store_to(2, {make_index(0)})};
  program.body.push_back({reduce});
  for (const Target& target : runnable_targets()) {
    Kernel kernel(program, target);
    for (const int64_t length : {1, 20, 77}) {
      auto x = small_integers(static_cast<size_t>(length));
      float value = 0;
      int64_t at = 0;
      kernel.run({x.data(), &value, &at}, {{"n", length}});
      const auto best = std::max_element(x.begin(), x.end());
      ASSERT_EQ(value, *best);
      ASSERT_EQ(at, best - x.begin()) << target.name;
    }
  }
}

TEST(EmitReduce, computes_a_softmax_row_with_an_online_state) {
  const Size m = 5, n = Size::symbol("n");
  tile::Program program =
      make_program({make_buffer("x", DType::kFloat32, {m, n}), make_buffer("y", DType::kFloat32, {m, n}, true),
                    make_buffer("state", DType::kFloat32, {Size(2)})},
                   {"n"});
  program.buffers[2].scope = tile::Scope::kShared;
  const Expr row = make_variable();
  program.grid = {{row, m}};
  const tile::Axis j = make_axis(n), k = make_axis(n);
  const DType f32 = DType::kFloat32;
  tile::Reduce reduce;
  reduce.reduced = {j};
  reduce.lift = {make_load(0, f32, {row, j.variable}), make_constant(f32, 1)};
  Monoid& monoid = reduce.monoid;
  monoid.identity = {make_constant(f32, -1e30), make_constant(f32, 0)};
  monoid.left = {make_variable(f32), make_variable(f32)};
  monoid.right = {make_variable(f32), make_variable(f32)};
  const Expr top = max(monoid.left[0], monoid.right[0]);
  monoid.combine = {top, monoid.left[1] * exp(monoid.left[0] - top) + monoid.right[1] * exp(monoid.right[0] - top)};
  reduce.outputs = {store_to(2, {make_index(0)}), store_to(2, {make_index(1)})};
  tile::Map map{.axes = {k}, .condition = {}, .stores = {}, .ordered = false};
  map.stores = {store_to(1, {row, k.variable},
                         exp(make_load(0, f32, {row, k.variable}) - make_load(2, f32, {make_index(0)})) /
                             make_load(2, f32, {make_index(1)}))};
  program.body.push_back({reduce});
  program.body.push_back({map});
  for (const Target& target : runnable_targets()) {
    Kernel kernel(program, target);
    for (const int64_t length : {1, 16, 33, 128}) {
      auto x = small_integers(static_cast<size_t>(5 * length));
      std::vector<float> y(x.size());
      kernel.run({x.data(), y.data()}, {{"n", length}});
      for (size_t r = 0; r < 5; ++r) {
        const auto width = static_cast<size_t>(length);
        double sum = 0;
        for (size_t c = 0; c < width; ++c) sum += std::exp(static_cast<double>(x[r * width + c]));
        for (size_t c = 0; c < width; ++c) {
          const double expected = std::exp(static_cast<double>(x[r * width + c])) / sum;
          ASSERT_NEAR(y[r * width + c], expected, 2e-6 * expected) << target.name;
        }
      }
    }
  }
}

TEST(EmitSort, sorts_stably_with_nan_largest) {
  const Size n = Size::symbol("n");
  for (const bool descending : {false, true}) {
    tile::Program program = make_program(
        {make_buffer("keys", DType::kFloat32, {n}, true), make_buffer("positions", DType::kInt64, {n}, true)}, {"n"});
    tile::SortRow sort;
    sort.keys = 0;
    sort.positions = 1;
    sort.key_indices = {make_index(0)};
    sort.position_indices = {make_index(0)};
    sort.length = make_size(n);
    sort.descending = descending;
    program.body.push_back({sort});
    Kernel kernel(program, runnable_targets()[0]);
    for (const int64_t length : {0, 1, 5, 100, 1000}) {
      auto keys = small_integers(static_cast<size_t>(length));
      if (length > 60) keys[50] = NAN;
      std::vector<int64_t> positions(keys.size());
      std::iota(positions.begin(), positions.end(), 0);
      std::vector<int64_t> expected = positions;
      auto less = [&](int64_t a, int64_t b) {
        const float x = keys[static_cast<size_t>(a)], y = keys[static_cast<size_t>(b)];
        return !std::isnan(x) && (std::isnan(y) || x < y);
      };
      std::stable_sort(expected.begin(), expected.end(),
                       [&](int64_t a, int64_t b) { return descending ? less(b, a) : less(a, b); });
      auto sorted = keys;
      kernel.run({sorted.data(), positions.data()}, {{"n", length}});
      ASSERT_EQ(positions, expected) << length;
    }
  }
}

TEST(EmitProgram, runs_loops_and_conditions) {
  const Size n = Size::symbol("n");
  tile::Program program = make_program({make_buffer("y", DType::kInt64, {n}, true)}, {"n"});
  tile::For loop;
  loop.axis = make_axis(n);
  tile::If branch;
  branch.condition = eq(rem(loop.axis.variable, make_index(3)), make_index(1));
  tile::Map map{.axes = {}, .condition = {}, .stores = {}, .ordered = false};
  map.stores = {store_to(0, {loop.axis.variable}, loop.axis.variable * loop.axis.variable)};
  branch.body.push_back({map});
  loop.body.push_back({branch});
  program.body.push_back({loop});
  for (const Target& target : runnable_targets()) {
    Kernel kernel(program, target);
    std::vector<int64_t> y(10, -1);
    kernel.run({y.data()}, {{"n", 10}});
    for (int64_t k = 0; k < 10; ++k) ASSERT_EQ(y[static_cast<size_t>(k)], k % 3 == 1 ? k * k : -1);
  }
}

}  // namespace
}  // namespace graft::codegen
