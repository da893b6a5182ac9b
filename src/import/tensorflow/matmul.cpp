// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;

/// The last two axes exchanged.
ValueId transposed(Conversion& c, ValueId value) {
  std::vector<int64_t> order(static_cast<size_t>(c.rank_of(value)));
  if (order.size() < 2) c.refuse("an operand with fewer than two axes");
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return c.add("Transpose", {value}, {{"perm", order}});
}

std::function<void(Conversion&)> multiply(const char* a, const char* b, const char* turn_a, const char* turn_b) {
  return [=](Conversion& c) {
    ValueId left = c.tensor(a), right = c.tensor(b);
    if (kind_of(c.type_of(left)) == DTypeKind::kComplex) c.refuse("products of complex matrices");
    if (c.type_of(left) != c.type_of(right)) c.refuse("operands of different types");
    if (c.flag(turn_a)) left = transposed(c, left);
    if (c.flag(turn_b)) right = transposed(c, right);
    c.give(c.add("MatMul", {left, right}));
  };
}

void einsum(Conversion& c) {
  c.give(c.add("Einsum", c.tensors("inputs"), {{"equation", c.text("equation")}}));
}

}  // namespace

std::vector<frontend::Row> matmul_rows() {
  const auto batched = multiply("x", "y", "adj_x", "adj_y");
  return {
      {"MatMul(T:2 a, T:2 b, *, transpose_a=False, transpose_b=False)",
       multiply("a", "b", "transpose_a", "transpose_b")},
      {"BatchMatMul(T x, T y, *, adj_x=False, adj_y=False)", batched},
      {"BatchMatMulV2(T x, T y, *, adj_x=False, adj_y=False)", batched},
      {"BatchMatMulV3(Ta x, Tb y, *, Ta, Tout, adj_x=False, adj_y=False)",
       [batched](Conversion& c) {
         if (c.type("Tout") != c.type("Ta")) c.refuse("a product of another type than its operands");
         batched(c);
       }},
      {"Einsum(N*T inputs, *, equation)", einsum},
  };
}

}  // namespace graft::tensorflow
