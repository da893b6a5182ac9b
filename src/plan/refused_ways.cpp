// SPDX-License-Identifier: Apache-2.0
#include "plan/refused_ways.h"

#include <vector>

#include "base/log.h"

namespace graft {
namespace {

/// Of one region. What refuses this many refuses the region.
constexpr size_t kMostKernels = 8;

/// The fastest of the other ways that were measured; null where there is none. Parts are no way.
const Candidate* fastest_measured(const RegionChoice& choice, const std::set<std::string>& refused,
                                  const RegionTask& task, const Bindings& typical, const BuildOptions& options) {
  const Candidate* best = nullptr;
  for (const Candidate& lost : choice.lost) {
    if (lost.milliseconds <= 0 || refused.contains(lost.name)) continue;
    if (best && best->milliseconds <= lost.milliseconds) continue;
    if (find_way(task, lost.name, typical, options).reason.empty()) best = &lost;
  }
  return best;
}

}  // namespace

void RefusedWays::replace(RegionChoice& choice, const Candidate& failed, const std::string& key, const RegionTask& task,
                          const Bindings& typical, const BuildOptions& options) {
  std::set<std::string>& refused = refused_[key];
  refused.insert(failed.name);
  choice.way = "interpreter";
  choice.milliseconds = 0;
  if (const Candidate* measured = fastest_measured(choice, refused, task, typical, options)) {
    choice.way = measured->name;
    choice.milliseconds = measured->milliseconds;
  } else if (refused.size() <= kMostKernels) {
    for (const Way& way : ways_of(task, typical, {.generated = kMostKernels, .library = 1, .options = options})) {
      if (!way.reason.empty() || refused.contains(way.name)) continue;
      choice.way = way.name;
      break;
    }
  }
  std::erase_if(choice.lost, [&](const Candidate& lost) { return lost.name == choice.way; });
  choice.lost.push_back(failed);
  log(LogLevel::kReason, "{}: '{}' has no code ({}); taken instead: {}", choice.step, failed.name, failed.reason,
      choice.way);
}

}  // namespace graft
