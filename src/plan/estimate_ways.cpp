// SPDX-License-Identifier: Apache-2.0
#include "plan/estimate_ways.h"

#include "strategy/cost.h"
#include "strategy/strategy.h"

namespace graft {

double least_seconds(const Region& region, const Bindings& typical, const Target& target) {
  return least_seconds(region, least_work(region, typical), target);
}

double least_seconds(const Region& region, const RegionWork& work, const Target& target) {
  return least_seconds(region, work, target, peak_of(target));
}

double least_seconds(const Region& region, const RegionWork& work, const Target& target, const Peak& peak) {
  return seconds_of(work, fastest_product_peak(region, target, peak), peak, {1, 1, 1, 0});
}

double estimated_seconds(const Region& region, const Way& way, const Bindings& typical, const Target& target) {
  if (way.library.empty()) {
    const tile::Schedule schedule = tile::parse_schedule(way.schedule);
    return schedule.strategy->seconds(region, schedule, typical, target);
  }
  constexpr Use kCpuLibrary{0.4, 0.4, 1, 4e-6};
  const Use gpu_library{0.7, 0.25, 0.7, peak_of(target).start};
  return seconds_of(region, typical, target, target.kind == TargetKind::kCpu ? kCpuLibrary : gpu_library);
}

}  // namespace graft
