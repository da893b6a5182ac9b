// SPDX-License-Identifier: Apache-2.0
#include "strategy/product.h"

#include <algorithm>
#include <cmath>

#include "fuse/contraction.h"
#include "strategy/cost.h"
#include "strategy/panels.h"
#include "strategy/product_schedules.h"

namespace graft::tile {
namespace {

std::string why_not(const RegionView& view, const Target&) {
  const graft::Reduce* reduce = only_reduction(view.region);
  if (!reduce) return "it has no reduction, or several";
  return find_contraction(*reduce) ? "" : "its reduction is no sum of products";
}

void candidates(const RegionView& view, const Target& target, bool, std::vector<Schedule>& schedules) {
  const graft::Reduce* reduce = only_reduction(view.region);
  const Contraction contraction = *find_contraction(*reduce);
  ContractionSizes sizes = sizes_of(contraction, reduce->lift[0]->type, view.typical);
  Contraction operands = contraction;
  operands.b = unwidened(operands.b);
  sizes.is_packed = operands.n.size() == 1 && panel_layout(view.region, operands, view.constant, 32).has_value();
  add_products(schedules, view.region, contraction, sizes, view.constant, view.typical, target);
}

/// Tiles that are not filled are computed all the same, and fewer tiles than multiprocessors leave some of them idle.
Use use_of_product(const Region& region, const ProductSchedule& schedule, const Bindings& typical,
                   const Target& target) {
  constexpr double kWarps = 0.4, kRoles = 0.6, kMaps = 0.25, kMemory = 0.7;
  Use use{schedule.producers > 0 ? kRoles : kWarps, kMaps, kMemory, peak_of(target).start};
  const graft::Reduce* reduce = matrix_product(region);
  const auto contraction = reduce ? find_contraction(*reduce) : std::nullopt;
  if (!contraction) return use;
  const double rows = extent_of(contraction->m, typical), columns = extent_of(contraction->n, typical);
  const auto m = static_cast<double>(schedule.m), n = static_cast<double>(schedule.n);
  const double tiles = std::ceil(rows / m) * std::ceil(columns / n) * extent_of(contraction->batch, typical) *
                       static_cast<double>(std::max<int64_t>(1, schedule.split));
  use.products *= filled(rows, m) * filled(columns, n) * filled(tiles, std::max(1, target.multiprocessors));
  return use;
}

double seconds(const Region& region, const Schedule& schedule, const Bindings& typical, const Target& target) {
  const Use use = use_of_product(region, *schedule.as<ProductSchedule>(), typical, target);
  const Peak peak = peak_of(target);
  const double products = schedule.unit ? peak.half * schedule.unit->rate : product_peak(region, target, peak);
  return seconds_of(spelled_work(region, typical), products, peak, use);
}

/// A constant right operand lies in panels.
Layouts layouts(const Region& region, const std::vector<bool>& constant, const Schedule& given) {
  Layouts layouts(region.tensors.size());
  const ProductSchedule schedule = *given.as<ProductSchedule>();
  const graft::Reduce* reduce = schedule.panel > 0 ? only_reduction(region) : nullptr;
  auto contraction = reduce ? find_contraction(*reduce) : std::nullopt;
  if (!contraction || contraction->n.empty()) return layouts;
  contraction->b = unwidened(contraction->b);
  const auto layout = panel_layout(region, *contraction, constant, schedule.panel);
  if (layout) layouts[static_cast<size_t>(contraction->b->tensor)] = layout;
  return layouts;
}

constexpr auto kFields = fields_of<ProductSchedule>();

}  // namespace

const Strategy product_strategy = {.name = "product",
                                   .fields = kFields,
                                   .kind = TargetKind::kCuda,
                                   .names_unit = true,
                                   .why_not = why_not,
                                   .candidates = candidates,
                                   .seconds = seconds,
                                   .layouts = layouts,
                                   .lower = lower_as<ProductSchedule, lower_product>};
const Strategy& ProductSchedule::strategy() { return product_strategy; }

}  // namespace graft::tile
