// SPDX-License-Identifier: Apache-2.0
#include "tile/guard_empty.h"

#include <variant>

namespace graft::tile {
namespace {

/// Adds the checks against sizes of the run that are in an index; loads inside guard themselves.
void find_checks(const Expr& index, std::vector<Expr>& checks) {
  if (index->kind != ExprKind::kCall) return;
  if (index->intrinsic == Intrinsic::kCheckIndex && !as_integer(index->args[1])) checks.push_back(index);
  for (const Expr& arg : index->args) find_checks(arg, checks);
}

/// Whether all indices are those of an element; null where they always are, checked as they are.
Expr exists(const std::vector<Expr>& indices) {
  std::vector<Expr> checks;
  for (const Expr& index : indices) find_checks(index, checks);
  Expr all;
  for (const Expr& check : checks) {
    const Expr holds = lt(check, check->args[1]);
    all = all ? all && holds : holds;
  }
  return all;
}

Expr guarded(const Expr& node) {
  if (node->kind != ExprKind::kLoad) return {};
  const Expr condition = exists(node->args);
  return condition ? select(condition, node, make_constant(node->type, 0)) : Expr();
}

}  // namespace

Region guard_empty(const Region& region) {
  Region result = region;
  for (Form& form : result.forms) {
    form = map_exprs(form, [](const Expr& e) { return transform(e, guarded); });
    auto* scatter = std::get_if<Scatter>(&form);
    const Expr condition = scatter ? exists(scatter->indices) : Expr();
    if (!condition) continue;
    scatter->condition = scatter->condition
                             ? select(scatter->condition, condition, make_integer(DType::kBool, 0))
                             : condition;
  }
  return result;
}

}  // namespace graft::tile
