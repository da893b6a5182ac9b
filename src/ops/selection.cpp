// SPDX-License-Identifier: Apache-2.0
// Operators that choose or bound values: Where, Clip, and the variadic Min, Max, Sum, Mean.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

void define_where(Definition& d) {
  const Tensor condition = d.in(0), x = d.in(1), y = d.in(2);
  if (condition.type() != DType::kBool) d.reject("its condition is not of type bool");
  if (x.type() != y.type()) d.reject("its two values have different types");
  const Shape shape = d.broadcast(d.broadcast(condition.shape(), x.shape()), y.shape());
  d.out(0, d.compute("z", x.type(), shape, [&](const Indices& i) {
    return select(d.at(condition, i), d.at(x, i, false), d.at(y, i, false));
  }));
}

void define_clip(Definition& d) {
  const Tensor x = d.in(0);
  for (int bound = 1; bound < 3; ++bound) {
    if (d.has_input(bound) && !element_count(d.input_shape(bound)).is(1)) d.reject("its bounds should be scalars");
  }
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    Expr value = x.wide(i);
    const auto bound = [&](int input) { return d.at(d.in(input), Indices(x.rank() + 1, make_index(0))); };
    if (d.has_input(1)) value = max(value, bound(1));
    if (d.has_input(2)) value = min(value, bound(2));
    return value;
  }));
}

/// Output 0 = all inputs combined element by element; `finish` comes last.
void define_variadic(Definition& d, Intrinsic combine, const Map& finish) {
  if (d.input_count() == 0) d.reject("it has no inputs");
  Shape shape = d.in(0).shape();
  for (int k = 1; k < d.input_count(); ++k) {
    if (d.input_type(k) != d.input_type(0)) d.reject("its inputs have different types");
    shape = d.broadcast(shape, d.input_shape(k));
  }
  for (int k = 0; k < d.input_count(); ++k) d.in(k);
  Tensor before = d.in(0);
  int first = 1;
  const auto combined = [&](const Indices& i, int end) {
    Expr value = d.at(before, i);
    for (int k = first; k < end; ++k) value = make_call(combine, {value, d.at(d.in(k), i)});
    return value;
  };
  for (; d.input_count() - first >= kMostOperands; first += kMostOperands - 1) {
    const int end = first + kMostOperands - 1;
    const DType wide = compute_type(d.input_type(0));
    before = d.compute("first_" + std::to_string(end), wide, shape, [&](const Indices& i) { return combined(i, end); });
  }
  d.out(0, d.compute("y", d.input_type(0), shape,
                     [&](const Indices& i) { return finish(combined(i, d.input_count())); }));
}

Expr itself(const Expr& x) { return x; }

template <Intrinsic kIntrinsic>
void define_extreme(Definition& d) {
  define_variadic(d, kIntrinsic, itself);
}
void define_mean(Definition& d) {
  const int count = d.input_count();
  define_variadic(d, Intrinsic::kAdd, [&](const Expr& x) { return count == 1 ? x : x / make_integer(x->type, count); });
}

std::vector<Sample> where_samples() {
  return {{.name = "same_shapes", .inputs = {boolean({3, 5}), f32({3, 5}), f32({3, 5})}},
          {.name = "all_broadcast", .inputs = {boolean({4, 1}), f32({1, 6}), f32({})}},
          {.name = "integers", .inputs = {boolean({7}), i64({7}), i64({1})}},
          {.name = "half_precision", .inputs = {boolean({3, 1, 5}), f16({2, 1}), f16({5})}},
          {.name = "booleans", .inputs = {boolean({7}), boolean({7}), boolean({7})}}};
}

std::vector<Sample> clip_samples() {
  return {{.name = "both_bounds", .inputs = {f32({3, 7}), scalar(DType::kFloat32, -0.5), scalar(DType::kFloat32, 1)}},
          {.name = "bounds_of_the_run",
           .inputs = {f32({3, 7}), values(DType::kFloat32, {}, {-0.5}), values(DType::kFloat32, {}, {1})}},
          {.name = "upper_bound_only", .inputs = {f32({11}), absent(), scalar(DType::kFloat32, 0.25)}},
          {.name = "lower_bound_only", .inputs = {i64({11}), scalar(DType::kInt64, -3)}},
          {.name = "no_bounds", .inputs = {f32({2, 2})}},
          {.name = "half_precision", .inputs = {f16({9}), scalar(DType::kFloat16, 0), scalar(DType::kFloat16, 1)}}};
}

std::vector<Sample> variadic_samples() {
  return {{.name = "one_input", .inputs = {f32({3, 5})}},
          {.name = "two_inputs", .inputs = {f32({3, 5}), f32({5})}},
          {.name = "four_inputs", .inputs = {f32({3, 1}), f32({1, 5}), f32({}), f32({2, 3, 5})}},
          {.name = "half_precision", .inputs = {f16({7}), f16({7}), f16({7})}, .tolerance = 2e-3}};
}
std::vector<Sample> extreme_samples() {
  std::vector<Sample> all = variadic_samples();
  all.push_back({.name = "integers", .inputs = {i64({7}), i64({1})}});
  all.push_back({.name = "unsigned", .inputs = {of(DType::kUint64, {7}, 0, 99), of(DType::kUint64, {7}, 0, 99)}});
  return all;
}

}  // namespace

std::vector<OpDef> selection_ops() {
  const auto variadic = [](std::string_view name, void (*define)(Definition&), std::vector<Sample> (*samples)(),
                           std::string_view doc) {
    return OpDef{.domain = "", .name = name, .since = 13, .inputs = {"data*"}, .outputs = {"y"}, .attributes = {},
                 .define = define, .samples = samples, .doc = doc};
  };
  return {
      {.domain = "", .name = "Where", .since = 16, .inputs = {"condition", "x", "y"}, .outputs = {"z"},
       .attributes = {}, .define = define_where, .samples = where_samples,
        .doc = "x where the condition holds, else y."},
      {.domain = "", .name = "Clip", .since = 13, .inputs = {"x", "min?", "max?"}, .outputs = {"y"}, .attributes = {},
       .define = define_clip, .samples = clip_samples, .doc = "Each element bounded from below, then from above."},
      variadic("Min", define_extreme<Intrinsic::kMin>, extreme_samples, "The smallest of the inputs."),
      variadic("Max", define_extreme<Intrinsic::kMax>, extreme_samples, "The largest of the inputs."),
      variadic("Sum", define_extreme<Intrinsic::kAdd>, variadic_samples, "The sum of the inputs."),
      variadic("Mean", define_mean, variadic_samples, "The mean of the inputs."),
  };
}

}  // namespace graft
