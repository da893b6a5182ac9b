// SPDX-License-Identifier: Apache-2.0
// Branches, loops and contractions whose extents vary, from the text form, against plain loops.
#include "llvm/kernel_runner.h"

namespace graft::codegen {
namespace {

std::vector<float> counted(size_t count) {
  std::vector<float> v(count);
  for (size_t n = 0; n < count; ++n) v[n] = static_cast<float>(n % 11) - 5;
  return v;
}

TEST(Statements, what_follows_a_branch_runs_whether_it_is_taken_or_not) {
  const tile::Program program = tile::parse_program(R"(program branches {
    sizes n
    global x: f32[n] strides [1]
    global y: f32[n] strides [1] written
    global z: f32[1] strides [1] written
    body {
      for i0 < 3 {
        if lt(size(n), mul(10, i0)) {
          map [i1 < size(n)] {
            y[i1] += x[i1]
          }
          if eq(i0, 2) {
            map [] {
              z[0] += 100:f32
            }
          }
          map [] {
            z[0] += 10:f32
          }
        }
        map [] {
          z[0] += 1:f32
        }
      }
    }
  })");
  for (const Target& target : runnable_targets()) {
    Kernel kernel(program, target);
    for (const int64_t n : {5, 15, 25}) {
      auto x = counted(static_cast<size_t>(n));
      std::vector<float> y(x.size()), z(1);
      kernel.run({x.data(), y.data(), z.data()}, {{"n", n}});
      const int taken = n < 10 ? 2 : n < 20 ? 1 : 0;
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], x[i] * static_cast<float>(taken)) << target.name;
      EXPECT_EQ(z[0], static_cast<float>(3 + 10 * taken + (taken > 0 ? 100 : 0))) << target.name << " " << n;
    }
  }
}

/// c[i, j] = sum of a[i, l] b[l, j] over l < depth(i) for j < columns(i); other elements stay as they were.
void check_product(const std::string& columns, const std::string& depth,
                   const std::function<std::pair<int64_t, int64_t>(int64_t)>& extents) {
  const tile::Program program = tile::parse_program(R"(program product {
    global a: f32[7, 40] strides [40, 1]
    global b: f32[40, 40] strides [40, 1]
    global c: f32[7, 40] strides [40, 1] written
    body {
      for i9 < 7 {
        contract m [i0 < 1 bound 1] n [i1 < )" + columns + R"( bound 40] k [i2 < )" + depth + R"( bound 40] {
          c[add(i9, i0), i1] = a[add(i9, i0), i2] * b[i2, i1]
        }
      }
    }
  })");
  for (const Target& target : runnable_targets()) {
    Kernel kernel(program, target);
    auto a = counted(7 * 40), b = counted(40 * 40);
    std::vector<float> c(7 * 40, 77);
    kernel.run({a.data(), b.data(), c.data()});
    for (int64_t i = 0; i < 7; ++i) {
      const auto [n, k] = extents(i);
      for (int64_t j = 0; j < 40; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += a[static_cast<size_t>(i * 40 + l)] * b[static_cast<size_t>(l * 40 + j)];
        ASSERT_EQ(c[static_cast<size_t>(i * 40 + j)], j < n ? sum : 77) << target.name << " " << i << " " << j;
      }
    }
  }
}

TEST(Statements, contractions_over_extents_of_an_outer_loop) {
  check_product("add(mul(5, i9), 3)", "40", [](int64_t i) { return std::pair(5 * i + 3, int64_t{40}); });
  check_product("37", "add(mul(6, i9), 1)", [](int64_t i) { return std::pair(int64_t{37}, 6 * i + 1); });
  check_product("40", "0", [](int64_t) { return std::pair(int64_t{40}, int64_t{0}); });
}

/// c[i, j] = sum of a[i, l] b[l, j], where i counts 3 x 2 rows and the columns, or the depth, reach to 5 r + 4 for row
/// axis r of the two.
void check_ragged_product(bool columns_vary, size_t by_axis) {
  tile::Program program = make_program({make_buffer("a", DType::kFloat32, {Size(6), Size(20)}),
                                        make_buffer("b", DType::kFloat32, {Size(20), Size(20)}),
                                        make_buffer("c", DType::kFloat32, {Size(6), Size(20)}, true)});
  tile::Contract contract;
  contract.m = {make_axis(Size(3)), make_axis(Size(2))};
  const Expr limit = contract.m[by_axis].variable * make_index(5) + make_index(4);
  contract.n = {columns_vary ? tile::Axis{make_variable(), limit, 20} : make_axis(Size(20))};
  contract.k = {columns_vary ? make_axis(Size(20)) : tile::Axis{make_variable(), limit, 20}};
  const Expr i = contract.m[0].variable * make_index(2) + contract.m[1].variable;
  contract.a = make_load(0, DType::kFloat32, {i, contract.k[0].variable});
  contract.b = make_load(1, DType::kFloat32, {contract.k[0].variable, contract.n[0].variable});
  contract.c = 2;
  contract.c_indices = {i, contract.n[0].variable};
  program.body.push_back({contract});
  for (const Target& target : runnable_targets()) {
    Kernel kernel(program, target);
    auto a = counted(6 * 20), b = counted(20 * 20);
    std::vector<float> c(6 * 20, 77);
    kernel.run({a.data(), b.data(), c.data()});
    for (int64_t r = 0; r < 6; ++r) {
      const int64_t reach = (by_axis == 0 ? r / 2 : r % 2) * 5 + 4;
      for (int64_t j = 0; j < 20; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < (columns_vary ? 20 : reach); ++l) {
          sum += a[static_cast<size_t>(r * 20 + l)] * b[static_cast<size_t>(l * 20 + j)];
        }
        ASSERT_EQ(c[static_cast<size_t>(r * 20 + j)], columns_vary && j >= reach ? 77 : sum) << target.name << " " << r;
      }
    }
  }
}

TEST(Statements, contractions_whose_columns_vary_by_row) {
  check_ragged_product(true, 0);
  check_ragged_product(true, 1);
}

TEST(Statements, contractions_whose_depth_varies_by_row) {
  check_ragged_product(false, 0);
  check_ragged_product(false, 1);
}

}  // namespace
}  // namespace graft::codegen
