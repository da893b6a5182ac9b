// SPDX-License-Identifier: Apache-2.0
#include "strategy/choose_schedule.h"

#include <algorithm>

namespace graft {

Choice choice_of(const Region& region, const std::vector<bool>& constant, const tile::Schedule& schedule) {
  return {schedule, schedule.strategy->layouts(region, constant, schedule)};
}

std::vector<Choice> schedule_candidates(const Region& region, const std::vector<bool>& constant,
                                        const Bindings& typical, const Target& target) {
  const tile::RegionView view{region, constant, typical};
  std::vector<tile::Schedule> schedules;
  const auto is_special = [](const tile::Schedule& schedule) { return !schedule.strategy->is_general; };
  for (const tile::Strategy* strategy : tile::strategies()) {
    const bool is_first = std::none_of(schedules.begin(), schedules.end(), is_special);
    if (strategy->kind.value_or(target.kind) != target.kind || (strategy->is_fallback && !is_first)) continue;
    if (!strategy->why_not(view, target).empty()) continue;
    strategy->candidates(view, target, is_first, schedules);
  }
  std::vector<Choice> candidates;
  for (const tile::Schedule& schedule : schedules) candidates.push_back(choice_of(region, constant, schedule));
  return candidates;
}

std::vector<std::pair<std::string, std::string>> refused_strategies(const Region& region,
                                                                    const std::vector<bool>& constant,
                                                                    const Bindings& typical, const Target& target) {
  std::vector<std::pair<std::string, std::string>> refused;
  for (const tile::Strategy* strategy : tile::strategies()) {
    if (strategy->kind.value_or(target.kind) != target.kind) continue;
    std::string reason = strategy->why_not({region, constant, typical}, target);
    if (!reason.empty()) refused.emplace_back(strategy->name, std::move(reason));
  }
  return refused;
}

}  // namespace graft
