// SPDX-License-Identifier: Apache-2.0
// Maps whose points share the places that they read at: near ones, which a load and a permutation get, and far ones.
#include "expr/evaluate.h"
#include "llvm/kernel_runner.h"

namespace graft::codegen {
namespace {

/// The element of a row of `length` that place `w` of the result takes.
using Source = std::function<Expr(const Expr& w, int64_t length)>;

/// An index of one variable where that is `value`.
int64_t value_of(const Expr& e, int64_t value) {
  if (e->kind == ExprKind::kVariable) return value;
  if (e->kind == ExprKind::kConstant) return e->integer;
  std::vector<Scalar> args;
  for (const Expr& arg : e->args) args.push_back({.real = 0, .integer = value_of(arg, value)});
  return evaluate_scalar(e->intrinsic, DType::kInt64, DType::kInt64, args).integer;
}

/// y[c, w] = x[c, source(w)] + 1 over `channels` rows, for elements of `T`.
template <class T>
void expect_taken(const Target& target, DType type, int64_t length, int64_t width, const Source& source) {
  const int64_t channels = 5;
  tile::Program program =
      make_program({make_buffer("x", type, {channels, length}), make_buffer("y", type, {channels, width}, true)});
  const tile::Axis c = make_axis(channels), w = make_axis(width);
  const Expr place = source(w.variable, length);
  tile::Map map{.axes = {c, w}, .condition = {}, .stores = {}, .ordered = false};
  const Expr element = make_load(0, type, {c.variable, place});
  map.stores.push_back(store_to(1, {c.variable, w.variable}, make_cast(type, element)));
  program.body.push_back({map});
  Kernel kernel(program, target);
  // The row ends where memory does, as far as a test can say: what lies behind it must not be asked for.
  std::vector<T> x(static_cast<size_t>(channels * length)), y(static_cast<size_t>(channels * width) + 64, T(7));
  for (size_t n = 0; n < x.size(); ++n) x[n] = static_cast<T>(n % 119);
  ASSERT_EQ(kernel.run({x.data(), y.data()}), 0);
  for (int64_t n = 0; n < channels * width; ++n) {
    const int64_t from = value_of(place, n % width);
    ASSERT_EQ(y[static_cast<size_t>(n)], x[static_cast<size_t>(n / width * length + from)])
        << target.name << ": " << length << " to " << width << " at " << n;
  }
  for (size_t n = y.size() - 64; n < y.size(); ++n) ASSERT_EQ(y[n], T(7)) << "wrote past the end";
}

void expect_taken_by_every_type(const Target& target, int64_t length, int64_t width, const Source& source) {
  expect_taken<float>(target, DType::kFloat32, length, width, source);
  expect_taken<uint8_t>(target, DType::kUint8, length, width, source);
  expect_taken<int16_t>(target, DType::kInt16, length, width, source);
  expect_taken<int64_t>(target, DType::kInt64, length, width, source);
}

TEST(EmitWindow, rows_are_made_longer_and_shorter) {
  const Source scaled = [](const Expr& w, int64_t length) {
    return min(max(floor_div(w * make_index(3), make_index(7)), make_index(0)), make_index(length - 1));
  };
  const Source doubled = [](const Expr& w, int64_t) { return floor_div(w, make_index(2)); };
  const Source spread = [](const Expr& w, int64_t length) {
    return min(floor_div(w * make_index(9), make_index(2)), make_index(length - 1));
  };
  for (const Target& target : runnable_targets()) {
    for (const int64_t length : {1, 8, 16, 20, 33}) {
      expect_taken_by_every_type(target, length, 2 * length, doubled);
      expect_taken_by_every_type(target, length, 2 * length + 5, scaled);
      expect_taken_by_every_type(target, length, length, spread);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(EmitWindow, rows_run_backwards_at_their_borders) {
  const Source reflected = [](const Expr& w, int64_t length) {
    const Expr last = make_index(length - 1);
    return last - abs(last - abs(w - make_index(3)));
  };
  for (const Target& target : runnable_targets()) {
    for (const int64_t length : {8, 17, 40}) {
      expect_taken_by_every_type(target, length, length + 6, reflected);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(EmitWindow, places_may_be_data_near_or_far) {
  for (const Target& target : runnable_targets()) {
    const int64_t channels = 9, length = 100, width = 70;
    tile::Program program =
        make_program({make_buffer("x", DType::kFloat32, {channels, length}), make_buffer("at", DType::kInt64, {width}),
                      make_buffer("y", DType::kFloat32, {channels, width}, true)});
    const tile::Axis c = make_axis(channels), w = make_axis(width);
    const Expr place = check_index(make_load(1, DType::kInt64, {w.variable}), make_index(length));
    tile::Map map{.axes = {c, w}, .condition = {}, .stores = {}, .ordered = false};
    map.stores.push_back(store_to(2, {c.variable, w.variable}, make_load(0, DType::kFloat32, {c.variable, place})));
    program.body.push_back({map});
    Kernel kernel(program, target);
    std::vector<float> x(static_cast<size_t>(channels * length)), y(static_cast<size_t>(channels * width));
    for (size_t n = 0; n < x.size(); ++n) x[n] = static_cast<float>(n);
    std::vector<int64_t> at(static_cast<size_t>(width));
    for (size_t n = 0; n < at.size(); ++n) at[n] = static_cast<int64_t>(n < 32 ? n / 3 : n * 31 % 100);
    ASSERT_EQ(kernel.run({x.data(), at.data(), y.data()}), 0);
    for (size_t n = 0; n < y.size(); ++n) {
      ASSERT_EQ(y[n], x[n / width * length + static_cast<size_t>(at[n % width])]) << target.name << " " << n;
    }
    at[69] = length;
    EXPECT_NE(kernel.run({x.data(), at.data(), y.data()}), 0) << "a place outside ends the run";
    EXPECT_EQ(kernel.value, length);
  }
}

}  // namespace
}  // namespace graft::codegen
