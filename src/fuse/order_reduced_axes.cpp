// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "fuse/contraction.h"
#include "fuse/rewrite_region.h"

namespace graft {
namespace {

/// The dimension of the load that each of the axes alone runs through, or nothing when some axis runs through none, or
/// through one that another axis runs through too.
std::optional<std::vector<size_t>> dimensions_of(const Expr& load, const std::vector<Axis>& axes) {
  std::vector<size_t> dimensions;
  for (const Axis& axis : axes) {
    std::optional<size_t> found;
    for (size_t d = 0; d < load->args.size(); ++d) {
      if (!uses_variable(load->args[d], axis.variable->variable)) continue;
      if (found) return std::nullopt;
      found = d;
    }
    if (!found || std::find(dimensions.begin(), dimensions.end(), *found) != dimensions.end()) return std::nullopt;
    dimensions.push_back(*found);
  }
  return dimensions;
}

/// The dimensions by the first load of the lift that all of the axes run through.
std::optional<std::vector<size_t>> dimensions_in(const Expr& lift, const std::vector<Axis>& axes) {
  std::optional<std::vector<size_t>> found;
  for_each(lift, [&](const Expr& node) {
    if (!found && node->kind == ExprKind::kLoad) found = dimensions_of(node, axes);
  });
  return found;
}

}  // namespace

void order_reduced_axes(Region& region) {
  for (Form& form : region.forms) {
    auto* reduce = std::get_if<Reduce>(&form);
    // A tuple of states, such as of the first largest element, may depend on the order.
    if (!reduce || reduce->reduced.size() < 2 || !reduce->monoid.intrinsic() || find_contraction(*reduce)) continue;
    const auto dimensions = dimensions_in(reduce->lift[0], reduce->reduced);
    if (!dimensions || std::is_sorted(dimensions->begin(), dimensions->end())) continue;
    std::vector<std::pair<size_t, Axis>> axes;
    for (size_t i = 0; i < dimensions->size(); ++i) axes.emplace_back((*dimensions)[i], reduce->reduced[i]);
    std::sort(axes.begin(), axes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < axes.size(); ++i) reduce->reduced[i] = axes[i].second;
  }
}

}  // namespace graft
