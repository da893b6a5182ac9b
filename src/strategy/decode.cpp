// SPDX-License-Identifier: Apache-2.0
#include "strategy/decode.h"

#include <algorithm>

#include "fuse/contraction.h"
#include "fuse/decoded_operand.h"
#include "strategy/contract_cost.h"
#include "strategy/panels.h"

namespace graft::tile {
namespace {

/// The only contraction of a region, in f32.
std::optional<Contraction> only_contraction(const Region& region) {
  const graft::Reduce* found = only_reduction(region);
  auto contraction = found ? find_contraction(*found) : std::nullopt;
  if (!contraction || found->lift[0]->type != DType::kFloat32) return std::nullopt;
  order_reduced_axes(*contraction);
  return contraction;
}

std::string why_not(const RegionView& view, const Target&) { return why_not_decoded(view.region, view.constant); }

/// Panels and pieces.
void candidates(const RegionView& view, const Target& target, bool, std::vector<Schedule>& schedules) {
  const Contraction contraction = *only_contraction(view.region);
  int64_t step = 1;  // products that one step of the first reduced axis makes
  for (size_t i = 1; i < contraction.k.size(); ++i) {
    step *= std::max<int64_t>(1, contraction.k[i].extent.as_constant().value_or(1));
  }
  const int64_t vector = std::max<int64_t>(1, target.vector_bits / 32);
  const int64_t tile = target.vector_registers >= 32 ? 56 : 24;
  for (const auto& [vectors, depth] : {std::pair{4, 512}, {8, 256}, {2, 512}, {4, 1024}}) {
    schedules.emplace_back(
        DecodeSchedule{.m = tile, .n = vectors * vector, .k = std::max<int64_t>(1, depth / step), .m_chunk = 4 * tile});
  }
}

double seconds(const Region& region, const Schedule&, const Bindings& typical, const Target& target) {
  return seconds_of(region, typical, target, use_of_contract(region, nullptr, typical, target));
}

/// All that a right operand of codes is made of lies in panels.
Layouts layouts(const Region& region, const std::vector<bool>& constant, const Schedule& schedule) {
  Layouts layouts(region.tensors.size());
  const graft::Reduce* reduce = only_reduction(region);
  auto contraction = reduce ? find_contraction(*reduce) : std::nullopt;
  if (!contraction || contraction->n.empty()) return layouts;
  const Expr whole = contraction->b;
  for_each(whole, [&](const Expr& e) {
    if (e->kind != ExprKind::kLoad) return;
    contraction->b = e;
    layouts[static_cast<size_t>(e->tensor)] =
        panel_layout(region, *contraction, constant, schedule.as<DecodeSchedule>()->n);
  });
  return layouts;
}

constexpr auto kFields = fields_of<DecodeSchedule>();

}  // namespace

const Strategy decode_strategy = {.name = "decode",
                                  .fields = kFields,
                                  .kind = TargetKind::kCpu,
                                  .why_not = why_not,
                                  .candidates = candidates,
                                  .seconds = seconds,
                                  .layouts = layouts,
                                  .lower = lower_as<DecodeSchedule, lower_decoded>};
const Strategy& DecodeSchedule::strategy() { return decode_strategy; }

std::string why_not_decoded(const Region& region, const std::vector<bool>& constant) {
  const auto contraction = only_contraction(region);
  if (!contraction) return "there is no contraction in f32, or more than one";
  if (!decoded_operand(*contraction)) return "the right operand is no code";
  bool known = true;
  for_each(contraction->b, [&](const Expr& e) {
    if (e->kind == ExprKind::kLoad) known = known && constant[static_cast<size_t>(e->tensor)];
  });
  return known ? "" : "the right operand is not constant";
}

}  // namespace graft::tile
