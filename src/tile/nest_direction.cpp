// SPDX-License-Identifier: Apache-2.0
#include "tile/nest_direction.h"

#include <algorithm>
#include <functional>

#include "fuse/rewrite_region.h"

namespace graft::tile {
namespace {

/// The last dimension's stride-1 variable of a load: the index is affine with coefficient 1 there.
bool contiguous_along(const ExprNode& load, int variable) {
  if (load.args.empty()) return false;
  const auto last = affine(load.args.back());
  if (!last || !last->coefficient(variable).is(1)) return false;
  for (size_t d = 0; d + 1 < load.args.size(); ++d) {
    if (uses_variable(load.args[d], variable)) return false;
  }
  return true;
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
    columns = columns || contiguous_along(load, common.back().variable->variable);
    rows = rows || (contiguous_along(load, row.variable->variable) && !is_short(row, lanes));
  });
  direction.columns = columns && !rows;
  return direction;
}

}  // namespace graft::tile
