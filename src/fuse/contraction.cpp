// SPDX-License-Identifier: Apache-2.0
#include "fuse/contraction.h"

#include <algorithm>

#include "expr/form_fields.h"

namespace graft {
namespace {

/// select(c, x * y, 0) -> select(c, x, 0) * y, with the guard on the operand it depends on; x * y -> x, y.
std::optional<std::pair<Expr, Expr>> factors(const Expr& lift) {
  if (is_call(lift, Intrinsic::kMul)) return std::pair(lift->args[0], lift->args[1]);
  if (!is_call(lift, Intrinsic::kSelect) || !is_call(lift->args[1], Intrinsic::kMul)) return std::nullopt;
  const Expr& otherwise = lift->args[2];
  if (otherwise->kind != ExprKind::kConstant || otherwise->real != 0 || otherwise->integer != 0) return std::nullopt;
  const Expr& product = lift->args[1];
  return std::pair(select(lift->args[0], product->args[0], otherwise), product->args[1]);
}

}  // namespace

std::optional<Contraction> find_contraction(const Reduce& reduce) {
  if (reduce.monoid.intrinsic() != Intrinsic::kAdd) return std::nullopt;
  const auto operands = factors(reduce.lift[0]);
  if (!operands || !has_load(operands->first) || !has_load(operands->second)) return std::nullopt;
  Contraction result;
  result.a = operands->first;
  result.b = operands->second;
  // The operand that varies along the last axis that only one of them uses is the one with the lanes.
  for (size_t i = reduce.axes.size(); i-- > 0;) {
    const int v = reduce.axes[i].variable->variable;
    const bool in_a = uses_variable(result.a, v), in_b = uses_variable(result.b, v);
    if (in_a == in_b) continue;
    if (in_a) std::swap(result.a, result.b);
    break;
  }
  for (const Axis& axis : reduce.axes) {
    const int v = axis.variable->variable;
    const bool in_a = uses_variable(result.a, v), in_b = uses_variable(result.b, v);
    // An axis of one point that broadcasting left behind belongs to none of them.
    if (!in_a && !in_b && !axis.extent.is(1)) return std::nullopt;
    (in_a == in_b ? result.batch : in_a ? result.m : result.n).push_back(axis);
  }
  for (const Axis& axis : reduce.reduced) {
    const int v = axis.variable->variable;
    const bool folds = uses_variable(result.a, v) && uses_variable(result.b, v);
    if (!folds && !axis.extent.is(1)) return std::nullopt;
    result.k.push_back(axis);
  }
  if (result.k.empty() || result.n.empty()) return std::nullopt;
  return result;
}

namespace {

/// How far inside a load the variable stands: the last dimension whose index uses it, -1 for none.
int depth_of(const Expr& operand, int variable) {
  int depth = -1;
  for_each(operand, [&](const Expr& node) {
    if (node->kind != ExprKind::kLoad) return;
    for (size_t d = 0; d < node->args.size(); ++d) {
      if (uses_variable(node->args[d], variable)) depth = std::max(depth, static_cast<int>(d));
    }
  });
  return depth;
}

}  // namespace

void order_reduced_axes(Contraction& contraction) {
  std::stable_sort(contraction.k.begin(), contraction.k.end(), [&](const Axis& x, const Axis& y) {
    return depth_of(contraction.a, x.variable->variable) < depth_of(contraction.a, y.variable->variable);
  });
}

Expr unwidened(const Expr& operand) {
  if (is_call(operand, Intrinsic::kCast) && bit_width(operand->args[0]->type) < bit_width(operand->type)) {
    return operand->args[0];
  }
  if (!is_call(operand, Intrinsic::kSelect)) return operand;
  const Expr& otherwise = operand->args[2];
  const Expr value = unwidened(operand->args[1]);
  const bool zero = otherwise->kind == ExprKind::kConstant && otherwise->real == 0 && otherwise->integer == 0;
  if (!zero || value->type == operand->type) return operand;
  return select(operand->args[0], value, make_constant(value->type, 0));
}

Size multiplications(const Contraction& c) {
  Size count = 1;
  for (const auto* axes : {&c.batch, &c.m, &c.n, &c.k}) {
    for (const Axis& axis : *axes) count = count * axis.extent;
  }
  return count;
}

}  // namespace graft
