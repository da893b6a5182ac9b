// SPDX-License-Identifier: Apache-2.0
#include "plan/roofline.h"

#include "fuse/rewrite_region.h"

namespace graft {

namespace {

/// What counts as work: not index arithmetic, tests, choices and conversions.
bool is_arithmetic(const ExprNode& node) {
  if (node.kind != ExprKind::kCall || node.type == DType::kInt64 || node.type == DType::kBool) return false;
  return node.intrinsic != Intrinsic::kSelect && node.intrinsic != Intrinsic::kCast;
}

}  // namespace

Size operations_of(const Region& region) {
  Size total = 0;
  for (const Form& form : region.forms) {
    Size points = 1;
    for (const Axis& axis : axes_of(form)) points = points * axis.extent;
    for (const Axis& axis : inner_axes_of(form)) points = points * axis.extent;
    int64_t cost = 0;
    for_each_expr(form, [&](const Expr& e) { for_each(e, [&](const Expr& node) { cost += is_arithmetic(*node); }); });
    if (std::holds_alternative<Reduce>(form)) ++cost;
    total = total + points * Size(std::max<int64_t>(1, cost));
  }
  return total;
}

Size bytes_of(const Region& region) {
  Size total = 0;
  for (const auto& tensors : {region.inputs, region.outputs}) {
    for (const int t : tensors) {
      const TensorDecl& decl = region.tensors[t];
      total = total + element_count(decl.shape) * Size(std::max(1, bit_width(decl.type) / 8));
    }
  }
  return total;
}

}  // namespace graft
