// SPDX-License-Identifier: Apache-2.0
// The cost model across ways: what a region takes by a generated kernel or in a library, before anything is measured.
#pragma once

#include "expr/region.h"
#include "strategy/region_work.h"
#include "plan/ways.h"
#include "target/peak.h"
#include "target/target.h"

namespace graft {

/// Seconds that a region takes at least on the target at typical sizes: its arithmetic by all units, or its memory.
double least_seconds(const Region& region, const Bindings& typical, const Target& target);
double least_seconds(const Region& region, const RegionWork& least, const Target& target);
/// The same on a machine of which more is known than on the target.
double least_seconds(const Region& region, const RegionWork& least, const Target& target, const Peak& peak);
/// Seconds that a way takes, roughly: the region's forms as they are spelled, at the rates that ways of its kind reach.
/// Ways of a GPU are ranked by rules (is_worth_library), not by this.
double estimated_seconds(const Region& region, const Way& way, const Bindings& typical, const Target& target);

}  // namespace graft
