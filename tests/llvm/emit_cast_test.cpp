// SPDX-License-Identifier: Apache-2.0
// Casts between floats, bit for bit: every narrow float that is widened, and around every point where rounding to a
// narrow float changes.
#include <cmath>
#include <cstring>

#include "base/convert.h"
#include "llvm/kernel_runner.h"

namespace graft::codegen {
namespace {

/// y[i] = x[i] as another type, by a kernel for the target; y as it lies in memory.
template <class From, class To>
std::vector<To> cast_all(std::vector<From> x, DType from, DType to, const Target& target) {
  std::vector<To> y(x.size());
  const Size n = static_cast<int64_t>(x.size());
  tile::Program program = make_program({make_buffer("x", from, {n}), make_buffer("y", to, {n}, true)});
  const tile::Axis i = make_axis(n);
  tile::Map map{.axes = {i}, .condition = {}, .stores = {}, .ordered = false};
  map.stores = {store_to(1, {i.variable}, make_cast(to, make_load(0, from, {i.variable})))};
  program.body.push_back({map});
  Kernel(program, target).run({x.data(), y.data()});
  return y;
}

/// What is halfway between neighbours of the narrow type, those themselves, and the nearest numbers of type T beside
/// each; with both signs.
template <class T>
std::vector<T> around_roundings(DType narrow) {
  std::vector<T> all{T(0), std::numeric_limits<T>::infinity(), std::numeric_limits<T>::max(),
                     std::numeric_limits<T>::min(), std::numeric_limits<T>::denorm_min()};
  for (uint64_t code = 0; code + 1 < 0x7fff; code += 7) {
    const double low = decode_float(narrow, code), high = decode_float(narrow, code + 1);
    if (!std::isfinite(high)) continue;
    for (const double at : {low, low + (high - low) / 2, high}) {
      const T value = static_cast<T>(at);
      all.insert(all.end(), {value, std::nextafter(value, T(0)), std::nextafter(value, T(1e30))});
    }
  }
  const size_t count = all.size();
  for (size_t i = 0; i < count; ++i) all.push_back(-all[i]);
  return all;
}

template <class T>
void expect_narrowed(DType from, DType to) {
  const std::vector<T> x = around_roundings<T>(to);
  for (const Target& target : runnable_targets()) {
    const std::vector<uint16_t> y = cast_all<T, uint16_t>(x, from, to, target);
    int wrong = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const auto exact = static_cast<uint16_t>(encode_float(to, static_cast<double>(x[i])));
      if (y[i] != exact && ++wrong <= 5) {
        ADD_FAILURE() << x[i] << " becomes " << y[i] << ", not " << exact << ", on " << target.name;
      }
    }
    EXPECT_EQ(wrong, 0);
    const T nan = std::numeric_limits<T>::quiet_NaN();
    EXPECT_TRUE(std::isnan(decode_float(to, cast_all<T, uint16_t>({nan}, from, to, target)[0])));
  }
}

TEST(EmitCast, rounds_single_floats_to_the_nearest_narrow_one) {
  expect_narrowed<float>(DType::kFloat32, DType::kFloat16);
  expect_narrowed<float>(DType::kFloat32, DType::kBFloat16);
}

TEST(EmitCast, rounds_double_floats_once) {
  expect_narrowed<double>(DType::kFloat64, DType::kFloat16);
  expect_narrowed<double>(DType::kFloat64, DType::kBFloat16);
}

TEST(EmitCast, widens_every_narrow_float) {
  std::vector<uint16_t> x(1 << 16);
  for (size_t code = 0; code < x.size(); ++code) x[code] = static_cast<uint16_t>(code);
  for (const DType from : {DType::kFloat16, DType::kBFloat16}) {
    for (const Target& target : runnable_targets()) {
      const std::vector<float> y = cast_all<uint16_t, float>(x, from, DType::kFloat32, target);
      int wrong = 0;
      for (size_t code = 0; code < x.size(); ++code) {
        const double exact = decode_float(from, code);
        const bool same = std::isnan(exact) ? std::isnan(y[code])
                                            : exact == static_cast<double>(y[code]) &&
                                                  std::signbit(exact) == std::signbit(y[code]);
        wrong += !same;
      }
      EXPECT_EQ(wrong, 0) << name_of(from) << " on " << target.name;
    }
  }
}

}  // namespace
}  // namespace graft::codegen
