// SPDX-License-Identifier: Apache-2.0
// Maps against plain loops, on every target this machine can run, at sizes around the vector width.
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/convert.h"
#include "llvm/kernel_runner.h"

namespace graft::codegen {
namespace {

const std::vector<int64_t> kLengths{0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100};

std::vector<float> ramp(size_t count, float start = -3.0f, float step = 0.37f) {
  std::vector<float> v(count);
  for (size_t n = 0; n < count; ++n) v[n] = start + step * static_cast<float>(n % 97);
  return v;
}

/// y[i] = value(x[i]) with a size of the run.
template <class In, class Out>
std::vector<Out> map_over(const Target& target, DType in, DType out, std::vector<In> x,
                          const std::function<Expr(Expr)>& value) {
  const Size n = Size::symbol("n");
  tile::Program program = make_program({make_buffer("x", in, {n}), make_buffer("y", out, {n}, true)}, {"n"});
  const tile::Axis axis = make_axis(n);
  tile::Map map{.axes = {axis}, .condition = {}, .stores = {}, .ordered = false};
  map.stores.push_back(store_to(1, {axis.variable}, make_cast(out, value(make_load(0, in, {axis.variable})))));
  program.body.push_back({map});
  Kernel kernel(program, target);
  std::vector<Out> y(x.size() + 1, Out{77});
  EXPECT_EQ(kernel.run({x.data(), y.data()}, {{"n", static_cast<int64_t>(x.size())}}), 0);
  EXPECT_EQ(y.back(), Out{77}) << "wrote past the end";
  y.pop_back();
  return y;
}

TEST(EmitMap, adds_at_every_length) {
  for (const Target& target : runnable_targets()) {
    for (const int64_t n : kLengths) {
      const auto x = ramp(static_cast<size_t>(n));
      const auto y = map_over<float, float>(target, DType::kFloat32, DType::kFloat32, x,
                                            [](Expr e) { return e * e + make_constant(DType::kFloat32, 1.5); });
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], x[i] * x[i] + 1.5f) << target.name << " " << n;
    }
  }
}

TEST(EmitMap, broadcasts_and_transposes_strided_buffers) {
  for (const Target& target : runnable_targets()) {
    for (const int64_t n : {1, 5, 16, 19}) {
      const int64_t m = 6;
      const Size rows = m, columns = Size::symbol("n");
      tile::Program program =
          make_program({make_buffer("x", DType::kFloat32, {columns, rows}), make_buffer("b", DType::kFloat32, {rows}),
                        make_buffer("y", DType::kFloat32, {rows, columns}, true)},
                       {"n"});
      program.buffers[0].strides = {9, 1};
      program.buffers[2].strides = {columns + 3, 1};
      const tile::Axis i = make_axis(rows), j = make_axis(columns);
      tile::Map map{.axes = {i, j}, .condition = {}, .stores = {}, .ordered = false};
      map.stores.push_back(store_to(
          2, {i.variable, j.variable},
          make_load(0, DType::kFloat32, {j.variable, i.variable}) - make_load(1, DType::kFloat32, {i.variable})));
      program.body.push_back({map});
      Kernel kernel(program, target);
      auto x = ramp(static_cast<size_t>(n * 9)), b = ramp(6);
      std::vector<float> y(static_cast<size_t>(m * (n + 3)), -1);
      kernel.run({x.data(), b.data(), y.data()}, {{"n", n}});
      for (int64_t r = 0; r < m; ++r) {
        for (int64_t c = 0; c < n + 3 && r * (n + 3) + c < static_cast<int64_t>(y.size()); ++c) {
          const float expected = c < n ? x[static_cast<size_t>(c * 9 + r)] - b[static_cast<size_t>(r)] : -1;
          ASSERT_EQ(y[static_cast<size_t>(r * (n + 3) + c)], expected) << target.name << " " << n;
        }
      }
    }
  }
}

