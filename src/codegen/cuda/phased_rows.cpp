// SPDX-License-Identifier: Apache-2.0
// Rows that repeat, as those of enlarged images do: a thread makes all rows of a period, so that their weights are
// constants too, and what they read alike is loaded once.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"
#include "tile/enlarged_maps.h"

namespace graft::cuda {
namespace {

constexpr int kWhole = 16;  // bytes of a piece

}  // namespace

/// The map over groups of rows, with a store for each row of a group; nothing where rows have nothing in common.
std::optional<tile::Map> KernelWriter::phased_rows(const tile::Map& map, int vector) const {
  if (map.axes.size() < 2 || map.condition || !only_sets(map)) return std::nullopt;
  const size_t number = map.axes.size() - 2;
  const tile::Axis& rows = map.axes[number];
  int64_t period = 1;
  for (const tile::Store& store : map.stores) {
    const int64_t own = tile::period_of(store.value, rows.variable->variable);
    period = std::lcm(period, own);
  }
  const bool whole = period > 1 && period <= tile::kMostPhases && is_whole(rows.extent, static_cast<int>(period));
  if (!whole || bound_of(rows) % period != 0) return std::nullopt;
  tile::Map groups{.axes = map.axes, .condition = {}, .stores = {}};
  const auto extent = as_integer(rows.extent);
  groups.axes[number] = {make_variable(),
                         extent ? make_index(*extent / period) : floor_div(rows.extent, make_index(period)),
                         rows.bound / period};
  for (int64_t row = 0; row < period; ++row) {
    const Expr here = groups.axes[number].variable * make_index(period) + make_index(row);
    const auto at_row = [&](const Expr& e) { return substitute(e, {{rows.variable->variable, here}}); };
    for (tile::Store store : map.stores) {
      for (Expr& index : store.indices) index = at_row(index);
      store.value = at_row(store.value);
      groups.stores.push_back(std::move(store));
    }
  }
  return has_phases(groups, vector) ? std::optional(std::move(groups)) : std::nullopt;
}

/// map -> pieces whose elements have expressions of their own, of several rows where those repeat; single points where
/// tensors are not aligned
void KernelWriter::phased_map(const tile::Map& map, const std::vector<std::string>& extents, int vector,
                              const std::vector<PointAccess>& accesses) {
  const tile::Axis& last = map.axes.back();
  auto groups = vector * bytes_of_narrowest(accesses) >= kWhole ? phased_rows(map, vector) : std::nullopt;
  std::vector<PointAccess> wide = accesses;
  std::vector<std::string> wide_extents = extents;
  if (groups) {
    wide = all_accesses(*groups);
    const size_t rows = map.axes.size() - 2, period = groups->stores.size() / map.stores.size();
    wide_extents[rows] = fmt::format("({} / {})", extents[rows], period);
    if (widest_piece(last, wide) != vector) groups.reset(), wide = accesses, wide_extents = extents;
  }
  const tile::Map& pieces = groups ? *groups : map;
  std::vector<std::string> conditions = alignment_of(plan_phases(pieces, vector, wide).neighbours);
  if (const std::string whole = wide_condition(last, wide, vector); !whole.empty()) conditions.push_back(whole);
  if (!conditions.empty()) code_.open(fmt::format("if ({})", all_of(conditions)));
  expressions_.enter();
  dealt_points(pieces, wide_extents, vector, wide);
  expressions_.leave();
  if (conditions.empty()) return;
  code_.close();
  code_.open("else");
  std::vector<PointAccess> single = accesses;
  for (PointAccess& access : single) access.wide = false;
  const bool sized = std::all_of(accesses.begin(), accesses.end(), [&](const PointAccess& access) {
    const std::vector<Size>& strides = names_.buffer(access.buffer).strides;
    return std::all_of(strides.begin(), strides.end(), [](const Size& stride) { return stride.is_constant(); });
  });
  expressions_.enter();
  dealt_points(map, extents, 1, single, sized && is_whole(last.extent, vector));
  expressions_.leave();
  code_.close();
}

}  // namespace graft::cuda
