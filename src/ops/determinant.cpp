// SPDX-License-Identifier: Apache-2.0
// Det: elimination with pivots, one step for each row.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

constexpr int64_t kLargest = 64;

/// The larger of two (magnitude, row) pairs, the earlier row among equals.
Monoid largest_row(DType type) {
  Monoid m;
  m.identity = {make_constant(type, -1), make_index(INT64_MAX)};
  m.left = {make_variable(type), make_variable()};
  m.right = {make_variable(type), make_variable()};
  const Expr right = gt(m.right[0], m.left[0]) || (eq(m.right[0], m.left[0]) && lt(m.right[1], m.left[1]));
  m.combine = {select(right, m.right[0], m.left[0]), select(right, m.right[1], m.left[1])};
  return m;
}

void define_det(Definition& d) {
  const Tensor x = d.in(0);
  if (x.rank() < 2) d.reject("its input should have at least two axes");
  d.require_equal(x.size(-1), x.size(-2), "its matrices are not square");
  const auto known = x.size(-1).as_constant();
  if (!known || *known > kLargest) d.unsupported("matrices whose size is open or above " + std::to_string(kLargest));
  const DType type = compute_type(x.type());
  const Shape batch(x.shape().begin(), x.shape().end() - 2);
  const auto join = [](Indices i, const Expr& row, const Expr& column) {
    i.push_back(row), i.push_back(column);
    return i;
  };
  const Expr zero = make_index(0), one = make_index(1);
  Tensor rest = x, product = d.compute("one", type, batch, [&](const Indices&) { return make_constant(type, 1); });
  for (int64_t n = *known; n > 0; --n) {
    const Tensor matrix = rest, before = product;
    const std::vector<Tensor> best =
        d.reduce("pivot", largest_row(type), batch, {n}, [&](const Indices& i, const Indices& k) {
          return std::vector<Expr>{abs(matrix.wide(join(i, k[0], zero))), k[0]};
        });
    const auto row = [&](const Indices& i) { return min(max(best[1](i), zero), make_index(n - 1)); };
    product = d.compute("product", type, batch, [&](const Indices& i) {
      const Expr factor = matrix.wide(join(i, row(i), zero));
      return before(i) * select(eq(row(i), zero), factor, -factor);
    });
    if (n == 1) break;
    Shape shape = batch;
    shape.push_back(n - 1), shape.push_back(n - 1);
    rest = d.compute("rest", type, shape, [&](const Indices& at) {
      const Indices i(at.begin(), at.end() - 2);
      const Expr p = row(i), r = at[at.size() - 2] + one, c = at.back() + one;
      // The pivot's row changes places with the first one.
      const Expr source = select(eq(r, p), zero, r);
      const Expr pivot = matrix.wide(join(i, p, zero)), scale = matrix.wide(join(i, source, zero)) / pivot;
      const Expr value = matrix.wide(join(i, source, c)) - scale * matrix.wide(join(i, p, c));
      return select(eq(pivot, make_constant(type, 0)), make_constant(type, 0), value);
    });
  }
  d.out(0, stored_as(d, "det", product, x.type()));
}

/// A matrix of zeros but for one element in each row and column, most of them of one magnitude.
std::vector<double> turned_diagonal(int64_t size) {
  std::vector<double> elements(static_cast<size_t>(size * size));
  for (int64_t row = 0; row < size; ++row) {
    elements[static_cast<size_t>(row * size + (row + 5) % size)] = row % 3 == 0 ? -2 : row % 3 == 1 ? 2 : 1;
  }
  return elements;
}

std::vector<Sample> det_samples() {
  return {{.name = "one_matrix", .inputs = {f32({5, 5})}},
          {.name = "batches", .inputs = {f32({2, 3, 3, 3})}},
          {.name = "needs_a_pivot", .inputs = {values(DType::kFloat32, {3, 3}, {0, 2, 1, 3, 0, 5, 1, 4, 0})}},
          {.name = "pivots_of_one_magnitude",
           .inputs = {values(DType::kFloat32, {3, 3}, {1, 2, 3, -1, 4, 1, 1, 1, -2})}},
          {.name = "pivots_among_zeros", .inputs = {values(DType::kFloat32, {12, 12}, turned_diagonal(12))}},
          {.name = "one_element", .inputs = {f32({4, 1, 1})}},
          {.name = "double_precision", .inputs = {of(DType::kFloat64, {4, 4})}},
          {.name = "singular", .inputs = {values(DType::kFloat32, {2, 2}, {1, 2, 2, 4})}}};
}

}  // namespace

std::vector<OpDef> determinant_ops() {
  return {{.domain = "",
           .name = "Det",
           .since = 22,
           .inputs = {"x"},
           .outputs = {"y"},
           .attributes = {},
           .define = define_det,
           .samples = det_samples,
           .doc = "The determinant of each matrix."}};
}

}  // namespace graft