TEST(EmitMap, reads_only_the_branch_taken) {
  for (const Target& target : runnable_targets()) {
    const Size n = 37;
    tile::Program program =
        make_program({make_buffer("x", DType::kFloat32, {Size(30)}), make_buffer("y", DType::kFloat32, {n}, true)});
    const tile::Axis i = make_axis(n);
    const Expr shifted = i.variable - make_index(5);
    const Expr inside = make_call(Intrinsic::kAnd, {le(make_index(0), shifted), lt(shifted, make_index(30))});
    tile::Map map{.axes = {i}, .condition = {}, .stores = {}, .ordered = false};
    map.stores.push_back(store_to(
        1, {i.variable}, select(inside, make_load(0, DType::kFloat32, {shifted}), make_constant(DType::kFloat32, 9))));
    program.body.push_back({map});
    Kernel kernel(program, target);
    auto x = ramp(30);
    std::vector<float> y(37);
    kernel.run({x.data(), y.data()});
    for (size_t k = 0; k < 37; ++k) ASSERT_EQ(y[k], k >= 5 && k < 35 ? x[k - 5] : 9.0f) << target.name << " " << k;
  }
}

TEST(EmitMap, gathers_and_records_an_index_out_of_range) {
  for (const Target& target : runnable_targets()) {
    const Size n = Size::symbol("n");
    tile::Program program =
        make_program({make_buffer("table", DType::kFloat32, {Size(10), Size(3)}),
                      make_buffer("ids", DType::kInt64, {n}), make_buffer("y", DType::kFloat32, {Size(3), n}, true)},
                     {"n"});
    const tile::Axis c = make_axis(3), i = make_axis(n);
    const Expr row = check_index(make_load(1, DType::kInt64, {i.variable}), make_index(10));
    tile::Map map{.axes = {c, i}, .condition = {}, .stores = {}, .ordered = false};
    map.stores.push_back(store_to(2, {c.variable, i.variable}, make_load(0, DType::kFloat32, {row, c.variable})));
    program.body.push_back({map});
    Kernel kernel(program, target);
    auto table = ramp(30);
    for (const int64_t length : {0, 5, 21}) {
      std::vector<int64_t> ids(static_cast<size_t>(length));
      for (size_t k = 0; k < ids.size(); ++k) ids[k] = static_cast<int64_t>(k * 7 % 10);
      std::vector<float> y(ids.size() * 3);
      ASSERT_EQ(kernel.run({table.data(), ids.data(), y.data()}, {{"n", length}}), 0);
      for (size_t k = 0; k < y.size(); ++k)
        ASSERT_EQ(y[k], table[static_cast<size_t>(ids[k % ids.size()]) * 3 + k / ids.size()]);
      if (length == 0) continue;
      ids[ids.size() / 2] = -4;
      ASSERT_EQ(kernel.run({table.data(), ids.data(), y.data()}, {{"n", length}}), 1) << target.name;
      ASSERT_EQ(kernel.value, -4);
    }
  }
}

TEST(EmitMap, converts_between_element_types) {
  const float inf = INFINITY, nan = NAN;
  const std::vector<float> x{0,    -0.0f, 1.5f,   -2.5f, 300,   -300,  3e9f,  -3e9f,  1e20f,   inf,
                             -inf, nan,   255.9f, 65504, 65520, 1e-8f, 6e-8f, 1e-40f, 3.14159f};
  for (const Target& target : runnable_targets()) {
    const auto as_i8 = map_over<float, int8_t>(target, DType::kFloat32, DType::kInt8, x, [](Expr e) { return e; });
    const auto as_u8 = map_over<float, uint8_t>(target, DType::kFloat32, DType::kUint8, x, [](Expr e) { return e; });
    const auto as_i32 = map_over<float, int32_t>(target, DType::kFloat32, DType::kInt32, x, [](Expr e) { return e; });
    const auto as_i64 = map_over<float, int64_t>(target, DType::kFloat32, DType::kInt64, x, [](Expr e) { return e; });
    const auto as_bool = map_over<float, uint8_t>(target, DType::kFloat32, DType::kBool, x, [](Expr e) { return e; });
    const auto there = map_over<float, uint16_t>(target, DType::kFloat32, DType::kFloat16, x, [](Expr e) { return e; });
    const auto back =
        map_over<uint16_t, float>(target, DType::kFloat16, DType::kFloat32, there, [](Expr e) { return e; });
    const auto brain =
        map_over<float, uint16_t>(target, DType::kFloat32, DType::kBFloat16, x, [](Expr e) { return e; });
    auto saturate = [](float v, double low, double high) {
      return std::isnan(v) ? 0.0 : std::trunc(std::fmin(std::fmax(v, low), high));
    };
    for (size_t k = 0; k < x.size(); ++k) {
      ASSERT_EQ(as_i8[k], static_cast<int8_t>(saturate(x[k], -128, 127))) << target.name << " " << x[k];
      ASSERT_EQ(as_u8[k], static_cast<uint8_t>(saturate(x[k], 0, 255))) << target.name << " " << x[k];
      ASSERT_EQ(as_i32[k], static_cast<int32_t>(saturate(x[k], INT32_MIN, INT32_MAX))) << target.name << " " << x[k];
      const int64_t wide = std::isnan(x[k])   ? 0
                           : x[k] >= 9.2e18f  ? INT64_MAX
                           : x[k] <= -9.2e18f ? INT64_MIN
                                              : static_cast<int64_t>(x[k]);
      ASSERT_EQ(as_i64[k], wide) << target.name << " " << x[k];
      ASSERT_EQ(as_bool[k], x[k] != 0) << target.name << " " << x[k];
      const auto half = static_cast<float>(decode_float(DType::kFloat16, encode_float(DType::kFloat16, x[k], false)));
      ASSERT_TRUE(back[k] == half || (std::isnan(half) && std::isnan(back[k])))
          << target.name << " " << x[k] << " " << back[k];
      uint32_t bits;
      std::memcpy(&bits, &x[k], 4);
      const uint32_t rounded = std::isnan(x[k]) ? (bits | 0x400000) >> 16 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
      ASSERT_EQ(brain[k], rounded) << target.name << " " << x[k];
    }
  }
}

