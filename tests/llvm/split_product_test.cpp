// SPDX-License-Identifier: Apache-2.0
// Products of f32 by parts on AMX, by emulation where the machine has none: against sums in f64, with errors no larger
// than those of multiply-adds in f32, and right for every f32 there is.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "llvm/amx_emulator.h"
#include "llvm/schedule_sample.h"
#include "strategy/choose_schedule.h"
#include "strategy/contract.h"
#include "strategy/nest.h"
#include "tile/split_words.h"

namespace graft::codegen {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();
constexpr float kLeast = std::numeric_limits<float>::denorm_min();

struct Product {
  int64_t m, k, n;
};

using Floats = std::vector<float>;

Floats floats_of(const TensorData& data) {
  Floats values(static_cast<size_t>(data.element_count()));
  std::memcpy(values.data(), data.bytes().data(), values.size() * sizeof(float));
  return values;
}

TensorData tensor_of(const Floats& values, std::vector<int64_t> shape) {
  TensorData data = TensorData::zeros(DType::kFloat32, std::move(shape));
  std::memcpy(data.mutable_bytes().data(), values.data(), values.size() * sizeof(float));
  return data;
}

/// What the kernel of a schedule with the splitting unit gives for a region of a left operand and weights.
Floats run(const Sample& sample, const tile::ContractSchedule& schedule, const Target& target) {
  std::vector<bool> constant(sample.region.tensors.size());
  const int weights = sample.region.inputs[1];
  constant[static_cast<size_t>(weights)] = true;
  const Choice choice = choice_of(sample.region, constant, schedule);
  const tile::Lowered lowered = tile::lower(sample.region, choice.layouts, schedule, target);
  if (const auto* reason = std::get_if<std::string>(&lowered)) throw std::runtime_error(*reason);
  const auto& program = std::get<tile::Program>(lowered);
  std::vector<TensorData> tensors = sample.inputs;
  tensors[1] = tile::pack(*choice.layouts[static_cast<size_t>(weights)], tensors[1], tensors[1].shape());
  tensors.push_back(TensorData::zeros(DType::kFloat32, sample.expected[0].shape()));
  std::vector<void*> buffers;
  for (TensorData& tensor : tensors) buffers.push_back(tensor.mutable_bytes().data());
  Kernel kernel(program, target);
  EXPECT_EQ(kernel.run(buffers, sample.sizes), 0);
  return floats_of(tensors.back());
}

Sample sample_of(const Product& p) {
  return make_sample(fmt::format("    input %a: f32[{}, {}]\n    input %b: f32[{}, {}]\n"
                                 "    %y: ? = MatMul \"product\" (%a, %b)\n    output %y\n", p.m, p.k, p.k, p.n));
}

tile::ContractSchedule split_schedule(int64_t m = 128) {
  tile::ContractSchedule schedule;
  schedule.m = m, schedule.n = 64, schedule.panel = 32, schedule.unit = find_unit("amx_f32");
  return schedule;
}

/// The largest error of a sum, as a share of the sum of magnitudes: of these results, and of a chain of multiply-adds.
struct Errors {
  double split = 0, fma = 0;
};

Errors errors_of(const Product& p, const Floats& a, const Floats& b, const Floats& c) {
  Errors errors;
  const auto at = [](int64_t row, int64_t columns, int64_t column) {
    return static_cast<size_t>(row * columns + column);
  };
  for (int64_t m = 0; m < p.m; ++m) {
    for (int64_t n = 0; n < p.n; ++n) {
      double sum = 0, magnitude = 0;
      float plain = 0;
      for (int64_t k = 0; k < p.k; ++k) {
        const float x = a[at(m, p.k, k)], y = b[at(k, p.n, n)];
        sum += double{x} * y, magnitude += std::fabs(double{x} * y);
        plain = std::fma(x, y, plain);
      }
      if (magnitude == 0) continue;
      errors.split = std::max(errors.split, std::fabs(c[at(m, p.n, n)] - sum) / magnitude);
      errors.fma = std::max(errors.fma, std::fabs(plain - sum) / magnitude);
    }
  }
  return errors;
}

Floats random_floats(int64_t count, Random& random, bool rectified) {
  Floats values(static_cast<size_t>(count));
  for (float& value : values) {
    double sum = -6;  // nearly normal
    for (int i = 0; i < 12; ++i) sum += random.uniform(0, 1);
    value = static_cast<float>(rectified ? std::max(sum, 0.0) : sum);
  }
  return values;
}

class SplitProduct : public testing::Test {
 protected:
  void SetUp() override {
    target_ = target_with_amx();
    if (!target_) GTEST_SKIP() << "no AMX, and no AVX-512 beside which it could be emulated";
  }
  std::optional<Target> target_;
};

TEST_F(SplitProduct, errs_no_more_than_multiply_adds) {
  Random random(7);
  for (const Product& p : {Product{2, 2, 2}, {3, 20, 7}, {33, 31, 65}, {45, 147, 65}, {49, 512, 32}, {17, 5000, 33},
                           {64, 1024, 64}}) {
    for (const bool rectified : {false, true}) {
      Sample sample = sample_of(p);
      const Floats a = random_floats(p.m * p.k, random, rectified), b = random_floats(p.k * p.n, random, false);
      sample.inputs = {tensor_of(a, {p.m, p.k}), tensor_of(b, {p.k, p.n})};
      const Errors errors = errors_of(p, a, b, run(sample, split_schedule(), *target_));
      // A single product is rounded once by a multiply-add, and twice in two sums.
      const double bound = p.k < 32 ? 1.2e-7 : errors.fma;
      EXPECT_LE(errors.split, bound) << fmt::format("{} x {} x {}: multiply-adds {}", p.m, p.k, p.n, errors.fma);
    }
  }
}

/// Products in which each element is one that parts are hard to make of; sums are compared with those in f64.
TEST_F(SplitProduct, is_right_for_every_f32) {
  const float special[] = {0.0F,    -0.0F,    1.0F,      -1.5F,    kLeast,   -3 * kLeast, 0x1p-126F, 0x1.fffffep-127F,
                           0x1p100F, kMost,   -kMost,    0x1p103F, 0x1.fffffep102F, kInf, -kInf,
                           std::numeric_limits<float>::quiet_NaN(), 0x1.234568p-100F, 0x1p-149F, 0x1.8p80F, 3e38F};
  const auto count = static_cast<int64_t>(std::size(special));
  for (const int64_t k : {2, 40}) {
    const Product p{count, k, count};
    Floats a(static_cast<size_t>(p.m * p.k)), b(static_cast<size_t>(p.k * p.n));
    for (int64_t i = 0; i < count; ++i) {
      a[static_cast<size_t>(i * k)] = special[i];
      b[static_cast<size_t>(i)] = special[i];
    }
    Sample sample = sample_of(p);
    sample.inputs = {tensor_of(a, {p.m, p.k}), tensor_of(b, {p.k, p.n})};
    const Floats c = run(sample, split_schedule(), *target_);
    for (int64_t m = 0; m < p.m; ++m) {
      for (int64_t n = 0; n < p.n; ++n) {
        float expected = 0;
        for (int64_t i = 0; i < k; ++i) {
          expected = std::fma(a[static_cast<size_t>(m * k + i)], b[static_cast<size_t>(i * p.n + n)], expected);
        }
        const float got = c[static_cast<size_t>(m * p.n + n)];
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(got)) << special[m] << " * " << special[n] << ": " << got;
        } else if (std::isinf(expected)) {
          EXPECT_EQ(got, expected) << special[m] << " * " << special[n];
        } else {
          EXPECT_LE(std::fabs(double{got} - expected), std::fabs(expected) * 0x1p-22 + 0x1p-149)
              << fmt::format("{:a} * {:a}: {:a}, not {:a}", special[m], special[n], got, expected);
        }
      }
    }
  }
}

