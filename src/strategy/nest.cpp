// SPDX-License-Identifier: Apache-2.0
#include "strategy/nest.h"

#include <algorithm>

#include "strategy/cost.h"
#include "strategy/estimate_nest.h"
#include "strategy/panels.h"

namespace graft::tile {
namespace {

std::string why_not(const RegionView&, const Target&) { return ""; }

void candidates(const RegionView&, const Target&, bool is_first, std::vector<Schedule>& schedules) {
  schedules.emplace_back(NestSchedule{});
  if (!is_first) return;
  schedules.emplace_back(NestSchedule{.chunk = 1024, .lanes = 16});
  schedules.emplace_back(NestSchedule{.chunk = 16384, .lanes = 128});
}

/// A GPU reaches little of its peaks by threads that do not share; a CPU's nest is counted form by form.
double seconds(const Region& region, const Schedule&, const Bindings& typical, const Target& target) {
  const Peak peak = peak_of(target);
  constexpr double kOfGpu = 0.02;
  if (target.kind == TargetKind::kCuda) {
    return seconds_of(region, typical, target, {kOfGpu, kOfGpu, kOfGpu, peak.start});
  }
  const double arithmetic = nest_thread_seconds(region, typical, target) / std::max(1, target.threads);
  return peak.start + std::max(arithmetic, spelled_work(region, typical).bytes / peak.bytes);
}

constexpr auto kFields = fields_of<NestSchedule>();

}  // namespace

const Strategy nest_strategy = {.name = "nest",
                                .fields = kFields,
                                .is_general = true,
                                .why_not = why_not,
                                .candidates = candidates,
                                .seconds = seconds,
                                .layouts = along_neighbours,
                                .lower = lower_as<NestSchedule, lower_nest>};
const Strategy& NestSchedule::strategy() { return nest_strategy; }

}  // namespace graft::tile
