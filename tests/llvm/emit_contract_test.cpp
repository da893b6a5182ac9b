// SPDX-License-Identifier: Apache-2.0
// Contractions against plain loops: packed and plain operands, tails, several k axes, element types.
#include <cmath>
#include <cstring>

#include "base/convert.h"
#include "llvm/kernel_runner.h"

namespace graft::codegen {
namespace {

std::vector<float> small_integers(size_t count, size_t seed) {
  std::vector<float> v(count);
  for (size_t n = 0; n < count; ++n) v[n] = static_cast<float>((n * 37 + seed * 11) % 9) - 4;
  return v;
}

/// c[m, n] (+)= a[m, k] b[k, n], all row-major with symbolic or constant sizes.
tile::Program plain_product(const Size& m, const Size& n, const Size& k, bool accumulate,
                            DType operand = DType::kFloat32, DType result = DType::kFloat32) {
  tile::Program program = make_program(
      {make_buffer("a", operand, {m, k}), make_buffer("b", operand, {k, n}), make_buffer("c", result, {m, n}, true)});
  if (!m.is_constant()) program.sizes = {"k", "m", "n"};
  const tile::Axis i = make_axis(m), j = make_axis(n), l = make_axis(k);
  tile::Contract contract;
  contract.m = {i}, contract.n = {j}, contract.k = {l};
  contract.a = make_load(0, operand, {i.variable, l.variable});
  contract.b = make_load(1, operand, {l.variable, j.variable});
  contract.c = 2;
  contract.c_indices = {i.variable, j.variable};
  contract.accumulate = accumulate;
  program.body.push_back({contract});
  return program;
}

void expect_product(const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& c, int64_t m,
                    int64_t n, int64_t k, float start, const std::string& where) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = start;
      for (int64_t l = 0; l < k; ++l) sum += a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * n + j)];
      ASSERT_EQ(c[static_cast<size_t>(i * n + j)], sum)
          << where << " m " << m << " n " << n << " k " << k << " at " << i << "," << j;
    }
  }
}

TEST(EmitContract, multiplies_matrices_of_sizes_known_to_the_run) {
  const Size m = Size::symbol("m"), n = Size::symbol("n"), k = Size::symbol("k");
  for (const Target& target : runnable_targets()) {
    for (const bool accumulate : {false, true}) {
      Kernel kernel(plain_product(m, n, k, accumulate), target);
      for (const int64_t rows : {0, 1, 3, 14, 15, 29}) {
        for (const int64_t columns : {0, 1, 8, 31, 32, 70}) {
          for (const int64_t depth : {0, 1, 4, 11}) {
            const auto a = small_integers(static_cast<size_t>(rows * depth), 1),
                       b = small_integers(static_cast<size_t>(columns * depth), 2);
            std::vector<float> c(static_cast<size_t>(rows * columns), 5);
            kernel.run({const_cast<float*>(a.data()), const_cast<float*>(b.data()), c.data()},
                       {{"m", rows}, {"n", columns}, {"k", depth}});
            expect_product(a, b, c, rows, columns, depth, accumulate ? 5.0f : 0.0f, target.name);
          }
        }
      }
    }
  }
}

TEST(EmitContract, multiplies_matrices_of_constant_sizes) {
  for (const Target& target : runnable_targets()) {
    for (const int64_t rows : {1, 7, 33}) {
      for (const int64_t columns : {5, 16, 48, 80, 100}) {
        const int64_t depth = 9;
        Kernel kernel(plain_product(rows, columns, depth, false), target);
        const auto a = small_integers(static_cast<size_t>(rows * depth), 1),
                   b = small_integers(static_cast<size_t>(columns * depth), 2);
        std::vector<float> c(static_cast<size_t>(rows * columns), 5);
        kernel.run({const_cast<float*>(a.data()), const_cast<float*>(b.data()), c.data()});
        expect_product(a, b, c, rows, columns, depth, 0, target.name);
      }
    }
  }
}

