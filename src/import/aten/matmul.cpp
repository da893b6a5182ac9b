// SPDX-License-Identifier: Apache-2.0
#include "import/aten/matmul.h"

#include <cmath>

#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {

ValueId linear(frontend::Conversion& c, ValueId x, ValueId weight, ValueId bias) {
  const std::vector<int64_t> order = c.rank_of(weight) == 2 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0};
  const ValueId product = c.add("MatMul", {x, c.add("Transpose", {weight}, {{"perm", order}})});
  return bias == kNoValue ? product : c.add("Add", {product, bias});
}

namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

Build product(std::string_view a, std::string_view b) {
  return [=](Conversion& c) { c.give(c.add("MatMul", {c.tensor(a), c.tensor(b)})); };
}

void linear_row(Conversion& c) { c.give(linear(c, c.tensor("input"), c.tensor("weight"), c.tensor("bias"))); }

/// beta * self + alpha * a b.
Build added(std::string_view a, std::string_view b) {
  return [=](Conversion& c) {
    ValueId product = c.add("MatMul", {c.tensor(a), c.tensor(b)}), self = c.tensor("self");
    const double alpha = c.real("alpha"), beta = c.real("beta");
    if (alpha != 1) product = c.add("Mul", {product, number(c, alpha, product)});
    if (beta == 0) return c.give(product);  // torch then ignores NaN in self
    if (beta != 1) self = c.add("Mul", {self, number(c, beta, self)});
    c.give(c.add("Add", {product, self}));
  };
}

void outer(Conversion& c) {
  const ValueId column = c.add("Unsqueeze", {c.tensor("self"), c.integers_constant({1})});
  c.give(c.add("Mul", {column, c.tensor("vec2")}));
}

void einsum(Conversion& c) {
  c.give(c.add("Einsum", c.tensors("tensors"), {{"equation", c.text("equation")}}));
}

/// The p-th root of the sum of |a - b|^p over the last axis.
ValueId distance(Conversion& c, ValueId a, ValueId b) {
  const ValueId way = c.add("Abs", {c.add("Sub", {a, b})}), axis = c.integers_constant({-1});
  const double p = c.real("p");
  const auto over = [&](std::string_view op, ValueId x) { return c.add(op, {x, axis}, {{"keepdims", int64_t{0}}}); };
  if (p == 1) return over("ReduceSum", way);
  if (p == 2) return over("ReduceL2", way);
  if (std::isinf(p)) return over("ReduceMax", way);
  if (p == 0) return over("ReduceSum", c.cast(c.cast(way, DType::kBool), c.type_of(way)));
  return c.add("Pow", {over("ReduceSum", c.add("Pow", {way, number(c, p, way)})), number(c, 1 / p, way)});
}

/// Of each row of one to each of the other.
void distances(Conversion& c) {
  c.give(distance(c, c.add("Unsqueeze", {c.tensor("x1"), c.integers_constant({-2})}),
                  c.add("Unsqueeze", {c.tensor("x2"), c.integers_constant({-3})})));
}

/// Of each row to each behind it.
void distances_within(Conversion& c) {
  const ValueId self = c.tensor("self");
  const auto count = c.size_of(self, 0).as_constant();
  constexpr int64_t kMost = 4096;  // their pairs are constants
  if (!count || *count > kMost) c.refuse("a number of rows that is large, or known only while running");
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < *count; ++i) {
    for (int64_t j = i + 1; j < *count; ++j) first.push_back(i), second.push_back(j);
  }
  c.give(distance(c, c.add("Gather", {self, c.integers_constant(first)}, {{"axis", int64_t{0}}}),
                  c.add("Gather", {self, c.integers_constant(second)}, {{"axis", int64_t{0}}})));
}

}  // namespace

std::vector<Row> matmul_rows() {
  return {
      {"aten::matmul linalg_matmul(Tensor self, Tensor other) -> Tensor", product("self", "other")},
      {"aten::mm bmm(Tensor self, Tensor mat2) -> Tensor", product("self", "mat2")},
      {"aten::mv(Tensor self, Tensor vec) -> Tensor", product("self", "vec")},
      {"aten::dot(Tensor self, Tensor tensor) -> Tensor", product("self", "tensor")},
      {"aten::vdot(Tensor self, Tensor other) -> Tensor", product("self", "other")},
      {"aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", linear_row},
      {"aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
       added("mat1", "mat2")},
      {"aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
       added("batch1", "batch2")},
      {"aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
       added("mat", "vec")},
      {"aten::outer ger(Tensor self, Tensor vec2) -> Tensor", outer},
      {"aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", einsum},
      {"aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor", distances},
      {"aten::_pdist_forward(Tensor self, float p=2) -> Tensor", distances_within},
      {"aten::cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor", distances},
  };
}

}  // namespace graft::aten