/// Rows and columns of all magnitudes: each sum is as near to that in f64 as f32 allows.
TEST_F(SplitProduct, keeps_small_sums_beside_large_ones) {
  Random random(3);
  const Product p{40, 70, 35};
  Floats a(static_cast<size_t>(p.m * p.k)), b(static_cast<size_t>(p.k * p.n));
  for (int64_t m = 0; m < p.m; ++m) {
    for (int64_t k = 0; k < p.k; ++k) {
      const int exponent = static_cast<int>(random.integer(-149, m % 2 ? 60 : -60));
      a[static_cast<size_t>(m * p.k + k)] = static_cast<float>(std::ldexp(random.uniform(-2, 2), exponent));
    }
  }
  for (int64_t k = 0; k < p.k; ++k) {
    for (int64_t n = 0; n < p.n; ++n) {
      const int exponent = static_cast<int>(random.integer(n % 3 ? -149 : -20, n % 3 ? 0 : 20));
      b[static_cast<size_t>(k * p.n + n)] = static_cast<float>(std::ldexp(random.uniform(-2, 2), exponent));
    }
  }
  Sample sample = sample_of(p);
  sample.inputs = {tensor_of(a, {p.m, p.k}), tensor_of(b, {p.k, p.n})};
  const Floats c = run(sample, split_schedule(), *target_);
  for (int64_t m = 0; m < p.m; ++m) {
    for (int64_t n = 0; n < p.n; ++n) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < p.k; ++k) {
        const double product = double{a[static_cast<size_t>(m * p.k + k)]} * b[static_cast<size_t>(k * p.n + n)];
        sum += product, magnitude += std::fabs(product);
      }
      EXPECT_LE(std::fabs(c[static_cast<size_t>(m * p.n + n)] - sum), magnitude * 0x1p-22 + 0x1p-149) << m << ", " << n;
    }
  }
}

