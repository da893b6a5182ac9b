// SPDX-License-Identifier: Apache-2.0
#include "fuse/gathered_columns.h"

#include "fuse/contraction.h"

namespace graft {
namespace {

bool is_variable_of(const Expr& e, const Axis& axis) {
  return e->kind == ExprKind::kVariable && e->variable == axis.variable->variable;
}

}  // namespace

std::optional<GatheredColumns> gathered_columns(const Reduce& product, const Compute& map, const std::set<int>& along,
                                                const std::set<int>& gathered) {
  if (map.axes.empty() || map.axes.size() != product.axes.size()) return std::nullopt;
  const Axis& column = map.axes.back();
  const auto extent = column.extent.as_constant(), all = product.axes.back().extent.as_constant();
  if (!extent || !all || *extent < 1 || *all <= *extent || *all % *extent != 0) return std::nullopt;
  for (size_t i = 0; i + 1 < map.axes.size(); ++i) {
    if (!(map.axes[i].extent == product.axes[i].extent)) return std::nullopt;
  }
  bool reads = false, fits = true;
  for_each(map.value, [&](const Expr& node) {
    if (node->kind != ExprKind::kLoad) return;
    const bool is_along = along.contains(node->tensor);
    if (!is_along && !gathered.contains(node->tensor)) return;
    reads = true;
    for (size_t i = 0; i + 1 < node->args.size(); ++i) fits = fits && is_variable_of(node->args[i], map.axes[i]);
    if (!is_along) {
      fits = fits && is_variable_of(node->args.back(), column);
      return;
    }
    const auto index = affine(node->args.back());
    const auto offset = index ? index->offset.as_constant() : std::nullopt;
    fits = fits && offset && *offset >= 0 && *offset < *all && *offset % *extent == 0 &&
           index->coefficients.size() == 1 && index->coefficient(column.variable->variable).is(1);
  });
  if (!reads || !fits) return std::nullopt;
  return GatheredColumns{.parts = *all / *extent, .extent = *extent};
}

std::optional<GatheredColumns> gathered_columns(const Region& region) {
  const Reduce* product = nullptr;
  std::set<int> along, gathered;
  for (const Form& form : region.forms) {
    if (const auto* reduce = std::get_if<Reduce>(&form)) {
      if (product || !find_contraction(*reduce)) return std::nullopt;
      product = reduce;
      along.insert(reduce->outputs[0]);
      continue;
    }
    const auto* map = std::get_if<Compute>(&form);
    if (!product || !map) return std::nullopt;
    if (const auto columns = gathered_columns(*product, *map, along, gathered)) return columns;
    along.insert(map->output);
  }
  return std::nullopt;
}

}  // namespace graft