TEST(EmitContract, convolves_with_several_axes_per_role) {
  // c[oh, ow, panel * 8 + lane] = sum over kh, kw, channel of x[oh + kh, ow + kw, channel] * w[panel, kh, kw, channel,
  // lane]
  const int64_t height = 5, width = 20, channels = 3, panels = 2, lanes = 8;
  for (const Target& target : runnable_targets()) {
    tile::Program program =
        make_program({make_buffer("x", DType::kFloat32, {Size(height + 2), Size(width + 2), Size(channels)}),
                      make_buffer("w", DType::kFloat32, {Size(panels), Size(3), Size(3), Size(channels), Size(lanes)}),
                      make_buffer("c", DType::kFloat32, {Size(height), Size(width), Size(panels * lanes)}, true)});
    const tile::Axis oh = make_axis(height), ow = make_axis(width), panel = make_axis(panels), lane = make_axis(lanes),
                     kh = make_axis(3), kw = make_axis(3), channel = make_axis(channels);
    tile::Contract contract;
    contract.m = {oh, ow}, contract.n = {panel, lane}, contract.k = {kh, kw, channel};
    contract.a =
        make_load(0, DType::kFloat32, {oh.variable + kh.variable, ow.variable + kw.variable, channel.variable});
    contract.b =
        make_load(1, DType::kFloat32, {panel.variable, kh.variable, kw.variable, channel.variable, lane.variable});
    contract.c = 2;
    contract.c_indices = {oh.variable, ow.variable, panel.variable * make_index(lanes) + lane.variable};
    program.body.push_back({contract});
    Kernel kernel(program, target);
    auto x = small_integers(static_cast<size_t>((height + 2) * (width + 2) * channels), 3);
    auto w = small_integers(static_cast<size_t>(panels * 9 * channels * lanes), 4);
    std::vector<float> c(static_cast<size_t>(height * width * panels * lanes));
    kernel.run({x.data(), w.data(), c.data()});
    for (int64_t n = 0; n < static_cast<int64_t>(c.size()); ++n) {
      const int64_t f = n % 16, column = n / 16 % width, row = n / 16 / width;
      float sum = 0;
      for (int64_t k = 0; k < 9 * channels; ++k) {
        const int64_t q = k % channels, s = k / channels % 3, r = k / channels / 3;
        sum += x[static_cast<size_t>(((row + r) * (width + 2) + column + s) * channels + q)] *
               w[static_cast<size_t>((f / lanes * 9 * channels + k) * lanes + f % lanes)];
      }
      ASSERT_EQ(c[static_cast<size_t>(n)], sum) << target.name << " " << n;
    }
  }
}

TEST(EmitContract, multiplies_a_transposed_operand) {
  // c[i, j] = sum over k of a[k, i] * b[k, j]
  for (const Target& target : runnable_targets()) {
    const int64_t m = 9, n = 21, k = 13;
    tile::Program program = make_program({make_buffer("a", DType::kFloat32, {Size(k), Size(m)}),
                                          make_buffer("b", DType::kFloat32, {Size(k), Size(n)}),
                                          make_buffer("c", DType::kFloat32, {Size(m), Size(n)}, true)});
    const tile::Axis i = make_axis(m), j = make_axis(n), l = make_axis(k);
    tile::Contract contract;
    contract.m = {i}, contract.n = {j}, contract.k = {l};
    contract.a = make_load(0, DType::kFloat32, {l.variable, i.variable});
    contract.b = make_load(1, DType::kFloat32, {l.variable, j.variable});
    contract.c = 2;
    contract.c_indices = {i.variable, j.variable};
    program.body.push_back({contract});
    Kernel kernel(program, target);
    auto a = small_integers(static_cast<size_t>(m * k), 5), b = small_integers(static_cast<size_t>(n * k), 6);
    std::vector<float> c(static_cast<size_t>(m * n));
    kernel.run({a.data(), b.data(), c.data()});
    for (int64_t p = 0; p < m; ++p) {
      for (int64_t q = 0; q < n; ++q) {
        float sum = 0;
        for (int64_t r = 0; r < k; ++r) sum += a[static_cast<size_t>(r * m + p)] * b[static_cast<size_t>(r * n + q)];
        ASSERT_EQ(c[static_cast<size_t>(p * n + q)], sum) << target.name;
      }
    }
  }
}

TEST(EmitContract, accumulates_narrow_operands_in_wide_sums) {
  for (const Target& target : runnable_targets()) {
    const int64_t m = 10, n = 37, k = 50;
    std::vector<int8_t> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(n * k));
    for (size_t p = 0; p < a.size(); ++p) a[p] = static_cast<int8_t>(p * 91 % 256);
    for (size_t p = 0; p < b.size(); ++p) b[p] = static_cast<int8_t>(p * 57 % 256);
    std::vector<int32_t> c(static_cast<size_t>(m * n));
    Kernel(plain_product(m, n, k, false, DType::kInt8, DType::kInt32), target).run({a.data(), b.data(), c.data()});
    std::vector<uint16_t> x(a.size()), y(b.size());
    const auto half = [](int value) { return static_cast<uint16_t>(encode_float(DType::kFloat16, value)); };
    for (size_t p = 0; p < a.size(); ++p) x[p] = half(a[p] / 16);
    for (size_t p = 0; p < b.size(); ++p) y[p] = half(b[p] / 16);
    std::vector<float> z(c.size());
    Kernel(plain_product(m, n, k, false, DType::kFloat16, DType::kFloat32), target).run({x.data(), y.data(), z.data()});
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        int32_t sum = 0;
        float real = 0;
        for (int64_t l = 0; l < k; ++l) {
          sum += a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * n + j)];
          real += static_cast<float>(decode_float(DType::kFloat16, x[static_cast<size_t>(i * k + l)]) *
                                     decode_float(DType::kFloat16, y[static_cast<size_t>(l * n + j)]));
        }
        ASSERT_EQ(c[static_cast<size_t>(i * n + j)], sum) << target.name;
        ASSERT_EQ(z[static_cast<size_t>(i * n + j)], real) << target.name;
      }
    }
  }
}

}  // namespace
}  // namespace graft::codegen
