// SPDX-License-Identifier: Apache-2.0
#include "strategy/map_tile.h"

#include <algorithm>

#include "expr/addends.h"
namespace graft::tile {
namespace {

constexpr int64_t kLineBits = 512;      // of a cache line, which all processors share
constexpr int64_t kSharedPoints = 8;    // for which places are computed once; fitted on bench ops, Ice Lake, 2026-11
constexpr int64_t kFewParts = 4;        // of a last axis, which are mixed in registers,
constexpr int64_t kMixedPoints = 1024;  // of so many neighbours
constexpr int64_t kFewPoints = 4;       // that are not worth it where another axis has more

void for_each_map_load(const Region& region, const std::function<void(const Expr&)>& visit) {
  for (const Form& form : region.forms) for_each_load(form, visit);
}

/// The axis that the load goes to the next element along, and no further; -1 where there is none.
int contiguous_variable(const ExprNode& load) {
  if (load.args.empty()) return -1;
  for (const Expr& part : addends(load.args.back())) {
    if (part->kind != ExprKind::kVariable) continue;
    int uses = 0;
    for (const Expr& index : load.args) {
      for (const Expr& other : addends(index)) uses += uses_variable(other, part->variable) ? 1 : 0;
    }
    if (uses == 1) return part->variable;
  }
  return -1;
}

std::optional<MapTile> transposed_tile(const Region& region, const std::vector<graft::Axis>& common, const Axis& last) {
  std::optional<MapTile> found;
  for_each_map_load(region, [&](const Expr& load) {
    const int variable = contiguous_variable(*load);
    const bool reads_last = std::any_of(load->args.begin(), load->args.end(), [&](const Expr& index) {
      return uses_variable(index, last.variable->variable);
    });
    const bool is_common = std::any_of(common.begin(), common.end(),
                                       [&](const Axis& axis) { return axis.variable->variable == variable; });
    if (found || variable == last.variable->variable || !is_common || !reads_last) return;
    const bool few = last.extent.as_constant().value_or(kFewParts + 1) <= kFewParts;
    found = MapTile{variable, few ? kMixedPoints : kLineBits / std::max(8, bit_width(load->type))};
  });
  return found;
}

/// Indices that are no sums of multiples of axes.
std::vector<Expr> computed_places(const Region& region) {
  std::vector<Expr> places;
  for_each_map_load(region, [&](const Expr& load) {
    for (const Expr& index : load->args) {
      if (!affine(index)) places.push_back(index);
    }
  });
  return places;
}

std::optional<MapTile> sharing_tile(const Region& region, const std::vector<graft::Axis>& common,
                                    const Axis& last_axis) {
  const int last = last_axis.variable->variable;
  const std::vector<Expr> places = computed_places(region);
  const auto depends = [&](const Axis& axis, bool along_last) {
    return std::any_of(places.begin(), places.end(), [&](const Expr& place) {
      return uses_variable(place, axis.variable->variable) && (!along_last || uses_variable(place, last));
    });
  };
  if (!depends(last_axis, false)) return std::nullopt;
  std::optional<MapTile> best, second;
  for (size_t n = common.size(); n-- > 0;) {
    const Axis& axis = common[n];
    if (axis.variable->variable == last || depends(axis, true)) continue;
    const auto extent = axis.extent.as_constant();
    const bool few = extent && *extent < kFewPoints;
    auto& place = !few && !depends(axis, false) ? best : second;
    if (!place) place = MapTile{axis.variable->variable, kSharedPoints};
  }
  return best ? best : second;
}

}  // namespace

std::optional<MapTile> map_tile(const Region& region, const std::vector<graft::Axis>& common, const graft::Axis& last) {
  if (const auto tile = transposed_tile(region, common, last)) return tile;
  return sharing_tile(region, common, last);
}

}  // namespace graft::tile
