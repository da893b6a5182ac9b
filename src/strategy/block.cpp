// SPDX-License-Identifier: Apache-2.0
#include "strategy/block.h"

#include <algorithm>

#include "strategy/block_schedule.h"
#include "strategy/cost.h"
#include "strategy/panels.h"

namespace graft::tile {
namespace {

std::string why_not(const RegionView& view, const Target&) {
  if (block_schedule(view.region, view.typical)) return "";
  return "its forms have no axis in common, or one scatters, compacts or sorts rows that no block holds";
}

void candidates(const RegionView& view, const Target&, bool, std::vector<Schedule>& schedules) {
  schedules.emplace_back(*block_schedule(view.region, view.typical));
}

/// What the blocks of a GPU compute: a map that a fold reads is computed wherever the fold reads it.
RegionWork work_of_blocks(const Region& region, const Bindings& typical) {
  RegionWork work = spelled_work(region, typical);
  for (const Form& form : region.forms) {
    const auto* map = std::get_if<Compute>(&form);
    if (!map) continue;
    const RegionWork once = spelled_work(form, typical);
    double points = 0;
    for (const Form& reader : region.forms) {
      const std::vector<int> read = read_tensors(reader);
      if (!std::holds_alternative<graft::Reduce>(reader) ||
          std::find(read.begin(), read.end(), map->output) == read.end()) {
        continue;
      }
      points = std::max(points, spelled_work(reader, typical).points);
    }
    if (points > once.points) work.elements += once.elements * (points / once.points - 1);
  }
  return work;
}

/// The blocks of a GPU read rows and windows once and keep them in registers; a product among their forms reads both
/// operands for each multiplication, from caches.
double seconds(const Region& region, const Schedule&, const Bindings& typical, const Target& target) {
  constexpr double kMaps = 0.25, kMemory = 0.7;
  constexpr double kProductsInBlocks = 32;  // operations of a multiprocessor in a clock
  const Peak peak = peak_of(target);
  const double single = peak.operations / std::max(1, operations_per_clock(target.architecture, false));
  const double products = product_peak(region, target, peak);
  return seconds_of(work_of_blocks(region, typical), products, peak,
                    {kProductsInBlocks * single / products, kMaps, kMemory, peak.start});
}

constexpr auto kFields = fields_of<BlockSchedule>();

}  // namespace

const Strategy block_strategy = {.name = "block",
                                 .fields = kFields,
                                 .kind = TargetKind::kCuda,
                                 .is_fallback = true,
                                 .is_general = true,
                                 .why_not = why_not,
                                 .candidates = candidates,
                                 .seconds = seconds,
                                 .layouts = along_neighbours,
                                 .lower = lower_as<BlockSchedule, lower_block>};
const Strategy& BlockSchedule::strategy() { return block_strategy; }

}  // namespace graft::tile
