// SPDX-License-Identifier: Apache-2.0
// How the blocks of a GPU share a region that moves memory more than it computes.
#pragma once

#include <optional>

#include "base/size.h"
#include "expr/region.h"
#include "strategy/block.h"

namespace graft {

/// Tiles for the blocks of a GPU at typical sizes: enough elements for many loads in flight, whole rows where a row is
/// read several times, squares where a map transposes. Nothing when the region has no axis common to all forms.
std::optional<tile::BlockSchedule> block_schedule(const Region& region, const Bindings& typical);

}  // namespace graft
