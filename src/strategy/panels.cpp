// SPDX-License-Identifier: Apache-2.0
#include "strategy/panels.h"

#include <algorithm>

#include "fuse/rewrite_region.h"

namespace graft::tile {
namespace {

/// Whether the region reads the load's tensor in no other way.
bool is_read_once(const Region& region, const Expr& load) {
  bool once = !is_scatter_base(region, load->tensor);
  for (const Form& form : region.forms) {
    for_each_load(form, load->tensor, [&](const Expr& other) { once = once && equal(other, load); });
  }
  return once;
}

/// The dimension of a tensor along which the region's last common axis goes in every load of it, or -1.
int dimension_of_neighbours(const Region& region, int tensor, int variable) {
  int found = -1;
  bool everywhere = true;
  for (const Form& form : region.forms) {
    for_each_load(form, tensor, [&](const Expr& load) {
      int here = -1;
      for (size_t d = 0; d < load->args.size(); ++d) {
        const Expr& index = load->args[d];
        if (index->kind == ExprKind::kVariable && index->variable == variable)
          here = static_cast<int>(d);
        else if (uses_variable(index, variable))
          everywhere = false;
      }
      everywhere = everywhere && here >= 0 && (found < 0 || here == found);
      found = here;
    });
  }
  return everywhere ? found : -1;
}

}  // namespace

const graft::Reduce* only_reduction(const Region& region) {
  const graft::Reduce* found = nullptr;
  for (const Form& form : region.forms) {
    if (const auto* reduce = std::get_if<graft::Reduce>(&form)) {
      if (found) return nullptr;
      found = reduce;
    }
  }
  return found;
}

std::optional<PanelLayout> panel_layout(const Region& region, Contraction c, const std::vector<bool>& constant,
                                        int64_t lanes) {
  const Expr& b = c.b;
  if (b->kind != ExprKind::kLoad || !constant[b->tensor] || !is_read_once(region, b)) return std::nullopt;
  const int lane = c.n.back().variable->variable;
  PanelLayout layout{.dim = -1, .lanes = lanes, .keep = 0, .rest = {}};
  for (size_t d = 0; d < b->args.size(); ++d) {
    if (!affine(b->args[d])) return std::nullopt;
    if (!uses_variable(b->args[d], lane)) continue;
    const bool plain = b->args[d]->kind == ExprKind::kVariable && layout.dim < 0;
    if (!plain) return std::nullopt;
    layout.dim = static_cast<int>(d);
  }
  if (layout.dim < 0) return std::nullopt;
  // Leading dimensions fixed by batch axes stay outermost.
  for (const Expr& index : b->args) {
    bool batch = index->kind == ExprKind::kConstant;
    for (const graft::Axis& axis : c.batch) batch |= equal(index, axis.variable);
    if (!batch || layout.keep == layout.dim) break;
    ++layout.keep;
  }
  // The rest lies in the order in which the reduced axes run.
  order_reduced_axes(c);
  std::vector<std::pair<int, int>> rest;
  for (int d = layout.keep; d < static_cast<int>(b->args.size()); ++d) {
    if (d == layout.dim) continue;
    int rank = -1;
    for (size_t k = 0; k < c.k.size(); ++k) {
      if (uses_variable(b->args[d], c.k[k].variable->variable)) rank = static_cast<int>(k);
    }
    rest.emplace_back(rank, d);
  }
  std::stable_sort(rest.begin(), rest.end());
  for (const auto& [rank, d] : rest) layout.rest.push_back(d);
  return layout;
}

Layouts along_neighbours(const Region& region, const std::vector<bool>& constant, const Schedule&) {
  Layouts layouts(region.tensors.size());
  constexpr int64_t kMostLanes = 4096, kMostWindow = 64;
  const std::vector<graft::Axis> common = common_axes(region);
  if (common.empty()) return layouts;
  const bool folds = std::any_of(region.forms.begin(), region.forms.end(),
                                 [](const Form& form) { return std::holds_alternative<graft::Reduce>(form); });
  for (size_t t = 0; folds && t < region.tensors.size() && t < constant.size(); ++t) {
    const Shape& shape = region.tensors[t].shape;
    if (!constant[t] || shape.size() < 2 || bit_width(region.tensors[t].type) < 8) continue;
    const int d = dimension_of_neighbours(region, static_cast<int>(t), common.back().variable->variable);
    if (d < 0 || d + 1 == static_cast<int>(shape.size())) continue;
    const auto lanes = shape[static_cast<size_t>(d)].as_constant();
    if (!lanes || *lanes < 1 || *lanes > kMostLanes) continue;
    const auto elements = element_count(shape).as_constant();
    if (!elements || *elements > *lanes * kMostWindow) continue;
    PanelLayout layout{.dim = d, .lanes = *lanes, .keep = 0, .rest = {}};
    for (int other = 0; other < static_cast<int>(shape.size()); ++other) {
      if (other != d) layout.rest.push_back(other);
    }
    layouts[t] = std::move(layout);
  }
  return layouts;
}

}  // namespace graft::tile
