// SPDX-License-Identifier: Apache-2.0
// Every transcendental intrinsic of f32 over samples of all floats, against libm in f64, in units of the last place.
#include <cmath>
#include <cstring>

#include "llvm/kernel_runner.h"

namespace graft::codegen {
namespace {

struct Function {
  Intrinsic intrinsic;
  double (*reference)(double);
  double ulp;  ///< what intrinsics.inc promises
};

const Function kFunctions[] = {
    {Intrinsic::kExp, std::exp, 2},     {Intrinsic::kExp2, std::exp2, 2},   {Intrinsic::kLog, std::log, 2},
    {Intrinsic::kLog1p, std::log1p, 2}, {Intrinsic::kExpm1, std::expm1, 2}, {Intrinsic::kErf, std::erf, 2},
    {Intrinsic::kTanh, std::tanh, 2},   {Intrinsic::kSin, std::sin, 2},     {Intrinsic::kCos, std::cos, 2},
    {Intrinsic::kTan, std::tan, 4},     {Intrinsic::kAtan, std::atan, 2},   {Intrinsic::kAsinh, std::asinh, 4},
    {Intrinsic::kSqrt, std::sqrt, 0.5},
};

/// Floats of every exponent and sign, and the special ones.
std::vector<float> samples() {
  std::vector<float> x{0.0f,  -0.0f,  1.0f,    -1.0f,  INFINITY, -INFINITY, NAN,
                       88.8f, -87.4f, -103.9f, 1e-45f, -1e-45f,  3.4e38f};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 10007) {
    const auto narrow = static_cast<uint32_t>(bits);
    float value;
    std::memcpy(&value, &narrow, 4);
    x.push_back(value);
  }
  return x;
}

/// The distance in units of the last place of the f32 nearest to `exact`.
double distance(float value, double exact) {
  if (std::isnan(exact)) return std::isnan(value) ? 0 : INFINITY;
  const auto nearest = static_cast<float>(exact);
  if (std::isinf(nearest) || std::isinf(value)) {
    if (nearest == value) return 0;
    return std::fabs(static_cast<double>(std::isinf(value) ? nearest : value)) > 3.4028234e38 ? 1 : INFINITY;
  }
  const int exponent = std::max(std::ilogb(nearest == 0 ? 1e-45f : nearest), -126);
  return std::fabs(static_cast<double>(value) - exact) / std::ldexp(1.0, exponent - 23);
}

TEST(EmitMath, keeps_the_promised_accuracy_over_all_floats) {
  auto x = samples();
  std::vector<float> y(x.size());
  const Size n = static_cast<int64_t>(x.size());
  for (const Target& target : runnable_targets()) {
    for (const Function& function : kFunctions) {
      tile::Program program =
          make_program({make_buffer("x", DType::kFloat32, {n}), make_buffer("y", DType::kFloat32, {n}, true)});
      const tile::Axis i = make_axis(n);
      tile::Map map{.axes = {i}, .condition = {}, .stores = {}, .ordered = false};
      map.stores = {
          store_to(1, {i.variable}, make_call(function.intrinsic, {make_load(0, DType::kFloat32, {i.variable})}))};
      program.body.push_back({map});
      Kernel(program, target).run({x.data(), y.data()});
      double worst = 0;
      float where = 0;
      for (size_t k = 0; k < x.size(); ++k) {
        const double d = distance(y[k], function.reference(static_cast<double>(x[k])));
        if (!(d <= worst)) {
          worst = d;
          where = x[k];
        }
      }
      EXPECT_LE(worst, function.ulp) << info(function.intrinsic).name << " at " << where << " on " << target.name;
      RecordProperty(target.name + "_" + std::string(info(function.intrinsic).name), std::to_string(worst));
      if (std::getenv("GRAFT_TEST_VERBOSE"))
        printf("%s %s %.2f at %g\n", target.name.c_str(), info(function.intrinsic).name.data(), worst,
               static_cast<double>(where));
    }
  }
}

/// The error of 1 + erf(x) is at most that of the sum: 2 ulp of erf and the rounding; it is 0 where the sum is.
TEST(EmitMath, one_and_erf_are_as_near_as_their_sum) {
  auto x = samples();
  for (int k = -600; k <= 600; ++k) x.push_back(static_cast<float>(k) / 100.0f);
  std::vector<float> y(x.size());
  const Size n = static_cast<int64_t>(x.size());
  for (const Target& target : runnable_targets()) {
    tile::Program program =
        make_program({make_buffer("x", DType::kFloat32, {n}), make_buffer("y", DType::kFloat32, {n}, true)});
    const tile::Axis i = make_axis(n);
    const Expr raised = make_constant(DType::kFloat32, 1) + erf(make_load(0, DType::kFloat32, {i.variable}));
    tile::Map map{.axes = {i}, .condition = {}, .stores = {store_to(1, {i.variable}, raised)}, .ordered = false};
    program.body.push_back({map});
    Kernel(program, target).run({x.data(), y.data()});
    for (size_t k = 0; k < x.size(); ++k) {
      const double exact = std::erfc(-static_cast<double>(x[k]));
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(y[k]));
        continue;
      }
      EXPECT_NEAR(static_cast<double>(y[k]), exact, 0x1.8p-23 * std::max(exact, 1.0)) << x[k] << " on " << target.name;
      if (x[k] < -4) {
        EXPECT_EQ(y[k], 0) << x[k];
      }
    }
  }
}

}  // namespace
}  // namespace graft::codegen