TEST_F(SplitProduct, has_maps_behind_it_and_batches) {
  for (const char* lines : {R"(
    range m 1 37 128
    input %a: f32[m, 100]
    input %b: f32[100, 70]
    input %c: f32[70]
    input %r: f32[m, 70]
    %p: ? = MatMul "product" (%a, %b)
    %s: ? = Add "bias" (%p, %c)
    %t: ? = Add "residual" (%s, %r)
    %y: ? = Tanh "tanh" (%t)
    output %y
)",
                            R"(
    input %a: f32[3, 20, 3]
    input %b: f32[3, 3, 7]
    %y: ? = MatMul "product" (%a, %b)
    output %y
)",
                            R"(
    input %a: f32[3, 4, 20, 33]
    input %b: f32[33, 130]
    %p: ? = MatMul "product" (%a, %b)
    %y: ? = Relu "relu" (%p)
    output %y
)"}) {
    const Sample sample = make_sample(lines);
    std::vector<bool> constant(sample.region.tensors.size());
    constant[static_cast<size_t>(sample.region.inputs[1])] = true;
    int tried = 0;
    for (const Choice& choice : schedule_candidates(sample.region, constant, sample.sizes, *target_)) {
      const auto contract = choice.schedule.as<tile::ContractSchedule>();
      if (!contract || !contract->unit) continue;
      check(sample, choice.schedule, *target_, choice.layouts);
      ++tried;
    }
    EXPECT_GT(tried, 0) << lines;
    for (tile::ContractSchedule schedule : {split_schedule(5), split_schedule(33)}) {
      for (const int64_t columns : {0, 128}) {
        schedule.n_chunk = columns;
        check(sample, schedule, *target_, choice_of(sample.region, constant, schedule).layouts);
      }
      schedule.n_chunk = 0, schedule.k = 32;
      check(sample, schedule, *target_, choice_of(sample.region, constant, schedule).layouts);
    }
  }
}

