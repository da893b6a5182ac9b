// SPDX-License-Identifier: Apache-2.0
// Softmax and its relatives along one axis.
#include <limits>

#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// The parts that the family is made of: rows along `axis`, their largest element, e^(x - largest) and its sum.
struct SoftmaxParts {
  Tensor x, largest, exponentials, sum;
  int axis = 0;
};

/// `hides`: elements of minus infinity are hidden, and a row of nothing else has exponentials of 0.
SoftmaxParts softmax_parts(Definition& d, bool hides = false) {
  SoftmaxParts p;
  p.x = d.in(0);
  p.axis = p.x.rank() == 0 ? 0 : d.axis(d.integer("axis"), p.x.rank());
  if (p.x.rank() == 0) d.unsupported("a scalar has no axis");
  const Shape rows = without_axis(p.x.shape(), p.axis);
  const Shape row = {p.x.size(p.axis)};
  const auto element = [&](const Tensor& t) {
    return [&p, t](const Indices& i, const Indices& k) { return t.wide(with_axis(i, p.axis, k[0])); };
  };
  p.largest = d.reduce("largest", Intrinsic::kMax, rows, row, element(p.x));
  p.exponentials = d.compute("exponentials", p.largest.type(), Shape(p.x.shape()), [&](const Indices& i) {
    const Expr largest = p.largest(without_axis(i, p.axis));
    return exp(p.x.wide(i) - (hides ? softmax_shift(largest) : largest));
  });
  p.sum = d.reduce("sum", Intrinsic::kAdd, rows, row, element(p.exponentials));
  return p;
}

void define_softmax(Definition& d) {
  const SoftmaxParts p = softmax_parts(d);
  d.out(0, d.compute("y", p.x.type(), Shape(p.x.shape()), [&](const Indices& i) {
    return p.exponentials(i) / p.sum(without_axis(i, p.axis));
  }));
}

/// As softmax, with weights of 0 where all is hidden.
void define_masked_softmax(Definition& d) {
  const SoftmaxParts p = softmax_parts(d, true);
  d.out(0, d.compute("y", p.x.type(), Shape(p.x.shape()), [&](const Indices& i) {
    return p.exponentials(i) / softmax_divisor(p.sum(without_axis(i, p.axis)));
  }));
}

/// x - m - log(sum(e^(x - m))): no logarithm of a quotient that may have underflowed.
void define_log_softmax(Definition& d) {
  const SoftmaxParts p = softmax_parts(d);
  d.out(0, d.compute("y", p.x.type(), Shape(p.x.shape()), [&](const Indices& i) {
    const Indices row = without_axis(i, p.axis);
    return p.x.wide(i) - p.largest(row) - log(p.sum(row));
  }));
}

/// 1 at the first largest element of each row, else 0.
void define_hardmax(Definition& d) {
  const Tensor x = d.in(0);
  const int axis = d.axis(d.integer("axis"), x.rank());
  const Shape rows = without_axis(x.shape(), axis);
  const Shape row = {x.size(axis)};
  const Tensor largest = d.reduce("largest", Intrinsic::kMax, rows, row, [&](const Indices& i, const Indices& k) {
    return x.wide(with_axis(i, axis, k[0]));
  });
  const Tensor first = d.reduce("first", Intrinsic::kMin, rows, row, [&](const Indices& i, const Indices& k) {
    return select(eq(x.wide(with_axis(i, axis, k[0])), largest(i)), k[0], make_size(row[0]));
  });
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    const DType type = compute_type(x.type());
    return select(eq(i[axis], first(without_axis(i, axis))), make_integer(type, 1), make_integer(type, 0));
  }));
}

std::vector<Sample> axis_samples() {
  const auto on = [](int64_t axis) { return Attributes{{"axis", axis}}; };
  return {{.name = "last_axis", .inputs = {f32({3, 37}, -5, 5)}},
          {.name = "first_axis", .inputs = {f32({7, 5}, -5, 5)}, .attributes = on(0)},
          {.name = "middle_axis_counted_from_the_end", .inputs = {f32({2, 5, 3}, -5, 5)}, .attributes = on(-2)},
          {.name = "large_values", .inputs = {f32({4, 9}, 900, 1000)}},
          {.name = "one_axis", .inputs = {f32({11})}, .attributes = on(0)},
          {.name = "half_precision", .inputs = {f16({3, 17}, -5, 5)}, .tolerance = 2e-3},
          {.name = "no_rows", .inputs = {f32({0, 4})}}};
}

std::vector<Sample> masked_samples() {
  const double none = -std::numeric_limits<double>::infinity();
  const std::vector<double> rows = {0.5, none, -1, none, none, none, none, none, none, 3, 2, none};
  std::vector<Sample> samples = axis_samples();
  samples.push_back({.name = "a_row_without_elements", .inputs = {values(DType::kFloat32, {3, 4}, rows)}});
  samples.push_back({.name = "columns", .inputs = {values(DType::kFloat32, {6, 2}, rows)},
                     .attributes = {{"axis", int64_t{0}}}});
  samples.push_back({.name = "not_numbers",
                     .inputs = {values(DType::kFloat32, {2, 3}, {1, std::nan(""), none, 1, 2, none})}});
  samples.push_back({.name = "infinite", .inputs = {values(DType::kFloat32, {3}, {1, -none, none})}});
  return samples;
}

OpDef row(std::string_view name, void (*define)(Definition&), std::string_view doc) {
  return {.domain = "", .name = name, .since = 13, .inputs = {"x"}, .outputs = {"y"},
          .attributes = {{"axis", int64_t{-1}}}, .define = define, .samples = axis_samples, .doc = doc};
}

}  // namespace

std::vector<OpDef> softmax_ops() {
  return {row("Softmax", define_softmax, "e^x divided by its sum along an axis."),
          row("LogSoftmax", define_log_softmax, "The logarithm of softmax along an axis."),
          row("Hardmax", define_hardmax, "1 at the first largest element along an axis, else 0."),
          {.domain = "graft", .name = "MaskedSoftmax", .since = 1, .inputs = {"x"}, .outputs = {"y"},
           .attributes = {{"axis", int64_t{-1}}}, .define = define_masked_softmax, .samples = masked_samples,
           .doc = "Softmax along an axis, and 0 in rows that are minus infinity throughout."}};
}

}  // namespace graft