TEST(EmitMap, converts_every_f16_to_f32) {
  std::vector<uint16_t> x(65536);
  std::iota(x.begin(), x.end(), 0);
  for (const Target& target : runnable_targets()) {
    const auto y = map_over<uint16_t, float>(target, DType::kFloat16, DType::kFloat32, x, [](Expr e) { return e; });
    for (size_t k = 0; k < x.size(); ++k) {
      const auto expected = static_cast<float>(decode_float(DType::kFloat16, x[k]));
      ASSERT_TRUE(y[k] == expected || (std::isnan(y[k]) && std::isnan(expected))) << target.name << " " << k;
    }
  }
}

TEST(EmitMap, divides_integers_without_undefined_cases) {
  const int32_t low = INT32_MIN;
  const std::vector<int32_t> a{7, -7, 7, -7, 0, 5, low, low, 100, -100, 1, 6, 33},
      b{2, 2, -2, -2, 3, 0, -1, 1, 7, 7, low, 3, 64};
  for (const Target& target : runnable_targets()) {
    for (const Intrinsic op : {Intrinsic::kDiv, Intrinsic::kFloorDiv, Intrinsic::kRem, Intrinsic::kMod, Intrinsic::kShl,
                               Intrinsic::kShr, Intrinsic::kMin}) {
      const Size n = static_cast<int64_t>(a.size());
      tile::Program program = make_program({make_buffer("a", DType::kInt32, {n}), make_buffer("b", DType::kInt32, {n}),
                                            make_buffer("y", DType::kInt32, {n}, true)});
      const tile::Axis i = make_axis(n);
      tile::Map map{.axes = {i}, .condition = {}, .stores = {}, .ordered = false};
      map.stores.push_back(store_to(
          2, {i.variable},
          make_call(op, {make_load(0, DType::kInt32, {i.variable}), make_load(1, DType::kInt32, {i.variable})})));
      program.body.push_back({map});
      Kernel kernel(program, target);
      auto x = a, z = b;
      std::vector<int32_t> y(a.size());
      kernel.run({x.data(), z.data(), y.data()});
      for (size_t k = 0; k < a.size(); ++k) {
        const int64_t p = a[k], q = b[k];
        int64_t expected = 0;
        if (op == Intrinsic::kMin)
          expected = std::min(p, q);
        else if (op == Intrinsic::kShl)
          expected = q < 0 || q > 31 ? 0 : p << q;
        else if (op == Intrinsic::kShr)
          expected = p >> (q < 0 || q > 31 ? 31 : q);
        else if (q != 0) {
          const int64_t quotient = p / q, rest = p % q;
          const bool below = rest != 0 && (rest ^ q) < 0;
          expected = op == Intrinsic::kDiv        ? quotient
                     : op == Intrinsic::kFloorDiv ? quotient - below
                     : op == Intrinsic::kRem      ? rest
                                                  : rest + (below ? q : 0);
        }
        ASSERT_EQ(y[k], static_cast<int32_t>(expected)) << target.name << " " << info(op).name << " " << p << " " << q;
      }
    }
  }
}