/// A convolution of a map whose rows are shorter than a tile, of one with longer ones, and one with strides, with taps
/// copied together or each by itself, whole or a row of taps at a time.
TEST_F(SplitProduct, convolves) {
  for (const auto& [size, channels, stride] : {std::array{7, 40, 1}, {14, 64, 1}, {21, 3, 2}, {40, 32, 2}}) {
    const int out = (size - 1) / stride + 1;
    const Sample sample = sample_of_region(fmt::format(R"(region conv
tensor x: f32[2, {0}, {0}, {1}]
tensor w: f32[40, 3, 3, {1}]
tensor b: f32[40]
tensor s: f32[2, {2}, {2}, 40]
tensor y: f32[2, {2}, {2}, 40]
input x
input w
input b
output y
reduce s over [i0 < 2, i1 < {2}, i2 < {2}, i3 < 40] fold [k0 < 3, k1 < 3, k2 < {1}] {{
  left l0: f32
  right r0: f32
  let t0 = sub(add(mul(i1, {3}), k0), 1)
  let t1 = sub(add(mul(i2, {3}), k1), 1)
  let inside = and(and(and(ge(t0, 0), lt(t0, {0})), ge(t1, 0)), lt(t1, {0}))
  lift mul(select(inside, x[i0, t0, t1, k2], 0:f32), w[i3, k0, k1, k2])
  identity 0:f32
  combine add(l0, r0)
}}
compute y over [i0 < 2, i1 < {2}, i2 < {2}, i3 < 40] {{
  value max(add(s[i0, i1, i2, i3], b[i3]), 0:f32)
}}
)", size, channels, out, stride));
    std::vector<bool> constant(sample.region.tensors.size());
    constant[static_cast<size_t>(sample.region.inputs[1])] = true;
    for (tile::ContractSchedule schedule : {split_schedule(), split_schedule(40)}) {
      for (const auto& [window, k] : {std::pair{0, 0}, {0, 1}, {1, 0}}) {
        schedule.window = window, schedule.k = k;
        check(sample, schedule, *target_, choice_of(sample.region, constant, schedule).layouts, 1e-4);
      }
    }
  }
}

TEST_F(SplitProduct, packs_weights_alike_by_kernels_and_without) {
  const tile::PanelLayout layout{.dim = 2, .lanes = 32, .keep = 1, .rest = {1}, .pack = 2, .step = 32, .parts = 3};
  Random random(11);
  const std::vector<int64_t> shape{2, 45, 37};
  Floats values(2 * 45 * 37);
  for (float& value : values) {
    value = static_cast<float>(std::ldexp(random.uniform(-1, 1), static_cast<int>(random.integer(-149, 127))));
  }
  const TensorData data = tensor_of(values, shape);
  const TensorData by_loops = tile::pack(layout, data, shape);
  EXPECT_EQ(floats_of(tile::unpack(layout, by_loops, shape)), values);
  const Region region = tile::packing_region(layout, DType::kFloat32, Shape(shape.begin(), shape.end()));
  EXPECT_EQ(tile::parse_panel_layout(tile::print(layout)), layout);
  const TensorData interpreted = packed(layout, data);
  EXPECT_EQ(std::memcmp(interpreted.bytes().data(), by_loops.bytes().data(), by_loops.byte_count()), 0);
  Region packing = region;
  normalise(packing);
  const tile::Lowered lowered = tile::lower(packing, {}, tile::NestSchedule{}, *target_);
  ASSERT_TRUE(std::holds_alternative<tile::Program>(lowered)) << std::get<std::string>(lowered);
  for (const float special : {kInf, -kMost, std::nanf(""), 0x1.234568p110F, -0.0F}) values.push_back(special);
  std::rotate(values.begin(), values.end() - 5, values.end());
  values.resize(values.size() - 5);
  const TensorData source = tensor_of(values, shape);
  const TensorData expected = tile::pack(layout, source, shape);
  TensorData by_kernel = TensorData::zeros(DType::kFloat32, by_loops.shape());
  Kernel kernel(std::get<tile::Program>(lowered), *target_);
  const std::vector<void*> buffers{const_cast<std::byte*>(source.bytes().data()), by_kernel.mutable_bytes().data()};
  EXPECT_EQ(kernel.run(buffers), 0);
  EXPECT_EQ(std::memcmp(by_kernel.bytes().data(), expected.bytes().data(), expected.byte_count()), 0);
}

TEST_F(SplitProduct, joins_what_it_splits) {
  for (const float x : {0.0F, -0.0F, 1.0F, kLeast, -kMost, kInf, 0x1.fffffep102F, 0x1.234568p-120F, 0x1.fffffep-127F}) {
    EXPECT_EQ(tile::joined_bits(tile::split_bits(x)), x);
  }
  EXPECT_TRUE(std::isnan(tile::joined_bits(tile::split_bits(std::nanf("")))));
}

}  // namespace
}  // namespace graft::codegen
