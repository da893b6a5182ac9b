// SPDX-License-Identifier: Apache-2.0
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;

void matmul(Conversion& c, std::string_view a, std::string_view b) {
  c.give(c.add("MatMul", {c.tensor(a), c.tensor(b)}));
}

/// input weight^T + bias.
void linear(Conversion& c) {
  const ValueId weight = c.tensor("weight"), bias = c.tensor("bias");
  const std::vector<int64_t> order = c.rank_of(weight) == 2 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0};
  const ValueId product = c.add("MatMul", {c.tensor("input"), c.add("Transpose", {weight}, {{"perm", order}})});
  c.give(bias == kNoValue ? product : c.add("Add", {product, bias}));
}

/// beta * self + alpha * mat1 mat2.
void addmm(Conversion& c) {
  ValueId product = c.add("MatMul", {c.tensor("mat1"), c.tensor("mat2")}), self = c.tensor("self");
  const double alpha = c.real("alpha"), beta = c.real("beta");
  if (alpha != 1) product = c.add("Mul", {product, c.real_constant(alpha, c.type_of(product))});
  if (beta == 0) return c.give(product);  // torch then ignores NaN in self
  if (beta != 1) self = c.add("Mul", {self, c.real_constant(beta, c.type_of(self))});
  c.give(c.add("Add", {product, self}));
}

}  // namespace

std::vector<frontend::Row> matmul_rows() {
  return {
      {"aten::matmul(Tensor self, Tensor other) -> Tensor", [](Conversion& c) { matmul(c, "self", "other"); }},
      {"aten::mm(Tensor self, Tensor mat2) -> Tensor", [](Conversion& c) { matmul(c, "self", "mat2"); }},
      {"aten::bmm(Tensor self, Tensor mat2) -> Tensor", [](Conversion& c) { matmul(c, "self", "mat2"); }},
      {"aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", linear},
      {"aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addmm},
  };
}

}  // namespace graft::aten
