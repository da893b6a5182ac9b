// SPDX-License-Identifier: Apache-2.0
// The cost model's choice of schedule: what `--tune off` uses and what the tuner must beat.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "strategy/strategy.h"

namespace graft {

/// A way to run a region: its schedule and the layouts that its constant operands must have.
struct Choice {
  tile::Schedule schedule;
  tile::Layouts layouts;  ///< by region tensor
};

/// The schedule with the layouts that it asks for.
Choice choice_of(const Region& region, const std::vector<bool>& constant, const tile::Schedule& schedule);

/// Candidates for a normalised region, the cost model's favourite first. `constant[t]`: region tensor t is known when
/// compiling, so that it may be packed. Sizes are judged at `typical` values of the symbols.
std::vector<Choice> schedule_candidates(const Region& region, const std::vector<bool>& constant,
                                        const Bindings& typical, const Target& target);

/// Why strategies of the target's kind have no candidate for the region, as (name, reason).
std::vector<std::pair<std::string, std::string>> refused_strategies(const Region& region,
                                                                    const std::vector<bool>& constant,
                                                                    const Bindings& typical, const Target& target);

}  // namespace graft
