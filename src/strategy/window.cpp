// SPDX-License-Identifier: Apache-2.0
#include "strategy/window.h"

#include <tuple>

#include "strategy/cost.h"
#include "strategy/panels.h"

namespace graft::tile {
namespace {

std::string why_not(const RegionView& view, const Target&) { return why_no_window(view.region); }

/// Few rows, so that threads share the work, and as many as serve what they have in common.
void candidates(const RegionView&, const Target& target, bool, std::vector<Schedule>& schedules) {
  const int64_t vector = target.vector_bits / 32;
  const int64_t points = target.vector_registers >= 32 ? 14 : 7;
  for (const auto& [rows, columns, vectors] :
       {std::tuple{4, 28, 2}, {8, 28, 2}, {4, 56, 1}, {2, 28, 4}, {8, 14, 2}, {16, 28, 1}}) {
    schedules.emplace_back(
        WindowSchedule{.rows = rows, .columns = columns, .lanes = vectors * vector, .points = points});
  }
}

double seconds(const Region& region, const Schedule&, const Bindings& typical, const Target& target) {
  constexpr double kWindow = 0.3, kMaps = 0.25, kStaged = 0.3;
  return seconds_of(region, typical, target, {kWindow, kMaps, kStaged, peak_of(target).start});
}

constexpr auto kFields = fields_of<WindowSchedule>();

}  // namespace

const Strategy window_strategy = {.name = "window",
                                  .fields = kFields,
                                  .kind = TargetKind::kCpu,
                                  .is_fallback = true,
                                  .why_not = why_not,
                                  .candidates = candidates,
                                  .seconds = seconds,
                                  .layouts = along_neighbours,
                                  .lower = lower_as<WindowSchedule, lower_window>};
const Strategy& WindowSchedule::strategy() { return window_strategy; }

}  // namespace graft::tile
