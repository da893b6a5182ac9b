// SPDX-License-Identifier: Apache-2.0
#include "strategy/nest_direction.h"

#include <algorithm>
#include <functional>

#include "expr/addends.h"
#include "fuse/rewrite_region.h"

namespace graft::tile {
namespace {

/// Whether the load goes at most `farthest` elements on with a variable, in the tensor's last dimension alone.
bool near_along(const ExprNode& load, int variable, int64_t farthest) {
  if (load.args.empty()) return false;
  bool goes = false;
  for (const Expr& part : addends(load.args.back())) {
    if (!uses_variable(part, variable)) continue;
    const auto index = affine(part);
    const auto step = index ? index->coefficient(variable).as_constant() : std::nullopt;
    if (goes || !step || *step < 1 || *step > farthest) return false;
    goes = true;
  }
  for (size_t d = 0; goes && d + 1 < load.args.size(); ++d) goes = !uses_variable(load.args[d], variable);
  return goes;
}

bool uses(const ExprNode& load, const graft::Axis& axis) {
  return std::any_of(load.args.begin(), load.args.end(),
                     [&](const Expr& index) { return uses_variable(index, axis.variable->variable); });
}

bool is_short(const graft::Axis& row, int64_t lanes) {
  const auto extent = row.extent.as_constant();
  return extent && *extent < 2 * lanes;
}

/// Visits the loads of inputs by reductions, with the axis that each is folded along innermost.
void for_each_folded(const Region& region, const std::function<void(const ExprNode&, const graft::Axis&)>& visit) {
  for (const Form& form : region.forms) {
    const std::vector<graft::Axis> inner = inner_axes_of(form);
    if (inner.empty()) continue;
    for_each_load(form, [&](const Expr& load) {
      if (is_input(region, load->tensor)) visit(*load, inner.back());
    });
  }
}

}  // namespace

NestDirection nest_direction(const Region& region, const std::vector<graft::Axis>& common, int64_t lanes) {
  NestDirection direction;
  if (common.empty()) return direction;
  const auto count_varied = [&](const ExprNode& load) {
    return std::count_if(common.begin(), common.end(), [&](const graft::Axis& axis) { return uses(load, axis); });
  };
  std::ptrdiff_t most = 0;
  for_each_folded(region, [&](const ExprNode& load, const graft::Axis&) { most = std::max(most, count_varied(load)); });
  bool columns = false, rows = false;
  for_each_folded(region, [&](const ExprNode& load, const graft::Axis& row) {
    if (count_varied(load) < most) {
      direction.weights.insert(&load);
      return;
    }
    columns = columns || near_along(load, common.back().variable->variable, lanes > 0 ? kNearLanes : 1);
    rows = rows || (near_along(load, row.variable->variable, 1) && !is_short(row, lanes));
  });
  direction.columns = columns && !rows;
  return direction;
}

}  // namespace graft::tile
