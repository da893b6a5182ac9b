// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// The last two axes exchanged.
ValueId transposed(Conversion& c, ValueId value) {
  std::vector<int64_t> order(static_cast<size_t>(c.rank_of(value)));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return c.add("Transpose", {value}, {{"perm", order}});
}

/// data weight^T + bias; data becomes a matrix first, unless its axes are to stay.
void fully_connected(Conversion& c) {
  ValueId data = c.tensor("data");
  const ValueId weight = c.tensor("weight");
  if (c.rank_of(weight) != 2) c.refuse("a weight that is no matrix");
  if (flag(c, "flatten") && c.rank_of(data) != 2) data = c.add("Flatten", {data}, {{"axis", int64_t{1}}});
  const ValueId product = c.add("MatMul", {data, transposed(c, weight)});
  c.give(flag(c, "no_bias") ? product : c.add("Add", {product, c.tensor("bias")}));
}

/// The last axis of the one with the first of the other.
void dot(Conversion& c) {
  ValueId a = c.tensor("lhs"), b = c.tensor("rhs");
  const bool turn_a = flag(c, "transpose_a"), turn_b = flag(c, "transpose_b");
  if (c.rank_of(b) > 2 || c.rank_of(a) < 1 || c.rank_of(b) < 1) c.refuse("a second operand of more than two axes");
  if ((turn_a && c.rank_of(a) != 2) || (turn_b && c.rank_of(b) != 2)) {
    c.refuse("a transposed operand that is no matrix");
  }
  if (turn_a) a = transposed(c, a);
  if (turn_b) b = transposed(c, b);
  const ValueId product = c.add("MatMul", {a, b});
  const bool number = c.rank_of(product) == 0;  // which in MXNet has one axis
  c.give(number ? c.add("Reshape", {product, c.integers_constant({1})}) : product);
}

void batch_dot(Conversion& c) {
  ValueId a = c.tensor("lhs"), b = c.tensor("rhs");
  if (c.rank_of(a) != c.rank_of(b) || c.rank_of(a) < 3) c.refuse("operands that are no batches of matrices");
  if (flag(c, "transpose_a")) a = transposed(c, a);
  if (flag(c, "transpose_b")) b = transposed(c, b);
  c.give(c.add("MatMul", {a, b}));
}

/// alpha A B + beta C, of batches of matrices.
void gemm(Conversion& c, bool adds) {
  ValueId a = c.tensor("A"), b = c.tensor("B");
  if (integer(c, "axis") != -2) c.refuse("matrices of other axes than the last two");
  if (c.rank_of(a) != c.rank_of(b) || c.rank_of(a) < 2) c.refuse("operands of different ranks");
  if (flag(c, "transpose_a")) a = transposed(c, a);
  if (flag(c, "transpose_b")) b = transposed(c, b);
  const auto scaled = [&](ValueId value, double factor) {
    return factor == 1 ? value : c.add("Mul", {value, c.real_constant(factor, c.type_of(value))});
  };
  const ValueId product = scaled(c.add("MatMul", {a, b}), real(c, "alpha"));
  c.give(adds ? c.add("Add", {product, scaled(c.tensor("C"), real(c, "beta"))}) : product);
}

/// alpha A A^T, or alpha A^T A.
void syrk(Conversion& c) {
  const ValueId a = c.tensor("A");
  if (c.rank_of(a) < 2) c.refuse("an operand that is no matrix");
  const ValueId turned = transposed(c, a);
  const ValueId product = flag(c, "transpose") ? c.add("MatMul", {turned, a}) : c.add("MatMul", {a, turned});
  c.give(c.add("Mul", {product, c.real_constant(real(c, "alpha"), c.type_of(a))}));
}

}  // namespace

std::vector<Row> matmul_rows() {
  return {
      {"FullyConnected", "data, weight, bias=None, num_hidden=0, no_bias=False, flatten=True", fully_connected},
      {"dot", "lhs, rhs, transpose_a=False, transpose_b=False, forward_stype=None", dot},
      {"_linalg_gemm linalg_gemm", "A, B, C, transpose_a=False, transpose_b=False, alpha=1, beta=1, axis=-2",
       [](Conversion& c) { gemm(c, true); }},
      {"_linalg_gemm2 linalg_gemm2", "A, B, transpose_a=False, transpose_b=False, alpha=1, axis=-2",
       [](Conversion& c) { gemm(c, false); }},
      {"_linalg_syrk linalg_syrk", "A, transpose=False, alpha=1", syrk},
      {"batch_dot _npx_batch_dot", "lhs, rhs, transpose_a=False, transpose_b=False, forward_stype=None", batch_dot},
  };
}

}  // namespace graft::mxnet