TEST(EmitMap, keeps_nan_in_min_and_max) {
  const std::vector<float> x{1, NAN, -2, 5, NAN, 0, 3, 4, 9, -9};
  for (const Target& target : runnable_targets()) {
    for (const double other : {2.0, static_cast<double>(NAN)}) {
      const auto y = map_over<float, float>(target, DType::kFloat32, DType::kFloat32, x,
                                            [&](Expr e) { return max(make_constant(DType::kFloat32, other), e); });
      const auto z = map_over<float, float>(target, DType::kFloat32, DType::kFloat32, x,
                                            [&](Expr e) { return min(e, make_constant(DType::kFloat32, other)); });
      for (size_t k = 0; k < x.size(); ++k) {
        if (std::isnan(x[k]) || std::isnan(other)) {
          ASSERT_TRUE(std::isnan(y[k]) && std::isnan(z[k])) << target.name;
        } else {
          ASSERT_EQ(y[k], std::fmax(x[k], 2.0f));
          ASSERT_EQ(z[k], std::fmin(x[k], 2.0f));
        }
      }
    }
  }
}

TEST(EmitMap, scatters_in_order_when_points_collide) {
  for (const Target& target : runnable_targets()) {
    const Size n = 50;
    tile::Program program =
        make_program({make_buffer("ids", DType::kInt64, {n}), make_buffer("y", DType::kFloat32, {Size(4)}, true)});
    const tile::Axis i = make_axis(n);
    tile::Map map{.axes = {i}, .condition = {}, .stores = {}, .ordered = true};
    map.condition = ne(make_load(0, DType::kInt64, {i.variable}), make_index(3));
    map.stores.push_back(store_to(1, {make_load(0, DType::kInt64, {i.variable})},
                                  make_cast(DType::kFloat32, i.variable), ScatterMode::kAdd));
    program.body.push_back({map});
    Kernel kernel(program, target);
    std::vector<int64_t> ids(50);
    for (size_t k = 0; k < 50; ++k) ids[k] = static_cast<int64_t>(k * k % 4);
    std::vector<float> y(4, 1), expected(4, 1);
    for (size_t k = 0; k < 50; ++k) expected[static_cast<size_t>(ids[k])] += ids[k] == 3 ? 0 : static_cast<float>(k);
    kernel.run({ids.data(), y.data()});
    ASSERT_EQ(y, expected) << target.name;
  }
}

TEST(EmitMap, runs_grid_points_and_tiles_through_scratch) {
  for (const Target& target : runnable_targets()) {
    const Size n = Size::symbol("n");
    tile::Program program =
        make_program({make_buffer("x", DType::kFloat32, {n}), make_buffer("y", DType::kFloat32, {n}, true),
                      make_buffer("t", DType::kFloat32, {Size(24)})},
                     {"n"});
    program.buffers[2].scope = tile::Scope::kShared;
    const Expr g = make_variable();
    program.grid = {{g, ceil_div(n, 24)}};
    const tile::Axis i{make_variable(), min(make_index(24), make_size(n) - make_index(24) * g), 24};
    const tile::Axis j{make_variable(), i.extent, 24};
    const Expr at = make_index(24) * g;
    tile::Map first{
        .axes = {i},
        .condition = {},
        .stores = {store_to(2, {i.variable},
                            make_load(0, DType::kFloat32, {at + i.variable}) * make_constant(DType::kFloat32, 2))},
        .ordered = false};
    const Expr mirrored = i.extent - make_index(1) - j.variable;
    tile::Map second{.axes = {j},
                     .condition = {},
                     .stores = {store_to(1, {at + j.variable}, make_load(2, DType::kFloat32, {mirrored}))},
                     .ordered = false};
    program.body.push_back({first});
    program.body.push_back({second});
    Kernel kernel(program, target);
    for (const int64_t length : {1, 24, 25, 60}) {
      auto x = ramp(static_cast<size_t>(length));
      std::vector<float> y(x.size());
      kernel.run({x.data(), y.data()}, {{"n", length}});
      for (int64_t k = 0; k < length; ++k) {
        const int64_t start = k / 24 * 24, end = std::min(start + 24, length);
        ASSERT_EQ(y[static_cast<size_t>(k)], 2 * x[static_cast<size_t>(end - 1 - (k - start))])
            << target.name << " " << length << " " << k;
      }
    }
  }
}

}  // namespace
}  // namespace graft::codegen
